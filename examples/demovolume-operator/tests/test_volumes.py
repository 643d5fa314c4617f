"""The behavior of DemoVolume, as users see it."""

import pytest
from kubewright import Invalid, Manager, ObjectMeta
from kubewright.apis.core.v1 import PersistentVolumeClaim, ResourceQuota, ResourceQuotaSpec
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client import MergePatch
from kubewright.testing import eventually, gone

from demovolumes import Volumes, condition


async def asks_for(volumes: Volumes, size: str) -> None:
    resources = (await volumes.claim()).spec.resources
    assert resources is not None
    assert resources.requests == {"storage": size}


async def test_a_volume_gets_a_claim_of_its_name_and_size(volumes: Volumes, operator: Manager) -> None:
    volume = await volumes.create(size=3)
    claim = await eventually(volumes.claim)
    await asks_for(volumes, "3Gi")
    assert claim.spec.access_modes == ["ReadWriteOnce"]
    [owner] = claim.metadata.owner_references
    described = (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
    assert described == ("demo.civo.com/v1", "DemoVolume", "data", volume.metadata.uid, True)


async def test_a_volume_is_ready_once_its_claim_is_bound(volumes: Volumes, operator: Manager) -> None:
    await volumes.offer()
    await volumes.create(size=2)
    volume = await volumes.reaches("ClaimPending")
    assert volume.status.claim_phase == "Pending"
    assert volume.status.capacity is None
    assert condition(volume, "Ready").message == 'PersistentVolumeClaim "data" of 2Gi waits for a PersistentVolume'
    await volumes.add_storage("2Gi")
    volume = await volumes.reaches("Bound")
    assert (volume.status.claim_phase, volume.status.capacity) == ("Bound", "2Gi")
    assert condition(volume, "Ready").status == "True"
    await volumes.has_events(volume, ("Normal", "ClaimCreated"), ("Normal", "ClaimPending"), ("Normal", "Bound"))


async def test_the_name_is_copied_to_the_status(volumes: Volumes, operator: Manager) -> None:
    await volumes.create(called="Shop")

    async def is_called(name: str) -> None:
        assert (await volumes.get()).status.name == name

    await eventually(is_called, "Shop")
    await volumes.change(name="Warehouse")
    await eventually(is_called, "Warehouse")


async def test_a_volume_that_grows_expands_its_claim(volumes: Volumes, operator: Manager) -> None:
    await volumes.offer("1Gi")
    await volumes.create(size=1)
    before = (await volumes.reaches("Bound")).metadata.uid
    claim = await volumes.claim()
    await volumes.change(size=2)
    volume = await volumes.reaches("Expanding")
    assert condition(volume, "Ready").status == "False"
    assert condition(volume, "Ready").message.startswith(
        'PersistentVolumeClaim "data" has 1Gi and is being expanded to 2Gi'
    )
    await asks_for(volumes, "2Gi")
    await volumes.expand("data", "2Gi")
    volume = await volumes.reaches("Bound")
    assert volume.status.capacity == "2Gi"
    assert volume.metadata.uid == before
    assert (await volumes.claim()).metadata.uid == claim.metadata.uid
    await volumes.has_events(volume, ("Normal", "ExpansionRequested"), ("Normal", "Expanding"), ("Normal", "Bound"))


async def test_a_pending_claim_is_expanded_once_it_is_bound(volumes: Volumes, operator: Manager) -> None:
    await volumes.offer()
    await volumes.create(size=1)
    await volumes.reaches("ClaimPending")
    await volumes.change(size=2)

    async def says_so() -> None:
        message = condition(await volumes.get(), "Ready").message
        assert message == 'PersistentVolumeClaim "data" of 1Gi waits for a PersistentVolume and is then expanded to 2Gi'

    await eventually(says_so)
    await asks_for(volumes, "1Gi")
    await volumes.add_storage("1Gi")
    await volumes.reaches("Expanding")
    await asks_for(volumes, "2Gi")


async def test_a_class_that_cannot_expand_claims_is_reported(volumes: Volumes, operator: Manager) -> None:
    await volumes.offer("1Gi", expandable=False)
    await volumes.create(size=1)
    await volumes.reaches("Bound")
    await volumes.change(size=2)
    volume = await volumes.reaches("ExpansionRefused")
    ready = condition(volume, "Ready")
    assert ready.status == "False"
    assert ready.message.startswith(
        f'PersistentVolumeClaim "data" cannot grow from 1Gi to 2Gi. It has StorageClass "{volumes.storage_class}". Only '
        "a class with allowVolumeExpansion: true can expand claims. The API server rejected the change: "
    )

    await volumes.has_events(volume, ("Warning", "ExpansionRefused"))
    allow = MergePatch({"allowVolumeExpansion": True})
    await volumes.client.patch(StorageClass, allow, name=volumes.storage_class)
    await volumes.reaches_after_retries("Expanding")
    await asks_for(volumes, "2Gi")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"size": 1},
            "spec.size: Forbidden: a volume cannot shrink: make a smaller one, and copy what is in this one",
            id="shrink",
        ),
        pytest.param(
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            id="nothing",
        ),
        pytest.param(
            {"storageClassName": "other"},
            "spec.storageClassName: Invalid value: a volume stays in its storage class: make another volume",
            id="class",
        ),
        pytest.param(
            {"storageClassName": None},
            "spec.storageClassName: Invalid value: a volume stays in its storage class: make another volume",
            id="no class",
        ),
    ],
)
async def test_an_impossible_change_is_rejected(volumes: Volumes, change: dict[str, object], message: str) -> None:
    await volumes.create(size=2)
    with pytest.raises(Invalid) as rejected:
        await volumes.change(**change)
    assert str(rejected.value).startswith('DemoVolume.demo.civo.com "data" is invalid: ')
    assert message in str(rejected.value)


