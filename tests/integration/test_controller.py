"""Controllers with a control plane: they converge, react to changes, and then send nothing."""

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
from kubewright.controllers._reconcile import Failure, Outcome
from kubewright.machinery.errors import Conflict, NotFound
from kubewright.manager import Manager
from kubewright.testing import Cluster, eventually, gone


@pytest_asyncio.fixture
async def gizmos(cluster: Cluster) -> None:
    await cluster.install(Gizmo)


@pytest_asyncio.fixture
async def manager(cluster: Cluster, namespace: str, gizmos: None) -> AsyncIterator[Manager]:
    """Run the manager with the permissions that its controllers declare, and no others."""
    rules = Manager([reconcile]).rbac_rules()
    async with cluster.service_account(rules, namespace=namespace) as account:
        chosen = Manager(
            [reconcile], config=account, namespaces=namespace, health_address="0", metrics_address="0", name="gizmos"
        )
        async with chosen:
            yield chosen


def gizmo(namespace: str, name: str = "g", **spec: object) -> Gizmo:
    return Gizmo(metadata=ObjectMeta(name=name, namespace=namespace), spec=GizmoSpec(**spec))  # type: ignore[arg-type]


async def change(cluster: Cluster, obj: Gizmo, **spec: object) -> Gizmo:
    return await cluster.client.patch(obj, MergePatch({"spec": spec}))


async def converged(cluster: Cluster, obj: Gizmo, parts: int, color: str = "red") -> list[ConfigMap]:
    """Wait until a Gizmo has this number of parts of this color, in its status too. Returns the parts."""

    async def check() -> list[ConfigMap]:
        live = await cluster.client.get(Gizmo, obj.metadata.name, namespace=obj.metadata.namespace)
        every = await cluster.client.list(ConfigMap, namespace=obj.metadata.namespace)
        mine = [each for each in every if obj.metadata.uid in [owner.uid for owner in each.metadata.owner_references]]
        assert live.status is not None
        assert live.status.parts == len(mine) == parts
        assert all(each.data == {"color": color} for each in mine)
        return mine

    return await eventually(check)


async def test_children_follow_their_parent_up_and_down(cluster: Cluster, namespace: str, manager: Manager) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    await converged(cluster, obj, 2)
    await change(cluster, obj, parts=4, color="blue")
    await converged(cluster, obj, 4, "blue")
    await change(cluster, obj, parts=1)
    await converged(cluster, obj, 1, "blue")


async def test_a_child_that_is_deleted_or_edited_by_hand_is_restored(
    cluster: Cluster, namespace: str, manager: Manager
) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    first, second = await converged(cluster, obj, 2)
    await cluster.client.delete(first)
    await cluster.client.patch(second, MergePatch({"data": {"color": "green"}}))
    after = await converged(cluster, obj, 2)
    assert {each.metadata.uid for each in after} & {first.metadata.uid} == set()


async def test_children_are_deleted_with_their_parent(cluster: Cluster, namespace: str, manager: Manager) -> None:
    obj = await cluster.client.create(gizmo(namespace, parts=2))
    parts = await converged(cluster, obj, 2)
    await cluster.client.delete(obj)
    for each in parts:
        await gone(cluster.client.get, ConfigMap, each.metadata.name, namespace=namespace)


async def test_a_reconcile_of_a_converged_object_sends_no_request(
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
            namespaces=namespace,
            health_address="0",
            metrics_address="0",
            name="gizmos",
        )

    async with fresh():
        obj = await cluster.client.create(gizmo(namespace, parts=3))
        await converged(cluster, obj, 3)
    again = fresh()
    async with again:

        async def looked() -> None:
            assert again.metrics.controllers["gizmo"].outcomes[Outcome.SUCCESS] >= 1

        await eventually(looked)
    writes = {method for _, method, _ in again.metrics.requests if method not in ("GET", "POST")}
    assert writes == set()


async def test_a_finalizer_is_added_before_the_work_and_removed_after_the_cleanup(
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
            [keep], config=account, namespaces=namespace, health_address="0", metrics_address="0", name="keeper"
        )
        async with chosen:
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


async def test_a_rule_that_prevents_removing_a_finalizer_is_reported_in_the_words_of_the_api_server(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.install(Chest)

    async def finalize(ctx: Context[Chest]) -> None:
        """Do nothing."""

    @controller(Chest, finalizer=Finalizer(FINALIZER, finalize))
    async def keep(ctx: Context[Chest]) -> None:
        """Do nothing."""

    async def told() -> None:
        errors = [vars(each)["fields"]["error"] for each in caplog.records if each.msg == "Reconcile failed"]
        assert errors
        assert 'Chest.kubewright.test "c" is invalid' in errors[0]

    metadata = ObjectMeta(name="c", namespace=namespace, finalizers=[FINALIZER])
    async with Manager([keep], config=cluster.config, namespaces=namespace):
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


async def test_an_object_that_is_recreated_and_deleted_during_a_reconcile_causes_no_error(
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


async def test_a_status_is_never_written_to_a_replacement_of_the_object(
    cluster: Cluster, namespace: str, gizmos: None
) -> None:
    seen: list[str] = []

    @controller(Gizmo, name="late")
    async def late(ctx: Context[Gizmo]) -> None:
        """Write the number of parts to the status. The first object is replaced during the reconcile."""
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

    async with Manager([late], config=cluster.config, namespaces=namespace):
        first = await cluster.client.create(gizmo(namespace, parts=1))

        async def is_counted() -> None:
            now = await cluster.client.get(Gizmo, "g", namespace=namespace)
            assert now.metadata.uid != first.metadata.uid
            assert now.status is not None
            assert now.status.parts == 2

        await eventually(is_counted)


class Pot(CustomResource, group="shelf.example.com", version="v1"):
    """The kind before `height` became required."""

    size: int = 1


class TallPot(CustomResource, group="shelf.example.com", version="v1", kind="Pot"):
    """The same kind in a newer operator."""

    height: int


async def test_an_object_that_no_longer_matches_its_class_does_not_prevent_startup(
    cluster: Cluster, namespace: str
) -> None:
    await cluster.install(Pot)
    await cluster.client.create(Pot(metadata=ObjectMeta(name="a-old", namespace=namespace)))
    await cluster.install(TallPot)
    seen: list[str] = []

    @controller(TallPot)
    async def look(ctx: Context[TallPot]) -> None:
        seen.append(ctx.request.name)

    async with Manager([look], config=cluster.config, namespaces=namespace):
        await cluster.client.create(TallPot(metadata=ObjectMeta(name="new", namespace=namespace), height=2))

        async def is_seen() -> None:
            assert seen == ["new"]

        await eventually(is_seen)
