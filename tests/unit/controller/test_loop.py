"""The causes and the results of reconciles."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest

from kubewright.apis.core.v1 import ConfigMap, Namespace, Secret
from kubewright.cache import Lister
from kubewright.controllers import Context, DeletedContext, Request, Result, Watch, controller
from kubewright.controllers._reconcile import Outcome
from kubewright.controllers.predicates import Predicate, labels_changed
from kubewright.controllers.sources import Channel
from kubewright.testing import VirtualClock

from .workshop import NAMESPACE, Workshop, config_map, errors, ours, secret


async def test_existing_and_new_objects_are_reconciled(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(f"{ctx.request} {ctx.object.data}")

    await shop.create(config_map("early", a="1"))
    await shop.run(reconcile)
    await shop.create(config_map("late", a="2"))
    assert seen == ["default/early {'a': '1'}", "default/late {'a': '2'}"]


async def test_a_change_of_an_owned_object_reconciles_its_controlling_owner(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)
        await ctx.apply(secret(f"{ctx.request.name}-child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.create(secret("nobodys"))
    seen.clear()
    await shop.admin.apply(secret("web-child", colour="blue"))
    await shop.settle()
    assert seen == ["web"]


async def test_an_owned_object_that_is_deleted_by_hand_is_created_again(shop: Workshop) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    first = await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    await shop.admin.delete(first)
    await shop.settle()
    again = await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert again.metadata.uid != first.metadata.uid


async def test_a_watched_object_reconciles_what_the_map_function_returns(shop: Workshop) -> None:
    seen: list[str] = []

    def users(changed: Secret, maps: Lister[ConfigMap]) -> Iterable[Request]:
        return [
            Request(each.metadata.namespace, each.metadata.name)
            for each in maps.list(namespace=NAMESPACE)
            if each.data.get("secret") == changed.metadata.name
        ]

    @controller(ConfigMap, watches=[Watch.mapped(Secret, users)], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    for name, used in (("a", "key"), ("b", "other"), ("c", "key")):
        await shop.create(config_map(name, secret=used))
    await shop.run(reconcile)
    seen.clear()
    await shop.create(secret("key"))
    assert seen == ["a", "c"]


async def test_a_map_function_that_raises_loses_only_that_event(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def users(changed: Secret, maps: Lister[ConfigMap]) -> Iterable[Request]:
        if changed.metadata.name == "bad":
            raise KeyError("what?")
        return [Request(NAMESPACE, "web")]

    @controller(ConfigMap, watches=[Watch.mapped(Secret, users)], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.create(config_map("web"))
    await shop.run(reconcile)
    seen.clear()
    await shop.create(secret("bad"))
    assert seen == []
    await shop.create(secret("good"))
    assert seen == ["web"]
    assert errors(caplog) == ["Event not handled"]


async def test_an_event_that_the_predicate_rejects_leads_to_nothing(shop: Workshop) -> None:
    seen: list[dict[str, str]] = []

    @controller(ConfigMap, predicate=ours & labels_changed)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.object.data)

    await shop.run(reconcile)
    obj = await shop.create(config_map("web", n="0"))
    obj.data["n"] = "1"
    obj = await shop.admin.update(obj)
    await shop.settle()
    assert seen == [{"n": "0"}]
    obj.metadata.labels["team"] = "a"
    await shop.admin.update(obj)
    await shop.settle()
    assert seen == [{"n": "0"}, {"n": "1"}]


async def test_a_channel_requests_reconciles(shop: Workshop) -> None:
    seen: list[str] = []
    doorbell = Channel()

    @controller(ConfigMap, predicate=ours, sources=[doorbell])
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    doorbell.send(Request(NAMESPACE, "web"))  # no controller listens yet
    await shop.create(config_map("web"))
    await shop.run(reconcile)
    seen.clear()
    doorbell.send(Request(NAMESPACE, "web"))
    await shop.settle()
    assert seen == ["web"]


async def test_a_result_with_requeue_after_leads_to_a_later_reconcile(shop: Workshop, clock: VirtualClock) -> None:
    times: list[float] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> Result:
        times.append(clock.monotonic())
        return Result(requeue_after=timedelta(seconds=10))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(25)
    assert times == [0, 10, 20]
    assert shop.told.outcomes == [Outcome.REQUEUE_AFTER] * 3


async def test_workers_run_at_the_same_time_but_never_for_one_object(shop: Workshop) -> None:
    at_work: set[str] = set()
    most = 0
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours, workers=3)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        nonlocal most
        assert ctx.request.name not in at_work
        at_work.add(ctx.request.name)
        most = max(most, len(at_work))
        await release.wait()
        at_work.discard(ctx.request.name)

    await shop.run(reconcile)
    for number in range(5):
        obj = await shop.create(config_map(f"m{number}"))
        obj.data["a"] = "b"
        await shop.admin.update(obj)
    await shop.settle()
    assert most == 3
    release.set()
    await shop.until(lambda: len(shop.told.outcomes) >= 8)
    assert shop.told.failures == []


async def test_an_object_does_not_wait_for_the_reconciles_of_others(shop: Workshop) -> None:
    begun: list[str] = []
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        begun.append(ctx.request.name)
        await release.wait()

    await shop.run(reconcile)
    for name in ("a", "b", "c"):
        await shop.create(config_map(name))
    assert begun == ["a", "b", "c"]
    release.set()


async def test_deleted_objects_do_not_reach_the_function(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.request.name)

    await shop.run(reconcile)
    held = config_map("held")
    held.metadata.finalizers = ["example.com/somebody"]
    await shop.create(held)
    await shop.create(config_map("free"))
    seen.clear()
    for name in ("held", "free"):
        await shop.admin.delete(ConfigMap, name, namespace=NAMESPACE)
    await shop.settle()
    assert seen == []


async def test_a_controller_can_reconcile_deleted_objects_too(shop: Workshop) -> None:
    seen: list[tuple[str, bool]] = []

    @controller(ConfigMap, predicate=ours, reconcile_deleted=True)
    async def reconcile(ctx: Context[ConfigMap] | DeletedContext[ConfigMap]) -> None:
        seen.append((ctx.request.name, isinstance(ctx, DeletedContext)))
        assert isinstance(ctx, DeletedContext) or ctx.object.metadata.name == ctx.request.name

    await shop.run(reconcile)
    held = config_map("held")
    held.metadata.finalizers = ["example.com/somebody"]
    await shop.create(held)
    await shop.create(config_map("free"))
    seen.clear()
    for name in ("held", "free"):
        await shop.admin.delete(ConfigMap, name, namespace=NAMESPACE)
    await shop.settle()
    assert seen == [("held", False), ("free", True)]


async def test_a_graceful_stop_lets_running_reconciles_finish_and_starts_none(shop: Workshop) -> None:
    begun: list[str] = []
    ended: list[str] = []
    release = asyncio.Event()

    @controller(ConfigMap, predicate=ours, workers=1)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        begun.append(ctx.request.name)
        await release.wait()
        ended.append(ctx.request.name)

    loop = await shop.run(reconcile)
    await shop.create(config_map("a"))
    await shop.create(config_map("b"))
    task = await shop.stop(loop)
    assert not task.done()
    release.set()
    await task
    assert begun == ended == ["a"]


async def test_a_cluster_scoped_object_has_one_request_whether_its_namespace_is_none_or_empty(shop: Workshop) -> None:
    at_work: set[str] = set()
    seen: list[str] = []

    def namespaces(changed: ConfigMap, _: Lister[Namespace]) -> Iterable[Request]:
        return [Request("", NAMESPACE)]  # as in Go

    async def reconcile(ctx: Context[Namespace]) -> None:
        assert ctx.request.name not in at_work
        at_work.add(ctx.request.name)
        await asyncio.sleep(1)
        at_work.discard(ctx.request.name)
        seen.append(ctx.request.name)

    mine = Predicate(lambda event: event.key.name == NAMESPACE)
    watch = Watch.mapped(ConfigMap, namespaces, predicate=ours)
    await shop.run(controller(Namespace, watches=[watch], predicate=mine)(reconcile))
    await shop.create(config_map("web"))
    await shop.clock.advance(5)
    assert seen == [NAMESPACE, NAMESPACE]
    assert shop.told.failures == []


def test_a_cluster_scoped_request_has_no_namespace() -> None:
    assert Request("", "node-1") == Request(None, "node-1")
    assert str(Request(None, "node-1")) == "node-1"
    assert str(Request("shop", "web")) == "shop/web"
