"""A paused object is not reconciled until the pause ends."""

import logging
from datetime import timedelta

import pytest

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Finalizer, Result, controller
from kubewright.controllers._loop import PAUSED
from kubewright.controllers.predicates import Predicate
from kubewright.machinery.errors import NotFound

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.name.startswith("web"))
data_changed = ours & Predicate(lambda event: not (event.old and event.new) or b'"a"' in event.new.data)
"""A predicate that ignores annotations."""


async def pause(shop: Workshop, value: str | None) -> None:
    change = MergePatch({"metadata": {"annotations": {PAUSED: value}}})
    await shop.admin.patch(ConfigMap, change, name="web", namespace=NAMESPACE)
    await shop.settle()


async def test_a_paused_object_is_not_reconciled_for_any_reason(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    seen: list[str] = []

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> Result:
        seen.append(ctx.request.name)
        await ctx.apply(secret("child"))
        return Result(requeue_after=timedelta(seconds=10))

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await pause(shop, "true")
    seen.clear()
    await shop.admin.delete(Secret, "child", namespace=NAMESPACE)
    await shop.clock.advance(60)
    with pytest.raises(NotFound):
        await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert seen == []
    assert shop.told.paused_now == 1
    await pause(shop, None)
    await shop.admin.get(Secret, "child", namespace=NAMESPACE)
    assert shop.told.paused_now == 0
    said = [each.msg for each in caplog.records if each.msg in ("Object paused", "Object resumed")]
    assert said == ["Object paused", "Object resumed"]


async def test_the_end_of_a_pause_is_noticed_whatever_the_predicate_says(shop: Workshop) -> None:
    seen: list[str] = []

    @controller(ConfigMap, predicate=data_changed)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.append(str(ctx.object.data.get("a")))

    paused = config_map("web", a="1")
    paused.metadata.annotations[PAUSED] = "true"
    await shop.run(reconcile)
    await shop.create(paused)
    assert seen == []
    await pause(shop, "false")
    assert seen == ["1"]


async def test_a_finalizer_waits_for_the_end_of_the_pause(shop: Workshop) -> None:
    cleaned: list[str] = []

    async def clean_up(ctx: Context[ConfigMap]) -> None:
        cleaned.append(ctx.request.name)

    @controller(ConfigMap, predicate=ours, finalizer=Finalizer("kubewright.test/child", clean_up))
    async def reconcile(ctx: Context[ConfigMap]) -> None: ...

    await shop.run(reconcile)
    await shop.create(config_map("web"))
    await pause(shop, "true")
    await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
    await shop.settle()
    assert cleaned == []
    await pause(shop, None)
    assert cleaned == ["web"]
    with pytest.raises(NotFound):
        await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE)


async def test_a_paused_object_that_is_deleted_is_forgotten(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        pytest.fail("it was paused all its life")

    paused = config_map("web")
    paused.metadata.annotations[PAUSED] = "true"
    await shop.run(reconcile)
    await shop.create(paused)
    assert shop.told.paused_now == 1
    await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
    await shop.settle()
    assert shop.told.paused_now == 0
