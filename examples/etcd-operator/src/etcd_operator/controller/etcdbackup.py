"""The controller of EtcdBackup: a plan with one Pod, which writes the file and verifies it.

The Pod has the name of the plan's execution, so there is one whatever is killed. Its file has the uid of the backup, so
no backup ever writes to the file of another one.
"""

from typing import Final

import msgspec
from kubewright import AlreadyExists, Context, Finalizer, Forbidden, ObjectMeta, Result, TerminalError, controller
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, PodSpec, Service
from kubewright.controllers import is_controlled_by
from kubewright.plans import Call, Delete, Phase, Plan, Plans, Step, StepContext, Waiting, rendered

from etcd_operator import metrics, objects
from etcd_operator.agent import Saved
from etcd_operator.api.v1.etcdbackup import EtcdBackup
from etcd_operator.api.v1.etcdcluster import EtcdCluster
from etcd_operator.metrics import BACKUP
from etcd_operator.settings import own_image

WAIT: Final = Result(requeue_after=5.0)


async def delete_file(ctx: Context[EtcdBackup]) -> Result | None:
    """Delete the file of a backup that is deleted. A claim that is gone took its files along."""
    backup = ctx.object
    metrics.forget(EtcdBackup, ctx.request)
    claim = await ctx.client.uncached.get_or_none(
        PersistentVolumeClaim, backup.spec.claim, namespace=ctx.request.namespace
    )
    if backup.spec.keep_file or not backup.status.file or claim is None or claim.metadata.deletion_timestamp:
        return None
    pod = await ctx.get_or_none(Pod, f"{backup.metadata.name}-delete")
    if pod is None:
        arguments = ["delete", f"--file={backup.status.file}"]
        try:
            await run_agent(ctx, f"{backup.metadata.name}-delete", arguments)
        except Forbidden as error:
            if error.namespace_is_ending:  # and the claim with it
                return None
            raise
        return WAIT
    if pod.status.phase == "Succeeded":
        return None
    if pod.status.phase == "Failed":
        await ctx.delete(pod)
    return WAIT


def file_of(backup: EtcdBackup) -> str:
    return f"{backup.metadata.name}-{backup.metadata.uid}.db"


async def take(step: StepContext[EtcdBackup]) -> Waiting | None:
    """Run the Pod of this execution, and record what it has saved. A failed Pod stays, with its log."""
    ctx, backup, name = step.ctx, step.object, f"{step.object.metadata.name}-{step.execution}"
    found = await ctx.client.uncached.list(Pod, namespace=ctx.request.namespace, labels={objects.TASK: "backup"})
    own = {each.metadata.name: each for each in found if is_controlled_by(each, backup)}
    pod = own.pop(name, None)
    for each in own.values():  # of an execution that has failed, or was canceled and may write to the same file
        await ctx.delete(each)
    if own:
        return Waiting(f"Pod {next(iter(own))!r} of an earlier execution is deleted")
    if pod is None:
        return await start(step, name)
    match pod.status.phase:
        case "Succeeded":
            record(ctx, termination_message(pod))
            return None
        case "Failed":
            raise TerminalError(termination_message(pod) or f"Pod {name!r} failed")
        case _:
            return Waiting(f"Pod {name!r} takes the snapshot")


async def start(step: StepContext[EtcdBackup], name: str) -> Waiting:
    """Create the Pod, which asks the leader, or without one the most advanced member."""
    ctx, backup = step.ctx, step.object
    cluster = await ctx.get_or_none(EtcdCluster, backup.spec.cluster)
    member = backup.spec.member or (member_to_ask(cluster) if cluster is not None else "")
    if cluster is None or not member:
        why = "does not exist" if cluster is None else "has no member that answers"
        return Waiting(f"EtcdCluster {backup.spec.cluster!r} {why}", requeue_after=5)
    service = await ctx.get(Service, member)
    arguments = [
        "save",
        f"--url={objects.url(cluster, service.spec.cluster_ip or '', objects.CLIENT_PORT)}",
        f"--server-name={objects.host_for(cluster)}",
        f"--file={file_of(backup)}",
        *(["--alone"] if backup.spec.member else []),
    ]
    await run_agent(ctx, name, arguments, secret_of(cluster))
    return Waiting(f"Pod {name!r} takes the snapshot")


def record(ctx: Context[EtcdBackup], message: str) -> None:
    """Enter what a Pod has saved into the status, which the plan writes."""
    backup, status = ctx.object, ctx.object.status
    saved = msgspec.json.decode(message, type=Saved)
    status.file, status.completion_time = file_of(backup), ctx.clock.now()
    status.bytes, status.sha256 = saved.bytes, saved.sha256
    status.revision, status.version = saved.revision, saved.version
    BACKUP.labels(backup.metadata.namespace, backup.spec.cluster).set(status.completion_time.timestamp())


async def pod_of(step: StepContext[EtcdBackup]) -> Pod:
    """Return the Pod of this execution, by its name."""
    return Pod(metadata=ObjectMeta(name=f"{step.object.metadata.name}-{step.execution}"), spec=PodSpec(containers=[]))


PLANS: Final = Plans(
    Plan(
        "backup",
        [
            Phase(
                "snapshot",
                [Step("take", [Call(take)]), Step("clean-up", [Delete(rendered(pod_of))])],
            )
        ],
    )
)


@controller(
    EtcdBackup,
    owns=[Pod],
    cached=[EtcdCluster, PersistentVolumeClaim, Service],
    finalizer=Finalizer("etcd.kubewright.dev/file", delete_file),
)
async def reconcile(ctx: Context[EtcdBackup]) -> Result | None:
    status, had_succeeded = ctx.object.status, ctx.object.status.phase == "Succeeded"
    result = await PLANS.run(ctx)
    metrics.report_ready(ctx.object, status.conditions)
    if status.phase == "Succeeded" and not had_succeeded:
        note = f"{status.bytes} bytes with all writes up to revision {status.revision}"
        ctx.events.normal(ctx.object, "BackupSucceeded", note)
    return result


async def run_agent(ctx: Context[EtcdBackup], name: str, arguments: list[str], secret: str = "") -> None:
    metadata = ObjectMeta(name=name, namespace=ctx.object.metadata.namespace, labels={objects.TASK: "backup"})
    try:
        await ctx.create(objects.agent_pod(metadata, own_image(), arguments, ctx.object.spec.claim, secret))
    except AlreadyExists:  # the cache is late
        return


def secret_of(cluster: EtcdCluster) -> str:
    return f"{cluster.metadata.name}-client" if cluster.spec.tls.enabled else ""


def member_to_ask(cluster: EtcdCluster) -> str:
    healthy = [each.name for each in cluster.status.members if each.healthy and not each.learner]
    return cluster.status.leader or next(iter(healthy), "")


def termination_message(pod: Pod) -> str:
    states = [each.state.terminated for each in pod.status.container_statuses if each.state]
    return next((each.message for each in states if each is not None and each.message), "")
