"""The controller of EtcdCluster: looks at the members, does one thing, writes the status, and looks again.

All it decides on is read from the server and from etcd, never from the cache; events of the cache only say when to look.
"""

from copy import deepcopy
from datetime import timedelta
from typing import Final

from kubewright import Backoff, Context, Result, Retry, controller, set_condition
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Secret, Service
from kubewright.apis.policy.v1 import PodDisruptionBudget
from kubewright.controllers import DeletedContext, is_controlled_by

from etcd_operator import metrics, objects
from etcd_operator.api.v1.etcdbackup import EtcdBackup
from etcd_operator.api.v1.etcdcluster import (
    AVAILABLE,
    DEGRADED,
    PROGRESSING,
    READY,
    EtcdCluster,
    EtcdClusterStatus,
    MemberStatus,
)
from etcd_operator.controller import members, recovery, restore, rotation, upkeep
from etcd_operator.controller.members import Progress, Work
from etcd_operator.etcd import Refused, Unreachable
from etcd_operator.slowness import Slowness
from etcd_operator.tls import issuer_of
from etcd_operator.view import Seen, View, credentials_of, hexadecimal, host_of, names, observe

SOON: Final = Result(requeue_after=0.5)
"""While something changes that no watch reports, such as a learner that catches up."""
LATER: Final = Result(requeue_after=10.0)
"""While nothing changes: the interval at which members are asked for their state."""
SPEED: Final = Slowness()
"""What this process has learned of all members."""
STABLE: Final = Progress("Stable", "all members are as wanted")


@controller(
    EtcdCluster,
    owns=[Pod, PersistentVolumeClaim, Service, Secret, PodDisruptionBudget],
    writes=[EtcdBackup],
    retry=Retry(backoff=Backoff(limit=timedelta(seconds=30))),
    timeout=timedelta(minutes=3),
    reconcile_deleted=True,
)
async def reconcile(ctx: Context[EtcdCluster] | DeletedContext[EtcdCluster]) -> Result | None:
    if isinstance(ctx, DeletedContext):
        metrics.forget(EtcdCluster, ctx.request)
        return None
    cluster = await ctx.client.uncached.get_or_none(EtcdCluster, ctx.request.name, namespace=ctx.request.namespace)
    if cluster is None or cluster.metadata.deletion_timestamp is not None:
        return None
    issuer = await issuer_of(ctx, cluster) if cluster.spec.tls.enabled else None
    if issuer is not None:
        await issuer.keep(f"{cluster.metadata.name}-client")
    trust = await credentials_of(ctx, cluster)
    work = Work(ctx, cluster, await observe(ctx, cluster, trust), trust, issuer)
    await keep_common_objects(work)
    report = Report(work)
    await report.record_members()
    try:
        progress = await next_step(work)
    except (Unreachable, Refused) as error:
        progress = Progress("EtcdRefused", str(error))
    await report.write(progress)
    return LATER if progress is STABLE or progress.warning else SOON


async def keep_common_objects(work: Work) -> None:
    """Keep what the cluster has once: the Service for clients, and the budget."""
    wanted, cluster = objects.client_service(work.cluster), work.cluster
    live = await work.ctx.client.uncached.get_or_none(
        Service, cluster.metadata.name, namespace=cluster.metadata.namespace
    )
    if live is None or not is_controlled_by(live, cluster):
        await work.ctx.apply(wanted)
    else:
        await members.repair_service(work, live, wanted)
    await work.ctx.apply(objects.disruption_budget(cluster))


async def next_step(work: Work) -> Progress:
    """Do the first thing that is due, and return what it is."""
    if (progress := await restore.clear_older(work)) is not None:
        return progress
    if not work.cluster.status.cluster_id:
        return await begin(work)
    if (progress := await members.keep_services(work)) is not None:
        return progress
    if not work.view.has_quorum:
        return await without_quorum(work)
    for step in (
        members.sweep,
        members.repair,
        members.shrink,
        members.replace_broken,
        members.promote,
        members.grow,
        members.roll,
        rotation.renew,
    ):
        progress = await step(work)
        if progress is not None:
            return progress
    return await upkeep.keep_up(work, SPEED) or unhealthy(work.view) or STABLE


async def begin(work: Work) -> Progress:
    """Make the first member. It is alone, and begins a cluster, from the data of its volume if there is some."""
    cluster, view = work.cluster, work.view
    if not view.seen:
        await work.create(objects.member_service(cluster, view.free_name(cluster.metadata.name)))
        return Progress("Creating", "the first member gets its address")
    seen = min(view.seen.values(), key=lambda it: it.name)
    if seen.service is None:
        await work.delete(seen.pod, seen.claim)
        return Progress("Creating", f"deleting what belonged to {seen.name}")
    if seen.claim is None:
        await work.create(objects.claim_for(cluster, seen.name))
    if (progress := await restore.fill_volume(work, seen)) is not None:
        return progress
    if seen.pod_is_over:
        await work.delete(seen.pod)
    elif seen.pod is None:
        await members.run_pod(work, seen, objects.first_start({seen.name: work.peer_url(seen)}, "new"))
    return Progress("Creating", f"the first member {seen.name} starts")


