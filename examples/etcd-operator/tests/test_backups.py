"""Backups, schedules and restores: what was acknowledged before a backup is there after its restore."""

import asyncio
from datetime import UTC, datetime
from typing import Literal

import pytest
from kubewright import Invalid, Manager, ObjectMeta, plans
from kubewright.client import MergePatch
from kubewright.models import Object
from kubewright.testing import eventually

from clusters import Clusters
from etcd_operator.api.v1.etcdbackup import EtcdBackup, EtcdBackupSpec
from etcd_operator.api.v1.etcdbackupschedule import EtcdBackupSchedule, EtcdBackupScheduleSpec
from etcd_operator.api.v1.etcdcluster import EtcdCluster, EtcdClusterSpec, QuorumRecovery, RestoreSource
from etcd_operator.api.v1.etcdrestore import EtcdRestore
from etcd_operator.controller.etcdbackupschedule import times_of
from etcd_operator.controller.restore import BUMP
from etcd_operator.local import OLD

pytestmark = pytest.mark.timeout(300)


async def test_a_backup_is_restored_into_the_same_and_into_a_new_cluster(clusters: Clusters, operator: Manager) -> None:
    await clusters.claim()
    await clusters.create(size=1)
    before = await clusters.settles(1)
    await clusters.put("color", "red")

    backup = await clusters.back_up()
    assert backup.status.phase == "Succeeded", backup.status
    assert backup.status.revision >= 2
    assert len(backup.status.sha256) == 64
    await clusters.put("color", "blue")

    restore = await clusters.restore()
    assert restore.status.phase == "Succeeded", restore.status
    after = await clusters.settles(1)
    assert await clusters.read("color") == "red"
    assert after.status.cluster_id != before.status.cluster_id
    assert after.status.epoch.number == 1
    async with clusters.connect() as etcd:
        assert int((await etcd.get("color")).header.revision) > BUMP

    await clusters.create("copy", size=1, restore_from=RestoreSource(backup="first"))
    await clusters.settles(1, "copy")
    assert await clusters.read("color", "copy") == "red"

    await clusters.client.delete(EtcdBackup, "first", namespace=clusters.namespace)
    await clusters.client.wait_until_gone(EtcdBackup, "first", namespace=clusters.namespace)


@pytest.mark.long
async def test_a_restore_waits_for_its_backup_and_shows_its_steps(clusters: Clusters, operator: Manager) -> None:
    await clusters.claim()
    metadata = ObjectMeta(name="first", namespace=clusters.namespace)
    await clusters.client.create(EtcdBackup(metadata=metadata, spec=EtcdBackupSpec(cluster="main", claim="backups")))
    restore = asyncio.create_task(clusters.restore())

    async def waits() -> None:
        plan = (await clusters.client.get(EtcdRestore, "back", namespace=clusters.namespace)).status.plan
        assert plan is not None
        assert (plan.phase, plan.step, plan.message) == ("check", "backup", 'EtcdBackup "first" is not complete')

    await eventually(waits)
    await clusters.create(size=1)
    status = (await restore).status
    assert status.phase == "Succeeded", status
    assert (await clusters.settles(1)).status.epoch.number == 1


@pytest.mark.long
async def test_a_failed_backup_is_repeated_on_request(clusters: Clusters, operator: Manager) -> None:
    await clusters.claim()
    await clusters.create(size=1)
    await clusters.settles(1)
    spec = EtcdBackupSpec(cluster="main", claim="backups", member="main-0")
    metadata = ObjectMeta(name="early", namespace=clusters.namespace)

    async def ends(phase: str) -> EtcdBackup:
        return await clusters.client.wait_for(
            EtcdBackup, "early", lambda it: it.status.phase == phase, namespace=clusters.namespace
        )

    async with clusters.paused("main-0"):
        await clusters.client.create(EtcdBackup(metadata=metadata, spec=spec))
        failed = await ends("Failed")
    assert "Unreachable" in failed.status.message
    await plans.retry(clusters.client, failed, "backup-1")
    await ends("Succeeded")


async def is_refused(clusters: Clusters, obj: Object, field: str, claim: str) -> None:
    with pytest.raises(Invalid) as error:
        await clusters.client.create(obj)
    for text in (
        f"{field}: Invalid value",
        f'"{claim}" is not the name of a PersistentVolumeClaim',
        "use a claim whose StorageClass mounts the bucket",
    ):
        assert text in str(error.value)


def test_times_of_a_schedule_are_those_of_a_cron_job_or_an_interval() -> None:
    def next_time(**spec: str) -> str:
        times = times_of(EtcdBackupScheduleSpec(cluster="main", claim="backups", **spec))  # type: ignore[arg-type]
        return str(times.after(datetime(2026, 7, 1, 1, 30, tzinfo=UTC)))

    assert next_time(schedule="0 */6 * * *") == "2026-07-01 06:00:00+00:00"
    assert next_time(schedule="0 4 * * *", time_zone="Europe/Berlin") == "2026-07-01 02:00:00+00:00"
    assert next_time(every="6h") == "2026-07-01 07:30:00+00:00"


