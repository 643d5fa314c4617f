"""The fuse stops mass deletion until a user confirms it."""

import asyncio
import logging
from datetime import timedelta

import pytest

from kubewright.apis.core.v1 import ConfigMap, Container, Pod, PodSpec, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.policy.v1 import Eviction
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, DeleteFuse, controller
from kubewright.controllers._fuse import ALLOW_DELETES, DeletesStopped
from kubewright.controllers._reconcile import Failure
from kubewright.controllers.predicates import Predicate
from kubewright.machinery.errors import ConfigError

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.name.startswith("web") and event.new is not None)
only_data = ours & Predicate(lambda event: event.old is None or b'"surplus"' in (event.new.data if event.new else b""))


async def seed(shop: Workshop, count: int) -> None:
    for number in range(count):
        await shop.admin.create(secret(f"s{number}", surplus="yes"))
    await shop.settle()


async def left(shop: Workshop) -> int:
    return len(await shop.admin.list(Secret, namespace=NAMESPACE, labels={"surplus": "yes"}))


def sweeper(fuse: DeleteFuse | None) -> Controller[ConfigMap]:
    @controller(ConfigMap, predicate=ours, writes=[Secret], delete_fuse=fuse)
    async def sweep(ctx: Context[ConfigMap]) -> None:
        for each in await ctx.list(Secret, labels={"surplus": "yes"}):
            await ctx.delete(each)

    return sweep


async def test_deletes_above_the_limit_are_not_sent_and_the_message_says_what_to_do(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    await seed(shop, 8)
    await shop.run(sweeper(DeleteFuse(limit=5)))
    await shop.create(config_map("web"))
    assert await left(shop) == 3
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.msg == "Deletes stopped"
    assert line.__dict__["fields"]["error"] == (
        'Secret "default/s5" not deleted: controller configmap asked for more than 5 deletes within 60 s, and deletes '
        'nothing more. If they are meant, put the annotation kubewright.dev/allow-deletes: "true" on the object that '
        "is reconciled, or start again with --allow-mass-deletion"
    )
    assert shop.told.stopped == 1
    assert shop.told.failures == [Failure.TERMINAL]


async def test_a_blown_fuse_stays_blown_after_its_window(shop: Workshop) -> None:
    await seed(shop, 8)
    await shop.run(sweeper(DeleteFuse(limit=5)))
    await shop.create(config_map("web"))
    await shop.clock.advance(3600)
    await shop.create(config_map("web2"))
    assert await left(shop) == 3


async def test_the_annotation_lets_the_deletes_of_that_object_pass_at_once(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=only_data, writes=[Secret], delete_fuse=DeleteFuse(limit=5))
    async def sweep(ctx: Context[ConfigMap]) -> None:
        for each in await ctx.list(Secret, labels={"surplus": "yes"}):
            await ctx.delete(each)

    await seed(shop, 8)
    await shop.run(sweep)
    await shop.create(config_map("web"))
    assert await left(shop) == 3
    meant = MergePatch({"metadata": {"annotations": {ALLOW_DELETES: "true"}}})
    await shop.admin.patch(ConfigMap, meant, name="web", namespace=NAMESPACE)
    await shop.settle()
    assert await left(shop) == 0


async def test_deletes_that_are_spread_over_time_pass(shop: Workshop) -> None:
    await shop.run(sweeper(DeleteFuse(limit=2, window=timedelta(seconds=10))))
    for number in range(10):
        await seed(shop, 1)
        await shop.create(config_map(f"web{number}"))
        await shop.clock.advance(6)
    assert await left(shop) == 0
    assert shop.told.stopped == 0


async def test_many_deletes_at_once_in_a_task_group_blow_it_once(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    @controller(ConfigMap, predicate=ours, writes=[Secret], delete_fuse=DeleteFuse(limit=3))
    async def sweep(ctx: Context[ConfigMap]) -> None:
        async with asyncio.TaskGroup() as group:
            for each in await ctx.list(Secret, labels={"surplus": "yes"}):
                group.create_task(ctx.delete(each))

    await seed(shop, 8)
    await shop.run(sweep)
    await shop.create(config_map("web"))
    assert await left(shop) >= 5
    assert [each.msg for each in caplog.records if each.levelno == logging.ERROR] == ["Deletes stopped"]


async def test_a_delete_of_a_collection_counts_each_object(shop: Workshop) -> None:
    @controller(ConfigMap, predicate=ours, writes=[Secret], delete_fuse=DeleteFuse(limit=5))
    async def sweep(ctx: Context[ConfigMap]) -> None:
        await ctx.client.delete_all_of(Secret, namespace=NAMESPACE, labels={"surplus": "yes"})

    await seed(shop, 8)
    await shop.run(sweep)
    await shop.create(config_map("web"))
    assert await left(shop) == 8
    for number in range(3):
        await shop.admin.delete(Secret, f"s{number}", namespace=NAMESPACE)
    loop = await shop.run(sweep)
    await shop.until(lambda: loop.queue.depth == 0)
    await shop.settle()
    assert await left(shop) == 0


async def test_evictions_count_as_deletes(shop: Workshop) -> None:
    stopped: list[str] = []

    @controller(ConfigMap, predicate=ours, writes=[Pod], delete_fuse=DeleteFuse(limit=1))
    async def evict(ctx: Context[ConfigMap]) -> None:
        for each in await ctx.list(Pod):
            meta = ObjectMeta(name=each.metadata.name, namespace=NAMESPACE)
            eviction = ctx.client.subresource(Pod, meta.name, "eviction", namespace=NAMESPACE)
            try:
                await eviction.create(Eviction(metadata=meta))
            except DeletesStopped as error:
                stopped.append(str(error))
                raise

    for number in range(4):
        container = Container(name="c", image="nginx")
        await shop.admin.create(
            Pod(metadata=ObjectMeta(name=f"p{number}", namespace=NAMESPACE), spec=PodSpec(containers=[container]))
        )
    await shop.run(evict)
    await shop.create(config_map("web"))
    assert [path for _, path in shop.sent] == [f"/api/v1/namespaces/{NAMESPACE}/pods/p0/eviction"]
    assert stopped[0].startswith('Pod "default/p1" not deleted')


async def test_without_a_fuse_everything_may_be_deleted(shop: Workshop) -> None:
    await seed(shop, 30)
    await shop.run(sweeper(None))
    await shop.create(config_map("web"))
    assert await left(shop) == 0


def test_a_fuse_with_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="both must be above zero"):
        DeleteFuse(limit=0)
