"""The controller of EtcdRestore: a plan that waits for the backup, and lets the cluster begin its next epoch with it.

The epoch is in the status of the cluster, with the uid of the restore, so that it begins once whatever is killed. The
controller of EtcdCluster does the rest: see `restore.py`.
"""

from typing import Final

from kubewright import Context, PolicyRule, Result, TerminalError, controller
from kubewright.controllers import DeletedContext
from kubewright.plans import Call, Phase, Plan, Plans, Step, StepContext, Waiting

from etcd_operator import metrics
from etcd_operator.api.v1.etcdbackup import EtcdBackup
from etcd_operator.api.v1.etcdcluster import EtcdCluster
from etcd_operator.api.v1.etcdrestore import EtcdRestore
from etcd_operator.controller.restore import begin_epoch


async def wait_for_turn(step: StepContext[EtcdRestore]) -> Waiting | None:
    """Wait while an older restore of the cluster has not ended."""
    own = step.object
    found = await step.ctx.client.uncached.list(EtcdRestore, namespace=own.metadata.namespace)
    for each in found:
        is_older = _age(each) < _age(own) and each.metadata.deletion_timestamp is None
        if is_older and each.spec.cluster == own.spec.cluster and each.status.phase not in ("Succeeded", "Failed"):
            return Waiting(f"EtcdRestore {each.metadata.name!r} of the same cluster has not ended")
    return None


def _age(restore: EtcdRestore) -> tuple[str, str]:
    return str(restore.metadata.creation_timestamp), restore.metadata.name


async def wait_for_backup(step: StepContext[EtcdRestore]) -> Waiting | None:
    """Wait until the backup has succeeded."""
    name = step.object.spec.backup
    backup = await step.ctx.client.uncached.get_or_none(EtcdBackup, name, namespace=step.object.metadata.namespace)
    if backup is None:
        raise TerminalError(f'spec.backup: EtcdBackup "{name}" does not exist')
    if backup.status.phase == "Failed":
        raise TerminalError(f'spec.backup: EtcdBackup "{name}" has failed: {backup.status.message}')
    return None if backup.status.phase == "Succeeded" else Waiting(f'EtcdBackup "{name}" is not complete')


async def begin(step: StepContext[EtcdRestore]) -> Waiting | None:
    """Write the next epoch to the status of the cluster, unless it is there. A Conflict repeats the reconcile."""
    restore, cluster = step.object, await cluster_of(step)
    if cluster.status.epoch.restore != restore.metadata.uid:
        cluster = await begin_epoch(step.ctx.client, cluster, restore.spec.backup, restore.metadata.uid or "")
        note = f"Epoch {cluster.status.epoch.number} begins with the data of EtcdBackup {restore.spec.backup!r}"
        step.ctx.events.normal(cluster, "Restoring", note)
    return None


async def wait_for_members(step: StepContext[EtcdRestore]) -> Waiting | None:
    """Wait until the cluster of the epoch has a quorum."""
    status = (await cluster_of(step)).status
    if status.epoch.restore != step.object.metadata.uid:
        raise TerminalError(f"epoch {status.epoch.number} of the cluster began before this restore was complete")
    available = any(each.type == "Available" and each.status == "True" for each in status.conditions)
    if status.cluster_id and available:
        return None
    return Waiting(f"the first member of epoch {status.epoch.number} starts with the data", requeue_after=1)


async def cluster_of(step: StepContext[EtcdRestore]) -> EtcdCluster:
    name = step.object.spec.cluster
    found = await step.ctx.client.uncached.get_or_none(EtcdCluster, name, namespace=step.object.metadata.namespace)
    if found is None:
        raise TerminalError(f'spec.cluster: EtcdCluster "{name}" does not exist')
    return found


PLANS: Final = Plans(
    Plan(
        "restore",
        [
            Phase("check", [Step("turn", [Call(wait_for_turn)]), Step("backup", [Call(wait_for_backup)])]),
            Phase("data", [Step("epoch", [Call(begin)]), Step("members", [Call(wait_for_members)])]),
        ],
    )
)


@controller(
    EtcdRestore,
    cached=[EtcdBackup],
    writes=[EtcdCluster],
    rules=[PolicyRule(api_groups=[EtcdCluster.__api__.group], resources=["etcdclusters/status"], verbs=["update"])],
    reconcile_deleted=True,
)
async def reconcile(ctx: Context[EtcdRestore] | DeletedContext[EtcdRestore]) -> Result | None:
    if isinstance(ctx, DeletedContext):
        metrics.forget(EtcdRestore, ctx.request)
        return None
    result = await PLANS.run(ctx)
    metrics.report_ready(ctx.object, ctx.object.status.conditions)
    return result
