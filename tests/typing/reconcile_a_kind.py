"""A controller, as type checkers see it: the context has the type of its object, and reconcilers are checked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import assert_type

from kubewright import Context, CustomResource, Finalizer, LeaderElection, Manager, Model, Result, Watch, controller
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Service
from kubewright.cache import Lister
from kubewright.client import MergePatch, ObjectList
from kubewright.controllers import Controller, Request
from kubewright.controllers.predicates import Predicate, generation_changed, labels_changed


class CacheSpec(Model):
    size: int = 1


class CacheStatus(Model):
    ready: bool = False


class Cache(CustomResource, group="my.domain", version="v1"):
    spec: CacheSpec
    status: CacheStatus | None = None


def uses(settings: ConfigMap, caches: Lister[Cache]) -> Iterable[Request]:
    assert_type(caches.list(), list[Cache])
    return [Request(each.metadata.namespace, each.metadata.name) for each in caches.list()]


async def clean_up(ctx: Context[Cache]) -> None:
    assert_type(ctx.object, Cache)


@controller(
    Cache,
    owns=[Deployment, Service],
    watches=[Watch.mapped(ConfigMap, uses, predicate=labels_changed)],
    predicate=generation_changed | ~labels_changed & Predicate(lambda event: event.type == "add"),
    indexers={"size": lambda cache: [str(cache.spec.size)]},
    finalizer=Finalizer("my.domain/cache", clean_up),
)
async def reconcile(ctx: Context[Cache]) -> Result | None:
    assert_type(ctx.object.spec.size, int)
    assert_type(await ctx.get(Deployment, "web"), Deployment)
    assert_type(await ctx.list(Service, owned=True), ObjectList[Service])
    assert_type(await ctx.apply(Service()), Service)
    assert_type(await ctx.patch(Service(), MergePatch({})), Service)
    await ctx.update_status(CacheStatus(ready=True))
    ctx.log.info("Done", size=ctx.object.spec.size)
    ctx.events.normal(ctx.object, "Done", "Everything is up to date")
    await ctx.apply({})  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    return Result(requeue_after=timedelta(seconds=10))


class Reconciler:
    async def reconcile(self, ctx: Context[Cache]) -> None:
        assert_type(ctx.object, Cache)


assert_type(reconcile, Controller[Cache])
assert_type(controller(Cache)(Reconciler()), Controller[Cache])
Manager(controllers=[reconcile], leader_election=LeaderElection()).add(lambda: reconcile_all(), needs_leader=False)


async def reconcile_all() -> None: ...


async def of_another_kind(ctx: Context[Deployment]) -> None: ...


def not_async(ctx: Context[Cache]) -> None: ...


controller(Cache)(of_another_kind)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Cache)(not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
