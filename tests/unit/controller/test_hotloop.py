"""Reconciles that keep undoing another writer's change are reported; continuous work is not."""

import asyncio
import itertools
import logging
from typing import Any

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.apis.meta.v1 import ManagedFieldsEntry, ObjectMeta
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, controller
from kubewright.controllers._hotloop import ROUNDS, Existence
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed
from kubewright.testing import VirtualClock

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.name.startswith("web"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the keys of the hot loop warnings in the log."""
    return [each.__dict__["fields"] for each in caplog.records if each.msg.startswith("Hot loop")]


async def test_a_field_that_another_manager_keeps_undoing_is_named_with_values_and_manager(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child", tier="gold"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(12):
        undo = MergePatch({"metadata": {"labels": {"tier": "lead"}}})
        await shop.admin.patch(Secret, undo, name="web-child", namespace=NAMESPACE, field_manager="meddler")
        await shop.settle()
    (told,) = warnings(caplog)
    assert told["object"] == "Secret default/web-child"
    assert told["field"] == "metadata.labels.tier"
    assert told["managers"] == "meddler"
    assert shop.told.loops >= 1


async def test_values_of_a_fight_are_shown_but_those_of_secrets_are_not(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[ConfigMap, Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(config_map("child", size="3"))
        await ctx.apply(secret("child", tier="gold"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(12):
        for kind, undo in ((ConfigMap, {"data": {"size": "4"}}), (Secret, {"metadata": {"labels": {"tier": "lead"}}})):
            await shop.admin.patch(kind, MergePatch(undo), name="child", namespace=NAMESPACE)
        await shop.settle()
    shown = {told["object"]: (told["found"], told["written"]) for told in warnings(caplog)}
    assert shown == {"ConfigMap default/child": ('"4"', '"3"'), "Secret default/child": ("(secret)", "(secret)")}


async def test_two_controllers_of_one_program_that_want_different_things_are_both_named(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    turns = itertools.count()

    @controller(ConfigMap, name="big", owns=[Secret], predicate=ours)
    async def big(ctx: Context[ConfigMap]) -> None:
        if next(turns) < 60:
            await ctx.apply(secret("web-child", size="big"))

    @controller(ConfigMap, name="small", owns=[Secret], predicate=ours)
    async def small(ctx: Context[ConfigMap]) -> None:
        if next(turns) < 60:
            await ctx.apply(secret("web-child", size="small"))

    await shop.run(big)
    await shop.run(small)
    await shop.create(config_map("web"))
    await shop.until(lambda: next(turns) > 60)
    told = {each["controller"]: (each["field"], each["managers"]) for each in warnings(caplog)}
    assert told == dict.fromkeys(("big", "small"), ("metadata.labels.size", "operator (this program)"))


async def test_a_fight_is_reported_although_the_live_object_cannot_be_read(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(request: Request) -> Response | None:
        if request.method == "GET" and request.path.endswith("/web-child"):
            raise ConnectionFailed("connection refused")
        return None

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child", tier="gold"))

    shop.spoil = refuse
    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(12):
        undo = MergePatch({"metadata": {"labels": {"tier": "lead"}}})
        await shop.admin.patch(Secret, undo, name="web-child", namespace=NAMESPACE, field_manager="meddler")
        await shop.clock.advance(3)  # the read of the live object is retried
    (told,) = warnings(caplog)
    assert (told["field"], told["managers"]) == ("metadata.labels.tier", "meddler")


async def test_a_reconcile_that_its_own_writes_trigger_is_named(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    counter = itertools.count()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if (number := next(counter)) < 100:
            await ctx.patch(ctx.object, MergePatch({"data": {"seen": str(number)}}))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.until(lambda: next(counter) > 100)
    (told,) = warnings(caplog)
    assert (told["object"], told["field"]) == ("ConfigMap default/web", "data.seen")
    assert told["managers"] is None


async def test_values_that_a_reconcile_itself_flips_between_are_named_soon(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    writes = itertools.count()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if next(writes) < 14:
            await ctx.patch(ctx.object, MergePatch({"data": {"phase": "working"}}))
            await ctx.patch(ctx.object, MergePatch({"data": {"phase": "done"}}))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.until(lambda: warnings(caplog))
    (told,) = warnings(caplog)
    assert told["field"] == "data.phase"
    assert {told["found"], told["written"]} == {'"working"', '"done"'}


async def test_a_status_that_follows_other_objects_is_not_a_hot_loop(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        child = await ctx.apply(secret("web-child"))
        state = child.metadata.annotations.get("state", "unknown")
        if ctx.object.data.get("state") != state:
            await ctx.patch(ctx.object, MergePatch({"data": {"state": state}}))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for number in range(60):
        state = MergePatch({"metadata": {"annotations": {"state": ("up", "down", "degraded")[number % 3]}}})
        await shop.admin.patch(Secret, state, name="web-child", namespace=NAMESPACE)
        await shop.settle()
    assert (await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE)).data["state"] == "degraded"
    assert warnings(caplog) == []


async def test_work_in_steps_is_not_a_hot_loop(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    @controller(ConfigMap, cached=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        have = len(await ctx.list(Secret))
        if have < 60:
            await ctx.create(secret(f"web-{have}"))
            await ctx.patch(ctx.object, MergePatch({"data": {"have": str(have + 1)}}))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.until(lambda: shop.sent.count(("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets")) == 60)
    await shop.settle()
    assert warnings(caplog) == []


async def test_an_object_that_is_created_repeatedly_is_not_a_fight(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.object.data.get("ready") != "yes":
            await ctx.patch(ctx.object, MergePatch({"data": {"ready": "yes"}}))

    await shop.run(reconcile)
    for _ in range(15):
        await shop.create(config_map("web"))
        await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
        await shop.settle()
    assert warnings(caplog) == []


async def test_an_object_that_another_writer_keeps_deleting_is_named(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(20):
        await shop.settle()
        await shop.admin.delete(Secret, "web-child", namespace=NAMESPACE)
    await shop.settle()
    (line,) = [each for each in caplog.records if each.msg.startswith("Hot loop")]
    assert line.msg == "Hot loop: objects created by a reconcile deleted by another client"
    assert line.__dict__["fields"]["object"] == f"Secret {NAMESPACE}/web-child"


async def test_an_object_that_another_writer_keeps_creating_is_named(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(Secret, predicate=ours)
    async def reconcile(ctx: Context[Secret]) -> None:
        await ctx.delete(ctx.object)

    await shop.run(reconcile)
    for _ in range(20):
        await shop.create(secret("web"))
        await shop.settle()
    (line,) = [each for each in caplog.records if each.msg.startswith("Hot loop")]
    assert line.msg == "Hot loop: objects deleted by a reconcile created by another client"
    assert line.__dict__["fields"]["object"] == f"Secret {NAMESPACE}/web"


async def test_an_object_that_is_deleted_occasionally_is_not_a_fight(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(20):
        await shop.settle()
        await shop.clock.advance(11)
        await shop.admin.delete(Secret, "web-child", namespace=NAMESPACE)
    await shop.settle()
    assert warnings(caplog) == []


async def test_a_reconcile_that_creates_and_deletes_its_own_object_is_not_a_hot_loop(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    runs: asyncio.Queue[None] = asyncio.Queue()  # each delete triggers the next run, so the work never ends

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.delete(await ctx.apply(secret("web-run")))
        runs.put_nowait(None)

    await shop.run(reconcile)
    await shop.admin.create(config_map("web"))
    for number in range(20):
        change = MergePatch({"data": {"run": str(number)}})
        await shop.admin.patch(ConfigMap, change, name="web", namespace=NAMESPACE)
        await runs.get()
    assert warnings(caplog) == []


async def test_a_child_that_is_created_and_deleted_with_its_owner_is_not_a_fight(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child"))

    await shop.run(reconcile)
    for _ in range(20):
        await shop.create(config_map("web"))
        await shop.settle()
        await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
        await shop.admin.delete(Secret, "web-child", namespace=NAMESPACE)
        await shop.settle()
    assert warnings(caplog) == []


async def test_changes_back_and_forth_by_a_user_are_not_a_fight(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child", size=ctx.object.data["size"]))

    await shop.run(reconcile)
    await shop.create(config_map("web", size="1"))
    for number in range(40):
        change = MergePatch({"data": {"size": str(number % 2)}})
        await shop.admin.patch(ConfigMap, change, name="web", namespace=NAMESPACE)
        await shop.settle()
    assert warnings(caplog) == []


async def test_a_time_that_is_renewed_at_intervals_is_not_a_hot_loop(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        moment = str(int(shop.clock.monotonic()))
        if ctx.object.data.get("checked") != moment:
            await ctx.patch(ctx.object, MergePatch({"data": {"checked": moment}}))

    await shop.run(reconcile)
    await shop.create(ConfigMap(metadata=ObjectMeta(name="web", namespace=NAMESPACE)))
    for number in range(60):
        await shop.clock.advance(10)
        look = MergePatch({"metadata": {"annotations": {"look": str(number)}}})
        await shop.admin.patch(ConfigMap, look, name="web", namespace=NAMESPACE)
        await shop.settle()
    assert warnings(caplog) == []


async def test_a_fight_that_continues_is_reported_once_and_counted(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child", tier="gold"))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    for _ in range(80):
        undo = MergePatch({"metadata": {"labels": {"tier": "lead"}}})
        await shop.admin.patch(Secret, undo, name="web-child", namespace=NAMESPACE)
        await shop.settle()
    assert len(warnings(caplog)) == 1
    assert shop.told.loops >= 2


async def test_a_loop_that_ends_early_is_not_reported(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    steps = itertools.count()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if (step := next(steps)) < 20:
            await ctx.patch(ctx.object, MergePatch({"data": {"step": str(step)}}))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await shop.settle()
    assert (await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE)).data["step"] == "19"
    assert warnings(caplog) == []


def test_a_fight_over_one_object_is_found_among_many_other_writes() -> None:
    existence = Existence(VirtualClock())
    made = 0

    def is_fought_over(name: str) -> bool:
        nonlocal made
        made += 1
        obj = config_map(name)
        obj.metadata.uid = str(made)
        obj.metadata.managed_fields = [ManagedFieldsEntry(manager="ours")]
        return existence.written(obj)

    assert [is_fought_over("web") for _ in range(ROUNDS)] == [False] * ROUNDS
    assert not any(is_fought_over(f"other-{number}") for number in range(1500))
    assert is_fought_over("web")