async def test_a_schedule_says_what_happens_while_a_backup_runs(clusters: Clusters, operator: Manager) -> None:
    policies: list[Literal["Forbid", "Allow", "Replace"]] = ["Forbid", "Allow", "Replace"]
    for policy in policies:
        spec = EtcdBackupScheduleSpec(cluster="missing", claim="backups", every="1s", concurrency_policy=policy)
        metadata = ObjectMeta(name=policy.lower(), namespace=clusters.namespace)
        await clusters.client.create(EtcdBackupSchedule(metadata=metadata, spec=spec))
    seen: dict[str, set[str]] = {policy.lower(): set() for policy in policies}

    async def check() -> None:
        now = [each.metadata.name for each in await clusters.client.list(EtcdBackup, namespace=clusters.namespace)]
        for policy, names in seen.items():
            names.update(each for each in now if each.startswith(policy))
        assert {policy: min(len(names), 3) for policy, names in seen.items()} == {"forbid": 1, "allow": 3, "replace": 3}
        assert len([each for each in now if each.startswith("allow")]) >= 3
        assert seen["replace"] - set(now), "earlier backups are deleted"

    await eventually(check)


async def test_mistakes_are_reported(clusters: Clusters, operator: Manager) -> None:
    restore = await clusters.restore(backup="missing")
    assert restore.status.phase == "Failed"
    assert restore.status.message == 'spec.backup: EtcdBackup "missing" does not exist'

    async def reports(name: str, message: str, **spec: str) -> None:
        metadata = ObjectMeta(name=name, namespace=clusters.namespace)
        wanted = EtcdBackupScheduleSpec(cluster="main", claim="backups", **spec)  # type: ignore[arg-type]
        await clusters.client.create(EtcdBackupSchedule(metadata=metadata, spec=wanted))

        async def check() -> None:
            found = await clusters.client.get(EtcdBackupSchedule, name, namespace=clusters.namespace)
            assert [(it.status, it.reason) for it in found.status.conditions] == [("False", "InvalidSchedule")]
            assert message in found.status.conditions[0].message

        await eventually(check)

    await reports("fields", "spec.schedule: expected exactly 5 fields", schedule="0 6 * *")
    await reports(
        "zone", "spec.timeZone: unknown time zone 'Europe/Atlantis'", schedule="@daily", time_zone="Europe/Atlantis"
    )
    with pytest.raises(Invalid, match="set either schedule or every"):
        await reports("both", "", schedule="@daily", every="6h")


async def test_a_destination_that_is_not_a_claim_is_refused(clusters: Clusters) -> None:
    metadata = ObjectMeta(name="away", namespace=clusters.namespace)
    for claim in ("s3://bucket/etcd", "gs://bucket", "abfs://container@account", "/var/backups"):
        backup = EtcdBackupSpec(cluster="main", claim=claim)
        schedule = EtcdBackupScheduleSpec(cluster="main", claim=claim, schedule="@daily")
        cluster = EtcdClusterSpec(version=OLD, quorum_recovery=QuorumRecovery(enabled=True, backup_claim=claim))
        await is_refused(clusters, EtcdBackup(metadata=metadata, spec=backup), "spec.claim", claim)
        await is_refused(clusters, EtcdBackupSchedule(metadata=metadata, spec=schedule), "spec.claim", claim)
        field = "spec.quorumRecovery.backupClaim"
        await is_refused(clusters, EtcdCluster(metadata=metadata, spec=cluster), field, claim)


async def test_a_schedule_takes_backups_and_deletes_old_ones_with_their_files(
    clusters: Clusters, operator: Manager
) -> None:
    await clusters.claim()
    await clusters.create(size=1)
    await clusters.settles(1)
    spec = EtcdBackupScheduleSpec(cluster="main", claim="backups", every="1s", keep=1)
    metadata = ObjectMeta(name="often", namespace=clusters.namespace)
    await clusters.client.create(EtcdBackupSchedule(metadata=metadata, spec=spec))
    first = await eventually(clusters.oldest_backup)
    await clusters.client.wait_until_gone(EtcdBackup, first, namespace=clusters.namespace)
    await clusters.client.patch(
        EtcdBackupSchedule, MergePatch({"spec": {"suspend": True}}), name="often", namespace=clusters.namespace
    )

    async def check() -> None:
        backups = await clusters.client.list(EtcdBackup, namespace=clusters.namespace)
        assert [each.status.phase for each in backups] == ["Succeeded"]

    await eventually(check)