async def without_quorum(work: Work) -> Progress:
    """Start the Pods that are missing. The membership stays as it is: it cannot be known, and not be changed."""
    if (progress := await recovery.recover(work)) is not None:
        return progress
    for seen in work.view.seen.values():
        if seen.pod_is_over:
            await work.delete(seen.pod)
        elif seen.service and seen.claim and seen.pod is None and seen.claim.metadata.deletion_timestamp is None:
            await members.run_pod(work, seen, objects.later_start(seen.name, work.peer_url(seen)))
    down = [each for each in work.view.seen.values() if not each.healthy]
    return Progress("NoQuorum", f"no majority answers; not healthy: {names(down)}")


def unhealthy(view: View) -> Progress | None:
    down = [each for each in view.members if not each.healthy]
    return Progress("MembersUnhealthy", f"not healthy: {names(down)}") if down else None


class Report:
    """The status of a cluster, written when it changes. A Conflict ends the reconcile: its view was old."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.written: EtcdClusterStatus = deepcopy(work.cluster.status)

    @property
    def status(self) -> EtcdClusterStatus:
        return self.work.cluster.status

    async def record_members(self) -> None:
        """Enter the members into the status, and the cluster's ID before anything is done to a new cluster."""
        work, view, status = self.work, self.work.view, self.status
        known = {each.name: each for each in status.members}
        if view.has_quorum:
            shown = view.members
        else:
            shown = [each for each in view.seen.values() if not status.members or each.name in known]
        status.members = [self._member(each, known.get(each.name)) for each in shown]
        status.ready = sum(each.healthy and not each.learner for each in status.members)
        status.leader = next((each.name for each in status.members if each.leader), "")
        versions = [each.version for each in status.members if each.version]
        status.version = min(versions, key=lambda it: [int(part) for part in it.split(".")], default=status.version)
        if versions and all(members.minor(each) <= status.downgrade_minor for each in versions):
            status.downgrade_minor = 0
        ca = work.issuer.authority if work.issuer is not None else None
        status.rotation = "Trusting" if ca and ca.following else "Signing" if ca and ca.previous else ""
        status.endpoint = objects.endpoint_for(work.cluster)
        status.selector = f"{objects.CLUSTER}={work.cluster.metadata.name},{objects.TASK}=member"
        status.no_quorum_since = None if view.has_quorum or not status.cluster_id else (
            status.no_quorum_since or work.now
        )  # fmt: skip
        if not status.cluster_id and view.has_quorum and len(view.members) == 1:
            status.cluster_id = view.cluster_id
            await self._save()
            work.event("ClusterCreated", f"{view.members[0].name} is the first member of cluster {view.cluster_id}")

    def _member(self, seen: Seen, before: MemberStatus | None) -> MemberStatus:
        found = MemberStatus(name=seen.name, healthy=seen.healthy, learner=not seen.votes, leader=seen.leads)
        if seen.member is not None:
            found.address = host_of(seen.member)
            found.id = hexadecimal(seen.member.id)
            if before is not None and before.id not in ("", found.id):  # another member that had this name
                before = None
        elif before is not None:
            found.id, found.learner, found.address = before.id, before.learner, before.address
        if seen.status is not None:
            found.version = seen.status.version
            found.database_bytes = _rounded(seen.status.db_size)
            found.in_use_bytes = _rounded(seen.status.db_size_in_use)
        elif before is not None:
            found.version = before.version
        if before is not None and before.id == found.id:
            found.usual_milliseconds, found.slow_since = before.usual_milliseconds, before.slow_since
        if not seen.healthy:
            found.unhealthy_since = (before.unhealthy_since if before else None) or self.work.now
        return found

    async def write(self, progress: Progress) -> None:
        work, view, status = self.work, self.work.view, self.status
        status.observed_generation = work.cluster.metadata.generation or 0
        healthy = f"{status.ready} of {len(view.voters) or work.cluster.spec.size} members are healthy"
        self._condition(AVAILABLE, view.has_quorum, "QuorumHealthy" if view.has_quorum else "NoQuorum", healthy)
        moving = progress is not STABLE and not progress.warning
        self._condition(PROGRESSING, moving, progress.reason, progress.message)
        self._condition(READY, progress is STABLE, progress.reason, progress.message)
        down = unhealthy(view)
        if progress.warning:
            self._condition(DEGRADED, True, progress.reason, progress.message)
        elif status.cluster_id and (down is not None or not view.has_quorum):
            self._condition(DEGRADED, True, "MembersUnhealthy" if view.has_quorum else "NoQuorum", healthy)
        else:
            self._condition(DEGRADED, False, "AsExpected", healthy)
        await self._save()
        metrics.report(self.work.cluster, has_quorum=view.has_quorum)

    def _condition(self, type: str, holds: bool, reason: str, message: str) -> None:
        set_condition(
            self.status.conditions,
            type,
            "True" if holds else "False",
            reason=reason,
            message=message,
            observed_generation=self.work.cluster.metadata.generation,
        )

    async def _save(self) -> None:
        if self.status != self.written:
            self.work.cluster = await self.work.ctx.client.update_status(self.work.cluster)
            self.written = deepcopy(self.status)


def _rounded(size: str) -> int:
    """Return a size in steps of a mebibyte, so that the status is not written for every key."""
    return -(-int(size) // (1 << 20)) << 20
