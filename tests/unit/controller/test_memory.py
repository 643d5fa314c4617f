"""The state that a controller keeps per object, which it drops when the object is deleted."""

import logging

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.client._patch import MergePatch
from kubewright.controllers import Backoff, Context, DeletedContext, DeleteFuse, RateLimit, Retry, controller
from kubewright.controllers._loop import PAUSED
from kubewright.controllers.predicates import Predicate
from kubewright.machinery.errors import Conflict, TerminalError
from kubewright.testing import VirtualClock

from .workshop import NAMESPACE, Workshop, config_map, ours, secret

no_deletes = ours & Predicate(lambda event: event.type != "delete")


async def remove(shop: Workshop, *names: str) -> None:
    for name in names:
        await shop.admin.delete(ConfigMap, name, namespace=NAMESPACE)
    await shop.settle()


async def test_objects_that_were_reconciled_are_forgotten(shop: Workshop) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret(f"{ctx.request.name}-child"))

    loop = await shop.run(reconcile)
    for number in range(10):
        await shop.create(config_map(f"web-{number}"))
    assert loop.queue.known == 0


async def test_deleted_objects_are_forgotten_whatever_was_wrong_with_them(shop: Workshop, clock: VirtualClock) -> None:
    @controller(
        ConfigMap, owns=[Secret], predicate=ours, retry=Retry(backoff=Backoff(base=1)), delete_fuse=DeleteFuse(limit=1)
    )
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        match ctx.request.name:
            case "web-failing":
                raise OSError("the cloud is down")
            case "web-conflict":
                raise Conflict("changed")
            case "web-terminal":
                raise TerminalError("spec.size cannot shrink")
            case "web-mistake":
                raise KeyError("spec")
            case "web-deletes":
                for number in range(2):
                    await ctx.delete(await ctx.apply(secret(f"child-{number}")))
            case _:
                pytest.fail("the object is paused")

    loop = await shop.run(reconcile)
    names = ["web-failing", "web-conflict", "web-terminal", "web-mistake", "web-deletes", "web-paused"]
    for name in names:
        obj = config_map(name)
        if name == "web-paused":
            obj.metadata.annotations[PAUSED] = "true"
        await shop.create(obj)
    await clock.advance(10)
    assert loop.queue.known == len(names)
    await remove(shop, *names)
    assert loop.queue.known == 0
    await clock.advance(3600)
    assert loop.queue.known == 0


async def test_deleted_objects_are_forgotten_if_the_predicate_passes_no_deletes(
    shop: Workshop, clock: VirtualClock
) -> None:
    @controller(ConfigMap, predicate=no_deletes, retry=Retry(backoff=Backoff(base=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.request.name == "web-terminal":
            raise TerminalError("spec.size cannot shrink")
        raise OSError("the cloud is down")

    loop = await shop.run(reconcile)
    for name in ("web-failing", "web-terminal"):
        await shop.create(config_map(name))
    assert loop.queue.known == 2
    await remove(shop, "web-failing", "web-terminal")
    await clock.advance(10)
    assert loop.queue.known == 0


async def test_an_object_that_is_deleted_during_its_reconcile_is_forgotten(shop: Workshop, clock: VirtualClock) -> None:
    @controller(ConfigMap, predicate=no_deletes, retry=Retry(backoff=Backoff(base=1)))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.attempt == 1:
            raise OSError("the cloud is down")
        await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
        await ctx.patch(ctx.object, MergePatch({"data": {"a": "1"}}))

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await clock.advance(10)
    assert loop.queue.known == 0


async def test_a_terminal_error_after_the_delete_is_forgotten(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, reconcile_deleted=True)
    async def reconcile(ctx: Context[ConfigMap] | DeletedContext[ConfigMap]) -> None:
        if isinstance(ctx, DeletedContext):
            raise TerminalError("the cloud does not know the object")

    loop = await shop.run(reconcile)
    await shop.create(config_map("web"))
    await remove(shop, "web")
    assert len(shop.told.failures) == 1
    assert loop.queue.known == 0


async def test_a_rate_limit_of_an_object_is_forgotten_when_it_is_over(shop: Workshop, clock: VirtualClock) -> None:
    times: list[float] = []

    @controller(ConfigMap, predicate=ours, key_rate_limit=RateLimit(per_second=0.1, burst=1))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        times.append(clock.monotonic())

    loop = await shop.run(reconcile)
    obj = await shop.create(config_map("web"))
    await clock.advance(1)
    obj.data["a"] = "1"
    await shop.admin.update(obj)
    await clock.advance(20)
    assert times == [0, 10]
    await clock.advance(10)
    await shop.create(config_map("web-2"))
    assert loop.queue.known == 1
    await remove(shop, "web", "web-2")
    await clock.advance(30)
    await shop.create(config_map("web"))
    assert loop.queue.known == 1


async def test_a_burst_of_events_leads_to_one_debounced_reconcile(shop: Workshop, clock: VirtualClock) -> None:
    seen: list[tuple[float, str]] = []

    @controller(ConfigMap, predicate=ours, debounce=1)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append((clock.monotonic(), ctx.object.data.get("a", "")))

    await shop.run(reconcile)
    obj = await shop.create(config_map("web"))
    for number in range(3):
        await clock.advance(0.5)
        obj.data["a"] = str(number)
        obj = await shop.admin.update(obj)
        await shop.settle()
    await clock.advance(10)
    assert seen == [(2.5, "2")]


@pytest.mark.parametrize("end", ["success", "failure"])
async def test_a_reconcile_without_a_conflict_resets_the_number_of_conflicts(
    shop: Workshop, clock: VirtualClock, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    attempts = 0

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        nonlocal attempts
        attempts += 1
        if attempts % 4:
            raise Conflict("changed")
        if end == "failure":
            raise TerminalError("spec.size cannot shrink")

    await shop.run(reconcile)
    obj = await shop.create(config_map("web"))
    for number in range(4):
        await clock.advance(10)
        obj.data["a"] = str(number)
        obj = await shop.admin.update(obj)
    await clock.advance(10)
    assert attempts == 20  # five times three conflicts and a success; six conflicts in a row would log a warning
    assert [each.msg for each in caplog.records if each.levelno == logging.WARNING] == []
