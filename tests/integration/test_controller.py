"""Controllers against a control plane: they converge, they notice, and then they are quiet."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.gizmo_operator import FINALIZER, Gizmo, GizmoSpec, GizmoStatus, reconcile
from kubewright import CustomResource, Model
from kubewright import markers as m
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import MergePatch
from kubewright.controllers import Context, Finalizer, controller
from kubewright.controllers._outcome import Failure, Outcome
from kubewright.machinery.errors import Conflict, NotFound
from kubewright.manager import Manager
from kubewright.testing import Cluster, eventually, gone, running


@pytest_asyncio.fixture
async def gizmos(cluster: Cluster) -> None:
    await cluster.install(Gizmo)


@pytest_asyncio.fixture
async def manager(cluster: Cluster, namespace: str, gizmos: None) -> AsyncIterator[Manager]:
    """At work with the rights that follow from what its controller declares, and no others."""
    rules = Manager([reconcile]).rbac_rules()
    async with cluster.service_account(rules, namespace=namespace) as account:
        chosen = Manager(
            [reconcile], config=account, namespace=namespace, health_address="0", metrics_address="0", name="gizmos"
        )
        async with running(chosen):
            yield chosen


def gizmo(namespace: str, name: str = "g", **spec: object) -> Gizmo:
    return Gizmo(metadata=ObjectMeta(name=name, namespace=namespace), spec=GizmoSpec(**spec))  # type: ignore[arg-type]


async def change(cluster: Cluster, obj: Gizmo, **spec: object) -> Gizmo:
    return await cluster.client.patch(obj, MergePatch({"spec": spec}))


async def converged(cluster: Cluster, obj: Gizmo, parts: int, colour: str = "red") -> list[ConfigMap]:
    """The parts of the Gizmo, once there are as many as said, of that colour, and its status says so."""

    async def check() -> list[ConfigMap]:
        live = await cluster.client.get(Gizmo, obj.metadata.name, namespace=obj.metadata.namespace)
        every = await cluster.client.list(ConfigMap, namespace=obj.metadata.namespace)
        mine = [each for each in every if obj.metadata.uid in [owner.uid for owner in each.metadata.owner_references]]
        assert live.status is not None
        assert live.status.parts == len(mine) == parts
        assert all(each.data == {"colour": colour} for each in mine)
        return mine

    return await eventually(check)


async def test_children_follow_their_parent_up_and_down(cluster: Cluster, namespace: str, manager: Manager) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    await converged(cluster, obj, 2)
    await change(cluster, obj, parts=4, colour="blue")
    await converged(cluster, obj, 4, "blue")
    await change(cluster, obj, parts=1)
    await converged(cluster, obj, 1, "blue")


async def test_a_child_that_is_deleted_or_edited_by_hand_comes_back(
    cluster: Cluster, namespace: str, manager: Manager
) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    first, second = await converged(cluster, obj, 2)
    await cluster.client.delete(first)
    await cluster.client.patch(second, MergePatch({"data": {"colour": "green"}}))
    after = await converged(cluster, obj, 2)
    assert {each.metadata.uid for each in after} & {first.metadata.uid} == set()


async def test_children_go_with_their_parent(cluster: Cluster, namespace: str, manager: Manager) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    parts = await converged(cluster, obj, 2)
    await cluster.client.delete(obj)
    for each in parts:
        await gone(cluster.client.get, ConfigMap, each.metadata.name, namespace=namespace)


async def test_what_has_converged_is_looked_at_again_without_a_request(
    cluster: Cluster, namespace: str, manager: Manager
) -> None:
    objects = [await cluster.client.create(gizmo(namespace, f"g{number}", parts=2)) for number in range(10)]
    for each in objects:
        await converged(cluster, each, 2)
    before = Counter({key: count for key, count in manager.metrics.requests.items() if key[1] != "GET"})
    counts = manager.metrics.controllers["gizmo"]
    worked = sum(counts.outcomes.values())
    for each in objects:
        await cluster.client.patch(each, MergePatch({"metadata": {"annotations": {"look": "again"}}}))

    async def looked() -> None:
        assert sum(counts.outcomes.values()) >= worked + 10

    await eventually(looked)
    await asyncio.sleep(0.1)
    after = Counter({key: count for key, count in manager.metrics.requests.items() if key[1] != "GET"})
    assert after - before == Counter()


async def test_a_restarted_operator_finds_nothing_to_write(cluster: Cluster, namespace: str, gizmos: None) -> None:
    def fresh() -> Manager:
        return Manager(
            [reconcile],
            config=cluster.config,
            namespace=namespace,
            health_address="0",
            metrics_address="0",
            name="gizmos",
        )

    async with running(fresh()):
        obj = await cluster.client.create(gizmo(namespace, parts=3))
        await converged(cluster, obj, 3)
    again = fresh()
    async with running(again):

        async def looked() -> None:
            assert again.metrics.controllers["gizmo"].outcomes[Outcome.SUCCESS] >= 1

        await eventually(looked)
    writes = {method for _, method, _ in again.metrics.requests if method not in ("GET", "POST")}
    assert writes == set()


async def test_a_finalizer_is_on_before_the_work_and_off_after_the_cleanup(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    cleaned: list[str] = []

    async def clean_up(ctx: Context[Gizmo]) -> None:
        cleaned.append(ctx.request.name)

    @controller(Gizmo, finalizer=Finalizer(FINALIZER, clean_up))
    async def keep(ctx: Context[Gizmo]) -> None:
        live = await cluster.client.get(Gizmo, ctx.request.name, namespace=namespace)
        assert live.metadata.finalizers == [FINALIZER]

    rules = Manager([keep]).rbac_rules()
    async with cluster.service_account(rules, namespace=namespace) as account:
        chosen = Manager(
            [keep], config=account, namespace=namespace, health_address="0", metrics_address="0", name="keeper"
        )
        async with running(chosen):
            obj = await cluster.client.create(gizmo(namespace))

            async def is_on() -> None:
                live = await cluster.client.get(Gizmo, obj.metadata.name, namespace=namespace)
                assert live.metadata.finalizers == [FINALIZER]

            await eventually(is_on)
            await cluster.client.delete(obj)
            await gone(cluster.client.get, Gizmo, obj.metadata.name, namespace=namespace)
        assert cleaned == ["g"]
        assert sum(chosen.metrics.controllers["gizmo"].failures.values()) == 0


class ChestSpec(Model):
    locked: bool = False


class Chest(CustomResource, group="kubewright.test", version="v1", markers=[m.XValidation("!oldSelf.spec.locked")]):
    spec: ChestSpec


class OpenChest(CustomResource, group="kubewright.test", version="v1", kind="Chest"):
    spec: ChestSpec


async def test_a_rule_that_keeps_a_finalizer_on_is_told_of_as_the_api_server_says_it(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.install(Chest)

    async def finalize(ctx: Context[Chest]) -> None:
        """Has nothing to do."""

    @controller(Chest, finalizer=Finalizer(FINALIZER, finalize))
    async def keep(ctx: Context[Chest]) -> None:
        """Has nothing to do."""

    async def told() -> None:
        errors = [vars(each)["fields"]["error"] for each in caplog.records if each.msg == "Reconcile failed"]
        assert errors
        assert 'Chest.kubewright.test "c" is invalid' in errors[0]

    metadata = ObjectMeta(name="c", namespace=namespace, finalizers=[FINALIZER])
    async with running(Manager([keep], config=cluster.config, namespace=namespace)):
        obj = await cluster.client.create(Chest(metadata=metadata, spec=ChestSpec(locked=True)))
        await cluster.client.delete(obj)
        await eventually(told)
        await cluster.install(OpenChest)
        await gone(cluster.client.get, Chest, "c", namespace=namespace)


async def test_a_terminal_error_waits_for_a_change(cluster: Cluster, namespace: str, manager: Manager) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=-1))
    counts = manager.metrics.controllers["gizmo"]

    async def failed() -> None:
        assert counts.failures[Failure.TERMINAL] == 1

    await eventually(failed)
    await change(cluster, obj, parts=1)
    await converged(cluster, obj, 1)
    assert sum(counts.failures.values()) == 1


async def test_an_object_that_comes_and_goes_while_it_is_worked_on_is_no_error(
    cluster: Cluster, namespace: str, manager: Manager
) -> None:
    for number in range(20):
        obj = await cluster.client.create(gizmo(namespace, f"g{number}", parts=2))
        await cluster.client.delete(obj)
    for number in range(20):
        await gone(cluster.client.get, Gizmo, f"g{number}", namespace=namespace)

    async def idle() -> None:
        counts = manager.metrics.controllers["gizmo"]
        assert counts.queue is not None
        assert counts.queue.depth == 0
        assert list(counts.queue.in_progress()) == []

    await eventually(idle)
    assert manager.metrics.controllers["gizmo"].failures[Failure.MISTAKE] == 0
    with pytest.raises(NotFound):
        await cluster.client.get(Gizmo, "g0", namespace=namespace)


async def test_a_status_is_written_to_the_object_that_was_looked_at_and_to_no_namesake(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    seen: list[str] = []

    @controller(Gizmo, name="late")
    async def late(ctx: Context[Gizmo]) -> None:
        """Counts in the status how many parts it was asked for; its first object is replaced while it does."""
        seen.append(ctx.object.metadata.uid)
        if len(seen) == 1:
            await cluster.client.delete(ctx.object)
            namesake = await cluster.client.create(gizmo(namespace, parts=2))
            with pytest.raises(Conflict, match="or is another one by now"):
                await ctx.update_status(GizmoStatus(parts=1))
            untouched = await cluster.client.get(Gizmo, "g", namespace=namespace)
            assert (untouched.metadata.uid, untouched.status) == (namesake.metadata.uid, None)
            return
        await ctx.update_status(GizmoStatus(parts=ctx.object.spec.parts))

    async with running(Manager([late], config=cluster.config, namespace=namespace)):
        first = await cluster.client.create(gizmo(namespace, parts=1))

        async def is_counted() -> None:
            now = await cluster.client.get(Gizmo, "g", namespace=namespace)
            assert now.metadata.uid != first.metadata.uid
            assert now.status is not None
            assert now.status.parts == 2

        await eventually(is_counted)


class Pot(CustomResource, group="shelf.example.com", version="v1"):
    """What objects were made as, before `height` had to be there."""

    size: int = 1


class TallPot(CustomResource, group="shelf.example.com", version="v1", kind="Pot"):
    """The same kind, by an operator that is newer than the objects."""

    height: int


async def test_an_object_of_before_a_change_of_its_kind_does_not_keep_the_operator_from_starting(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.install(Pot)
    await cluster.client.create(Pot(metadata=ObjectMeta(name="a-old", namespace=namespace)))
    await cluster.install(TallPot)
    seen: list[str] = []

    @controller(TallPot)
    async def look(ctx: Context[TallPot]) -> None:
        seen.append(ctx.request.name)

    async with running(Manager([look], config=cluster.config, namespace=namespace)):
        await cluster.client.create(TallPot(metadata=ObjectMeta(name="new", namespace=namespace), height=2))

        async def is_seen() -> None:
            assert seen == ["new"]

        await eventually(is_seen)
