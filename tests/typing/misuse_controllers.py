"""Mistakes in the declaration of a controller, or in a reconcile, are errors for type checkers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import assert_type

from kubewright import (
    Context,
    CustomResource,
    Finalizer,
    Manager,
    Model,
    PolicyRule,
    Result,
    Watch,
    controller,
    set_condition,
)
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Pod, Secret
from kubewright.cache import Lister, Scope
from kubewright.client import PartialObjectMetadata
from kubewright.controllers import Controller, DeletedContext, Request
from kubewright.controllers.predicates import Predicate, labels_changed
from kubewright.controllers.sources import Channel, Polling


class ShopSpec(Model):
    size: int = 1


class Shop(CustomResource, group="my.domain", version="v1"):
    spec: ShopSpec


def users_of(settings: ConfigMap, shops: Lister[Shop]) -> Iterable[Request]:
    return shops.keys_by_index("settings", settings.metadata.name)


def pods_of(pod: PartialObjectMetadata, shops: Lister[Shop]) -> Iterable[Request]:
    return [entry.key for entry in shops.entries(namespace=pod.metadata.namespace)]


def names_of(shop: Shop) -> Iterable[str]:
    return [shop.metadata.name]


def names_of_secret(secret: Secret) -> Iterable[str]:
    return [secret.metadata.name]


async def reconcile(ctx: Context[Shop]) -> Result | None:
    set_condition([], "Ready", "True", reason="Done")
    set_condition([], "Ready", True, reason="Done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    set_condition([], "Ready", "true", reason="Done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    set_condition([], "Ready", "True")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await ctx.get("ConfigMap", "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.delete(Shop)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.update_status({"ready": True})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.object.spec.sise = 3  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    ctx.request.name = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    return Result("10")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_result(ctx: Context[Shop]) -> timedelta:
    return timedelta(seconds=5)


async def reconcile_deleted(ctx: Context[Shop] | DeletedContext[Shop]) -> None:
    ctx.object.spec.size += 1  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    if isinstance(ctx, DeletedContext):
        await ctx.apply(Secret())  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await ctx.list(Secret, owned=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        return
    assert_type(ctx.object, Shop)


assert_type(controller(Shop, reconcile_deleted=True)(reconcile_deleted), Controller[Shop])


class Sync:
    def reconcile(self, ctx: Context[Shop]) -> None: ...


class OfAnotherKind:
    async def reconcile(self, ctx: Context[Deployment]) -> None: ...


PodMetadata = PartialObjectMetadata.of(Pod)

controller(
    Shop,
    owns=[Deployment],
    watches=[Watch.mapped(ConfigMap, users_of), Watch.indexed(Secret, "secret"), Watch.mapped(PodMetadata, pods_of)],
    indexers={"settings": names_of, "secret": lambda shop: [shop.metadata.name]},
    predicate=labels_changed & ~Predicate(lambda event: event.type == "delete"),
    sources=[Channel()],
    rules=[PolicyRule(verbs=["get"])],
)(reconcile)

Watch.mapped(Secret, users_of)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Watch.mapped("ConfigMap", users_of)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller("Shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop, finalizer=Finalizer("my.domain/a", OfAnotherKind().reconcile))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
controller(Shop, finalizer="my.domain/a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop, owns=["Deployment"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
controller(Shop, owns=Deployment)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop, watches=[ConfigMap])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
controller(Shop, indexers={"s": names_of_secret})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
controller(Shop, predicate=lambda event: True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop, timeout="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop, worker=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
controller(Shop)(wrong_result)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop)(Sync())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop)(OfAnotherKind())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
controller(Shop)(Sync)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Manager(reconcile)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Manager([reconcile])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Manager([], scopes={Pod: Scope(label="a=b")})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Manager([]).add(reconcile)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Polling(timedelta(seconds=1), lambda: {})  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
Channel().send("default/shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
