"""How a cluster gets the data of a backup: a new epoch begins.

An epoch is one life of the cluster's data, with members, an etcd cluster ID and a number of its own, which is written
to the status first. All Pods of earlier epochs are gone before the first member of the next one exists, so there are
never two clusters. Their volumes stay until the new cluster runs, so a restore that fails has destroyed nothing.
"""

from typing import Final

from kubewright import set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Service
from kubewright.client import Client

from etcd_operator import objects
from etcd_operator.api.v1.etcdbackup import EtcdBackup
from etcd_operator.api.v1.etcdcluster import AVAILABLE, READY, Epoch, EtcdCluster
from etcd_operator.controller.members import Progress, Work
from etcd_operator.view import Seen

BUMP: Final = 1_000_000_000
"""How far revisions jump at a restore: further than any client can have seen in a lost future of the backup."""


async def begin_epoch(client: Client, cluster: EtcdCluster, backup: str, restore: str = "") -> EtcdCluster:
    """Write the next epoch to the status. Raises Conflict if the cluster changed since it was read."""
    status = cluster.status
    status.epoch = Epoch(number=status.epoch.number + 1, backup=backup, restore=restore)
    status.cluster_id, status.members, status.leader, status.ready = "", [], "", 0
    status.no_quorum_since, status.compacted_revision, status.downgrade_minor = None, 0, 0
    status.version, generation = "", cluster.metadata.generation
    for type in (AVAILABLE, READY):
        note = f"epoch {status.epoch.number} begins"
        set_condition(
            status.conditions, type, "False", reason="Restoring", message=note, observed_generation=generation
        )
    return await client.update_status(cluster)


async def clear_older(work: Work) -> Progress | None:
    """Delete what is left of earlier epochs; their volumes only after the current cluster has begun."""
    older = work.view.older
    pods = [each for each in older if isinstance(each, Pod)]
    services = [each for each in older if isinstance(each, Service)]
    await work.delete(*pods)
    if pods:
        return Progress("Restoring", f"{len(pods)} Pods of the earlier epoch end")
    await work.delete(*services)
    if work.cluster.status.cluster_id:
        await work.delete(*(each for each in older if isinstance(each, PersistentVolumeClaim)))
        await work.delete(*work.view.tasks.values())
    return None


def source_of(cluster: EtcdCluster) -> str:
    """Return the backup that the current epoch begins with; empty if it begins empty."""
    first = cluster.spec.restore_from.backup if cluster.spec.restore_from else ""
    return cluster.status.epoch.backup or (first if cluster.status.epoch.number == 0 else "")


async def fill_volume(work: Work, seen: Seen) -> Progress | None:
    """Write the data of the backup to the volume of the first member. Returns None once it is there."""
    name = source_of(work.cluster)
    if not name or seen.pod is not None:
        return None
    backup = await work.ctx.client.uncached.get_or_none(EtcdBackup, name, namespace=work.cluster.metadata.namespace)
    if backup is None or backup.status.phase != "Succeeded":
        return Progress("WaitingForBackup", f'EtcdBackup "{name}" has to exist and to have succeeded', warning=True)
    pod = work.view.tasks.get(f"{seen.name}-restore")
    if pod is None:
        made = objects.restore_pod(work.cluster, seen.name, seen.address, backup.spec.claim, backup.status.file, BUMP)
        await work.create(made)
    elif pod.status.phase == "Succeeded":
        return None
    elif pod.status.phase == "Failed":
        work.event(
            "RestoreFailed", f'Pod "{pod.metadata.name}" could not restore {name}; it starts again', warning=True
        )
        await work.delete(pod, seen.claim)
    return Progress("Restoring", f"{seen.name} gets the data of {name}")
