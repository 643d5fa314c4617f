"""The behavior of VolumeOperation, as users see it."""

import asyncio
from datetime import datetime, timedelta

import pytest
from kubewright import Config, Invalid, Manager
from kubewright.client import MergePatch
from kubewright.testing import SystemClock, eventually, gone

from demovolumes import NewOperator, Volumes, condition


class TwoHoursAhead(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(hours=2)


async def test_a_rebuild_replaces_the_claim(volumes: Volumes, operator: Manager) -> None:
    volume = await volumes.create(size=2)
    old = await eventually(volumes.claim)
    await volumes.rebuild()
    operation = await volumes.comes_to("Succeeded", "Rebuilt")
    new = await volumes.claim()
    assert new.metadata.uid != old.metadata.uid
    status = operation.status
    assert (status.volume_uid, status.replaced_claim_uid, status.new_claim_uid) == (
        volume.metadata.uid,
        old.metadata.uid,
        new.metadata.uid,
    )
    assert status.observed_generation == operation.metadata.generation
    assert status.start_time is not None
    assert status.completion_time is not None
    succeeded = condition(operation, "Succeeded")
    assert (succeeded.status, succeeded.message) == ("True", 'PersistentVolumeClaim "data" was replaced')
    [owner] = new.metadata.owner_references
    assert owner.uid == volume.metadata.uid
    assert new.spec.resources is not None
    assert new.spec.resources.requests == {"storage": "2Gi"}
    await volumes.has_events(operation, ("Normal", "Rebuilt"))


async def test_a_finished_operation_never_runs_again(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    async with volumes.claim_history() as claims:
        async with new_operator(account):
            await volumes.create()
            await eventually(volumes.claim)
            await volumes.rebuild()
            over = await volumes.comes_to("Succeeded", "Rebuilt")
        async with new_operator(account) as again:
            note = MergePatch({"metadata": {"labels": {"seen": "again"}}})
            await volumes.client.patch(over, note)
            await volumes.rebuild("other")
            await volumes.comes_to("Succeeded", "Rebuilt", "other")
            assert sum(again.metrics.controllers["volumeoperation"].outcomes.values()) > 1
        assert (await volumes.operation()).status == over.status
        await claims.of("data", 3)


async def test_an_operation_cannot_be_changed(volumes: Volumes) -> None:
    operation = await volumes.rebuild()
    with pytest.raises(Invalid) as refused:
        await volumes.client.patch(operation, MergePatch({"spec": {"volume": "other"}}))
    assert "an operation cannot be changed: create another one" in str(refused.value)


async def test_an_operation_waits_for_a_claim_in_use_and_names_the_pod(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    old = await eventually(volumes.claim)
    await volumes.use(pod="web")
    await volumes.rebuild()

    succeeded = condition(await volumes.comes_to("Running", "ClaimInUse"), "Succeeded")
    assert succeeded.status == "Unknown"
    assert succeeded.message == 'PersistentVolumeClaim "data" is deleted when Pod "web" no longer uses it'
    await volumes.reaches("ClaimTerminating")
    assert (await volumes.claim()).metadata.uid == old.metadata.uid
    await volumes.stop_using("web")
    await volumes.comes_to("Succeeded", "Rebuilt")


async def test_two_operations_on_a_volume_run_one_after_the_other(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    first_claim = await eventually(volumes.claim)
    await volumes.use()
    async with volumes.claim_history() as claims:
        await volumes.rebuild("second")  # by its name it would be the later one
        await volumes.comes_to("Running", "ClaimInUse", "second")
        await volumes.rebuild("another")
        waits = await volumes.comes_to("Pending", "WaitingForTurn", "another")
        succeeded = condition(waits, "Succeeded").message
        assert succeeded == 'VolumeOperation "second" on DemoVolume "data" runs first'
        await volumes.stop_using()
        one = await volumes.comes_to("Succeeded", "Rebuilt", "second")
        other = await volumes.comes_to("Succeeded", "Rebuilt", "another")
        assert one.status.replaced_claim_uid == first_claim.metadata.uid
        assert other.status.replaced_claim_uid == one.status.new_claim_uid
        seen = await claims.of("data", 3)
        assert seen == [first_claim.metadata.uid, one.status.new_claim_uid, other.status.new_claim_uid]


async def test_operations_created_at_once_each_replace_a_claim(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    await eventually(volumes.claim)
    async with volumes.claim_history() as claims:
        names = [f"op-{number}" for number in range(5)]
        await asyncio.gather(*(volumes.rebuild(name) for name in names))
        over = [await volumes.comes_to("Succeeded", "Rebuilt", name) for name in names]
        seen = await claims.of("data", 6)
        assert {each.status.replaced_claim_uid for each in over} == set(seen[:-1])
        assert {each.status.new_claim_uid for each in over} == set(seen[1:])


async def test_an_operation_waits_for_its_volume(volumes: Volumes, operator: Manager) -> None:
    await volumes.rebuild()
    operation = await volumes.comes_to("Pending", "VolumeNotFound")
    assert condition(operation, "Succeeded").message == 'DemoVolume "data" does not exist'
    await volumes.create()
    await volumes.comes_to("Succeeded", "Rebuilt")


async def test_an_operation_fails_if_its_volume_is_created_too_late(volumes: Volumes, operator: Manager) -> None:
    await volumes.rebuild(deadline=1)
    operation = await volumes.comes_to("Failed", "VolumeNotFound")
    succeeded = condition(operation, "Succeeded")
    assert succeeded.status == "False"
    assert succeeded.message == 'not started within 1 s: DemoVolume "data" does not exist'
    await volumes.has_events(operation, ("Warning", "VolumeNotFound"))
    async with volumes.claim_history() as claims:
        await volumes.create()
        await volumes.rebuild("later")
        await volumes.comes_to("Succeeded", "Rebuilt", "later")
        await claims.of("data", 2)
    assert (await volumes.operation()).status == operation.status


async def test_an_operation_past_its_deadline_never_runs(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    async with new_operator(account):
        await volumes.create()
        kept = await eventually(volumes.claim)
    await volumes.rebuild(deadline=3600)
    async with new_operator(account, TwoHoursAhead()):
        operation = await volumes.comes_to("Failed", "DeadlineExceeded")
    assert condition(operation, "Succeeded").message == "not started within 3600 s"
    assert (await volumes.claim()).metadata.uid == kept.metadata.uid


async def test_a_foreign_claim_is_never_deleted(volumes: Volumes, operator: Manager) -> None:
    theirs = await volumes.create_foreign_claim()
    await volumes.create()
    await volumes.rebuild(deadline=2)
    operation = await volumes.comes_to("Failed", "ClaimNotOwned")
    assert "has no controlling owner, and was not created for this volume" in condition(operation, "Succeeded").message
    assert (await volumes.claim()).metadata.uid == theirs.metadata.uid


async def test_a_foreign_claim_created_during_the_operation_is_left_alone(
    volumes: Volumes, account: Config, new_operator: NewOperator
) -> None:
    async with new_operator(account):
        await volumes.create()
        await eventually(volumes.claim)
        await volumes.use()
        await volumes.rebuild()
        await volumes.reaches("ClaimTerminating")
    await volumes.stop_using()
    await gone(volumes.claim)
    theirs = await volumes.create_foreign_claim()
    async with new_operator(account):
        await volumes.comes_to("Failed", "ClaimNotOwned")
        await volumes.reaches("ClaimNotOwned")
    assert (await volumes.claim()).metadata.uid == theirs.metadata.uid


async def test_an_operation_fails_if_its_volume_is_deleted(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    await eventually(volumes.claim)
    await volumes.use()
    await volumes.rebuild()
    await volumes.comes_to("Running", "ClaimInUse")
    await volumes.delete()
    operation = await volumes.comes_to("Failed", "VolumeDeleted")
    assert condition(operation, "Succeeded").message == 'DemoVolume "data" was deleted during the operation'
    await volumes.stop_using()
    await gone(volumes.claim)


async def test_a_volume_of_the_same_name_is_not_the_same_volume(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    await eventually(volumes.claim)
    await volumes.use()
    await volumes.rebuild()
    await volumes.comes_to("Running", "ClaimInUse")
    await volumes.delete()
    await volumes.create()
    await volumes.comes_to("Failed", "VolumeDeleted")
    await volumes.stop_using()
    await volumes.reaches("ClaimPending")
