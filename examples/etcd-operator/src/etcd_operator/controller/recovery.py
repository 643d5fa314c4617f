"""Recovery from a lost quorum, if the user allows it: a new epoch from the most advanced member that answers.

In this order: the quorum is lost for as long as the user says; a snapshot is taken from a living member and verified;
the next epoch is written to the status; all Pods of the old epoch are gone; the first member of the new one starts. So
there are never two clusters, and if a Pod cannot be deleted, because its node does not answer, the recovery waits.
"""

from datetime import timedelta

from kubewright import ObjectMeta

from etcd_operator.api.v1.etcdbackup import EtcdBackup, EtcdBackupSpec
from etcd_operator.controller.members import Progress, Work
from etcd_operator.controller.restore import begin_epoch


async def recover(work: Work) -> Progress | None:
    """Take the next step of a recovery. Returns None while none is due or allowed."""
    rules, since = work.cluster.spec.quorum_recovery, work.cluster.status.no_quorum_since
    if rules is None or not rules.enabled or since is None:
        return None
    if work.now - since < timedelta(seconds=rules.after_seconds):
        return None
    name = f"{work.cluster.metadata.name}-recovery-{work.cluster.status.epoch.number + 1}"
    backup = await work.ctx.client.uncached.get_or_none(EtcdBackup, name, namespace=work.cluster.metadata.namespace)
    if backup is None:
        return await take_snapshot(work, name, rules.backup_claim)
    if backup.status.phase == "Succeeded":
        work.cluster = await begin_epoch(work.ctx.client, work.cluster, name)
        return Progress("RecoveringQuorum", f"a new cluster begins with the data of EtcdBackup {name!r}")
    if backup.status.phase == "Failed":
        await work.ctx.delete(backup)
        work.event("RecoveryFailed", f"EtcdBackup {name!r} failed: {backup.status.message}", warning=True)
    return Progress("RecoveringQuorum", f"waiting for EtcdBackup {name!r}")


async def take_snapshot(work: Work, name: str, claim: str) -> Progress | None:
    """Create a backup of the member that has applied the most."""
    living = [each for each in work.view.seen.values() if each.status is not None]
    if not living:
        return Progress("NoQuorum", "no member answers: restore a backup with an EtcdRestore", warning=True)
    best = max(living, key=lambda it: it.applied)
    spec = EtcdBackupSpec(cluster=work.cluster.metadata.name, claim=claim, member=best.name, keep_file=True)
    metadata = ObjectMeta(name=name, namespace=work.cluster.metadata.namespace)
    await work.create(EtcdBackup(metadata=metadata, spec=spec))
    work.event("RecoveringQuorum", f"The quorum is lost: a snapshot of {best.name} is taken", warning=True)
    return Progress("RecoveringQuorum", f"a snapshot of {best.name} is taken")