async def test_a_deleted_claim_is_recreated(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    lost = await eventually(volumes.claim)
    await volumes.client.delete(lost)

    async def is_replaced() -> None:
        assert (await volumes.claim()).metadata.uid != lost.metadata.uid

    await eventually(is_replaced)


async def test_a_deleted_claim_in_use_is_recreated_once_it_is_free(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    held = await eventually(volumes.claim)
    await volumes.use()
    await volumes.client.delete(held)
    volume = await volumes.reaches("ClaimTerminating")
    assert volume.status.claim_phase == "Terminating"
    assert (await volumes.claim()).metadata.uid == held.metadata.uid
    await volumes.stop_using()
    await volumes.reaches("ClaimPending")
    assert (await volumes.claim()).metadata.uid != held.metadata.uid


async def test_a_foreign_claim_is_left_alone(volumes: Volumes, operator: Manager) -> None:
    theirs = await volumes.create_foreign_claim()
    await volumes.create(size=5)
    volume = await volumes.reaches("ClaimNotOwned")
    assert condition(volume, "Ready").message == (
        'PersistentVolumeClaim "data" has no controlling owner, and was not created for this volume: '
        "delete the claim, or create the volume under another name"
    )
    assert volume.status.claim_phase == ""

    await volumes.has_events(volume, ("Warning", "ClaimNotOwned"))
    await asks_for(volumes, "1Gi")
    assert (await volumes.claim()).metadata.owner_references == []
    await volumes.client.delete(theirs)
    await volumes.reaches("ClaimPending")
    await asks_for(volumes, "5Gi")


async def test_a_claim_over_quota_is_reported_and_created_once_the_quota_allows_it(
    volumes: Volumes, operator: Manager
) -> None:
    spec = ResourceQuotaSpec(hard={"persistentvolumeclaims": "0"})
    quota = ResourceQuota(metadata=ObjectMeta(name="none", namespace=volumes.namespace), spec=spec)
    quota = await volumes.client.create(quota)

    async def is_in_force() -> None:
        status = (await volumes.client.get(ResourceQuota, "none", namespace=volumes.namespace)).status
        assert status.hard == {"persistentvolumeclaims": "0"}

    await eventually(is_in_force)
    await volumes.create()
    message = condition(await volumes.reaches("ClaimRefused"), "Ready").message
    assert message.startswith('PersistentVolumeClaim "data" of 1Gi cannot be created: ')
    assert "exceeded quota: none" in message
    await volumes.client.delete(quota)
    await gone(volumes.client.get, ResourceQuota, "none", namespace=volumes.namespace)
    await volumes.reaches_after_retries("ClaimPending")


async def test_an_invalid_storage_class_is_reported(volumes: Volumes, operator: Manager) -> None:
    volume = await volumes.create(storage_class="Gold")
    message = condition(await volumes.reaches("ClaimRefused"), "Ready").message
    assert message.startswith('PersistentVolumeClaim "data" of 1Gi cannot be created: ')
    assert 'spec.storageClassName: Invalid value: "Gold"' in message
    await volumes.has_events(volume, ("Warning", "ClaimRefused"))


async def test_the_claim_is_deleted_with_the_volume(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    await eventually(volumes.claim)
    await volumes.delete()
    await gone(volumes.claim)


async def test_a_recreated_volume_gets_a_claim_of_its_own(volumes: Volumes, operator: Manager) -> None:
    await volumes.create()
    old = await eventually(volumes.claim)
    await volumes.delete()
    volume = await volumes.create()

    async def is_its_own() -> PersistentVolumeClaim:
        claim = await volumes.claim()
        assert [each.uid for each in claim.metadata.owner_references] == [volume.metadata.uid]
        return claim

    assert (await eventually(is_its_own)).metadata.uid != old.metadata.uid
