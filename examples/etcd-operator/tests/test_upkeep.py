"""What keeps a cluster healthy without a user: compaction, defragmentation, alarms, slow members, a lost quorum."""

import pytest
from kubewright import Manager, ObjectMeta
from kubewright.apis.core.v1 import PersistentVolumeClaim, ResourceRequirements
from kubewright.apis.storage.v1 import StorageClass
from kubewright.testing import eventually

from clusters import Clusters, describe
from etcd_operator.api.v1.etcdbackup import EtcdBackup
from etcd_operator.api.v1.etcdcluster import Autoscaling, Maintenance, PodTemplate, QuorumRecovery, Storage
from etcd_operator.etcd import Etcd, Refused
from etcd_operator.slowness import LEARNED, SUSTAINED, Slowness

pytestmark = pytest.mark.timeout(300)

MEGABYTE = 1 << 20


async def test_a_full_database_is_compacted_defragmented_and_takes_writes_again(
    clusters: Clusters, operator: Manager
) -> None:
    rules = Maintenance(defragment_min_bytes=MEGABYTE, compaction_revisions=2)
    await clusters.create(size=1, quota_bytes=16 * MEGABYTE, maintenance=rules)
    await clusters.settles(1)
    async with clusters.connect("main-0", within=20) as etcd:
        with pytest.raises(Refused, match="space exceeded"):
            await fill(etcd)
    await clusters.put("color", "red")  # is accepted when the space is free again

    async def is_small() -> None:
        status = (await clusters.get()).status
        assert status.members[0].database_bytes < 10 * MEGABYTE
        assert status.compacted_revision > 0

    await eventually(is_small)


async def fill(etcd: Etcd) -> None:
    for _ in range(100):
        await etcd.put("large", "x" * MEGABYTE)


async def test_quota_memory_and_volume_grow_with_the_data(clusters: Clusters, operator: Manager) -> None:
    resources = ResourceRequirements(requests={"memory": "64Mi"})
    await clusters.create(
        size=1,
        quota_bytes=16 * MEGABYTE,
        autoscaling=Autoscaling(max_quota_bytes=64 * MEGABYTE),
        pod_template=PodTemplate(resources=resources),
    )
    await clusters.settles(1)
    for number in range(13):
        await clusters.put(f"large-{number}", "x" * MEGABYTE)  # is repeated while the quota is used up

    async def has_grown() -> None:
        assert (await clusters.get()).status.quota_bytes == 32 * MEGABYTE
        pod = (await clusters.pods()).get("main-0")
        assert pod is not None, "the member restarts"
        container = pod.spec.containers[0]
        assert f"--quota-backend-bytes={32 * MEGABYTE}" in container.args
        assert container.resources is not None
        assert container.resources.requests == {"memory": "80Mi"}

    await eventually(has_grown)
    claim = await clusters.client.get(PersistentVolumeClaim, "main-0", namespace=clusters.namespace)
    assert claim.status.capacity["storage"] == "1056Mi"
    await clusters.settles(1)


async def test_a_volume_that_cannot_grow_is_reported(clusters: Clusters, operator: Manager) -> None:
    provisioner = (await clusters.client.list(StorageClass)).items[0].provisioner
    fixed = StorageClass(metadata=ObjectMeta(name="fixed"), provisioner=provisioner, allow_volume_expansion=False)
    await clusters.client.create(fixed)
    try:
        await clusters.create(size=1, storage=Storage(size="1Gi", storage_class_name="fixed"))
        await clusters.settles(1)
        await clusters.change(storage={"size": "2Gi"})
        cluster = await clusters.reports("Degraded", "True", "VolumeNotExpandable")
        assert "main-0" in describe(cluster.status)
        await clusters.change(storage={"size": "1Gi"})
        await clusters.settles(1)
    finally:
        await clusters.client.delete(fixed)


async def test_a_lost_quorum_is_recovered_from_a_survivor_once_the_user_allows_it(
    clusters: Clusters, operator: Manager
) -> None:
    await clusters.claim()
    await clusters.create(size=2)
    before = await clusters.settles(2)
    await clusters.put("color", "red")
    await clusters.lose_volume("main-1")
    lost = await clusters.reports("Available", "False", "NoQuorum")
    assert lost.status.no_quorum_since is not None
    assert lost.status.epoch == before.status.epoch
    assert "main-0" in await clusters.pods()

    await clusters.change(quorumRecovery={"enabled": True, "afterSeconds": 1, "backupClaim": "backups"}, size=1)
    await eventually(clusters.begins_again)
    after = await clusters.settles(1)
    assert after.status.cluster_id != before.status.cluster_id
    assert await clusters.read("color") == "red"
    [backup] = await clusters.client.list(EtcdBackup, namespace=clusters.namespace)
    assert (backup.metadata.name, backup.status.phase) == ("main-recovery-1", "Succeeded")


@pytest.mark.long
async def test_a_majority_that_is_lost_is_replaced(clusters: Clusters, operator: Manager) -> None:
    await clusters.claim()
    rules = QuorumRecovery(enabled=True, after_seconds=2, backup_claim="backups")
    await clusters.create(size=3, quorum_recovery=rules)
    before = await clusters.settles(3)
    await clusters.put("color", "red")
    for member in before.status.members[1:]:
        await clusters.lose_volume(member.name)
    await eventually(clusters.begins_again)
    after = await clusters.settles(3)
    assert after.status.cluster_id != before.status.cluster_id
    assert await clusters.read("color") == "red"


def test_a_member_is_slow_when_it_takes_much_longer_than_it_used_to() -> None:
    slowness, member = Slowness(), ("cluster", "member")
    for _ in range(LEARNED):
        assert not slowness.observe(member, 0.02).is_slow
    assert not slowness.observe(member, 0.9).is_slow  # once is not enough
    assert not slowness.observe(member, 0.02).is_slow
    verdicts = [slowness.observe(member, 0.9) for _ in range(SUSTAINED + 1)]
    assert [each.is_slow for each in verdicts] == [False, False, True, True]
    assert [each.became_slow for each in verdicts] == [False, False, True, False]
    assert not slowness.observe(member, 0.02).is_slow


def test_a_member_that_was_always_slow_is_not_reported() -> None:
    slowness = Slowness()
    assert not any(slowness.observe(("cluster", "far away"), 0.9).is_slow for _ in range(LEARNED * 3))


def test_what_was_learned_of_a_member_survives_a_restart_of_the_operator() -> None:
    slowness = Slowness()
    verdicts = [slowness.observe(("cluster", "member"), 0.9, usual=0.02) for _ in range(SUSTAINED)]
    assert verdicts[-1].is_slow
    assert verdicts[-1].usual == 0.02


@pytest.mark.long
async def test_a_slow_member_is_replaced_if_the_user_allows_it(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=3, maintenance=Maintenance(replace_slow_after_seconds=1))
    before = (await clusters.settles(3)).status
    slow = next(each for each in before.members if not each.leader)

    async def is_learned() -> None:
        assert all(each.usual_milliseconds for each in (await clusters.get()).status.members)

    await eventually(is_learned, within=150)
    async with clusters.slowed(slow.name):

        async def is_replaced() -> None:
            assert slow.id not in {each.id for each in (await clusters.get()).status.members}

        await eventually(is_replaced, within=240)
    await clusters.settles(3, without=slow.id)
