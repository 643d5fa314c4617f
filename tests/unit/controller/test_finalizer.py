"""Finalizers: the guarantees for objects that need a cleanup."""

import logging
from datetime import timedelta

import pytest

from kubewright.apis.core.v1 import ConfigMap
from kubewright.client._patch import MergePatch
from kubewright.controllers import Backoff, Context, Controller, Finalizer, Result, Retry, controller
from kubewright.controllers._reconcile import Failure, Outcome
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import Forbidden, NotFound, StatusCause, StatusDetails
from kubewright.testing import VirtualClock

from .workshop import NAMESPACE, Workshop, config_map

NAME = "example.com/disk"
OTHER = "example.com/somebody-else"

only_web = Predicate(lambda event: event.key == (NAMESPACE, "web"))


class Disks:
    """A reconciler with state: the disks that it created in a cloud."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.answers: list[Result | Exception | None] = []

    async def reconcile(self, ctx: Context[ConfigMap]) -> None:
        assert NAME in ctx.object.metadata.finalizers
        live = await ctx.client.get(ConfigMap, "web", namespace=NAMESPACE)
        assert NAME in live.metadata.finalizers
        self.did.append("made")

    async def finalize(self, ctx: Context[ConfigMap]) -> Result | None:
        assert ctx.object.metadata.deletion_timestamp is not None
        self.did.append("removed")
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def disks() -> Disks:
    return Disks()


@pytest.fixture
def keeper(disks: Disks) -> Controller[ConfigMap]:
    return controller(ConfigMap, finalizer=Finalizer(NAME, disks.finalize), predicate=only_web)(disks)


async def live(shop: Workshop) -> ConfigMap:
    return await shop.admin.get(ConfigMap, "web", namespace=NAMESPACE)


async def delete(shop: Workshop) -> None:
    await shop.admin.delete(ConfigMap, "web", namespace=NAMESPACE)
    await shop.settle()


async def test_the_finalizer_is_on_before_the_first_reconcile_and_off_after_the_cleanup(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks
) -> None:
    await shop.run(keeper)
    await shop.create(config_map("web"))
    assert set(disks.did) == {"made"}
    disks.did.clear()
    await delete(shop)
    assert disks.did == ["removed"]
    with pytest.raises(NotFound):
        await live(shop)


async def test_an_object_that_was_deleted_while_the_operator_was_down_is_cleaned_up(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks
) -> None:
    loop = await shop.run(keeper)
    await shop.create(config_map("web"))
    await (await shop.stop(loop))
    disks.did.clear()
    await delete(shop)
    await shop.run(keeper)
    assert disks.did == ["removed"]
    with pytest.raises(NotFound):
        await live(shop)


async def test_a_cleanup_that_fails_is_retried_and_the_object_stays_until_then(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks, clock: VirtualClock
) -> None:
    disks.answers = [OSError("the cloud is down")]
    await shop.run(keeper)
    await shop.create(config_map("web"))
    disks.did.clear()
    await delete(shop)
    assert disks.did == ["removed"]
    assert (await live(shop)).metadata.finalizers == [NAME]
    await clock.advance(1)
    assert disks.did == ["removed", "removed"]
    with pytest.raises(NotFound):
        await live(shop)


async def test_a_cleanup_that_is_not_finished_is_called_again_later(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks, clock: VirtualClock
) -> None:
    disks.answers = [Result(requeue_after=timedelta(seconds=30))]
    await shop.run(keeper)
    await shop.create(config_map("web"))
    disks.did.clear()
    await delete(shop)
    await clock.advance(29)
    assert disks.did == ["removed"]
    await clock.advance(1)
    assert disks.did == ["removed", "removed"]
    assert shop.told.failures == []
    with pytest.raises(NotFound):
        await live(shop)


async def test_other_finalizers_stay_and_the_object_is_not_reconciled_while_they_hold_it(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks
) -> None:
    await shop.run(keeper)
    held = config_map("web")
    held.metadata.finalizers = [OTHER]
    await shop.create(held)
    assert (await live(shop)).metadata.finalizers == [OTHER, NAME]
    disks.did.clear()
    await delete(shop)
    assert disks.did == ["removed"]
    obj = await live(shop)
    assert obj.metadata.finalizers == [OTHER]
    obj.metadata.annotations["a"] = "b"
    await shop.admin.update(obj)
    await shop.settle()
    assert disks.did == ["removed"]


async def test_an_object_that_is_already_being_deleted_gets_no_finalizer_and_no_reconcile(
    shop: Workshop, keeper: Controller[ConfigMap], disks: Disks
) -> None:
    held = config_map("web")
    held.metadata.finalizers = [OTHER]
    await shop.create(held)
    await delete(shop)
    await shop.run(keeper)
    assert disks.did == []
    assert (await live(shop)).metadata.finalizers == [OTHER]


async def test_a_finalizer_that_another_writer_adds_is_not_lost(
    shop: Workshop, keeper: Controller[ConfigMap], clock: VirtualClock
) -> None:
    first = True

    def spoil(request: Request) -> Response | None:
        nonlocal first
        if request.method == "PATCH" and first:
            first = False
            shop.added = shop.admin.patch(  # type: ignore[attr-defined]
                ConfigMap, MergePatch({"metadata": {"finalizers": [OTHER]}}), name="web", namespace=NAMESPACE
            )
            return Response(409, body=b'{"kind":"Status","code":409,"reason":"Conflict","message":"changed"}')
        return None

    await shop.run(keeper)
    shop.spoil = spoil
    await shop.create(config_map("web"))
    await shop.added  # type: ignore[attr-defined]
    await clock.advance(1)
    assert (await live(shop)).metadata.finalizers == [OTHER, NAME]


async def test_only_our_finalizer_is_removed_if_the_others_change(
    shop: Workshop, disks: Disks, clock: VirtualClock
) -> None:
    async def finalize(ctx: Context[ConfigMap]) -> None:
        disks.did.append("removed")
        if disks.did.count("removed") == 1:
            await shop.admin.patch(
                ctx.object, MergePatch({"metadata": {"finalizers": [NAME]}})
            )  # the other finalizer is removed, and ours becomes the first

    keeper = controller(ConfigMap, finalizer=Finalizer(NAME, finalize), predicate=only_web)(disks)
    held = config_map("web")
    held.metadata.finalizers = [OTHER, NAME]
    await shop.create(held)
    await shop.run(keeper)
    disks.did.clear()
    await delete(shop)
    await clock.advance(1)
    assert disks.did == ["removed", "removed"]
    assert shop.told.failures == []
    with pytest.raises(NotFound):
        await live(shop)


async def test_a_finalizer_that_a_deleted_namespace_blocks_is_a_warning_and_an_error(
    shop: Workshop, disks: Disks, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep_a_backup(ctx: Context[ConfigMap]) -> None:
        cause = StatusCause("NamespaceTerminating", "namespace default is being terminated", "metadata.namespace")
        raise Forbidden("secrets is forbidden: it is being terminated", details=StatusDetails(causes=(cause,)))

    keeper = controller(
        ConfigMap,
        finalizer=Finalizer(NAME, keep_a_backup),
        predicate=only_web,
        retry=Retry(backoff=Backoff(base=1)),
        namespace_ending="stop",
    )(disks)
    await shop.run(keeper)
    await shop.create(config_map("web"))
    shop.told.outcomes.clear()
    await delete(shop)
    await clock.advance(2)
    assert shop.told.outcomes == [Outcome.ERROR, Outcome.ERROR]
    assert shop.told.failures == [Failure.NAMESPACE_ENDING, Failure.NAMESPACE_ENDING]
    first, _ = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert first.msg == "Finalizer blocked by namespace deletion"
    fields = vars(first)["fields"]
    assert (fields["namespace"], fields["name"], fields["finalizer"]) == (NAMESPACE, "web", NAME)
    assert fields["error"] == "secrets is forbidden: it is being terminated"
    assert "namespace_is_ending" in fields["advice"]
    assert (await live(shop)).metadata.finalizers == [NAME]
