"""The members of a cluster: how one is made, started, promoted, replaced, removed and upgraded.

Each function does at most one change to the membership, and says what it did or waits for. The next reconcile looks
again. So the order of the writes alone decides what a killed operator leaves behind, and each leftover is a state that
the next reconcile knows:

    to add a member        Service, membership (as a learner), claim, Pod, vote
    to remove a member     membership, Pod, claim, Service

A healthy majority is never removed: etcd is asked first, and refuses what would break its quorum
(`strict-reconfig-check`), and the operator counts for itself (`View.tolerates_loss_of`).
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubewright import AlreadyExists, AlreadyOwnedError, Context, Invalid
from kubewright.apis.core.v1 import Pod, Service
from kubewright.client import MergePatch
from kubewright.health import health_of
from kubewright.models import Object

from etcd_operator import objects
from etcd_operator.api.v1.etcdcluster import EtcdCluster
from etcd_operator.etcd import Credentials, Etcd, Refused, Unreachable
from etcd_operator.metrics import CHANGES
from etcd_operator.tls import Issuer
from etcd_operator.view import Seen, View, host_of, names

BEHIND: Final = 1000
"""Entries of the log that a member may be behind the leader, and still count as up to date."""


FIRST_START: Final = timedelta(minutes=5)
"""The least time that a new member has for its first start. It has no vote yet, so another one gains nothing."""


class Progress(NamedTuple):
    """What the operator does, for the condition Progressing."""

    reason: str
    message: str
    warning: bool = False
    """Whether it waits for a user."""


@dataclass
class Work:
    """A reconcile of a cluster: the cluster as it is on the server, and how to reach etcd."""

    ctx: Context[EtcdCluster]
    cluster: EtcdCluster
    view: View
    trust: Credentials | None
    issuer: Issuer | None

    @property
    def now(self) -> datetime:
        return self.ctx.clock.now()

    def peer_url(self, seen: Seen) -> str:
        return objects.url(self.cluster, seen.address, objects.PEER_PORT)

    def etcd(self, seen: Seen) -> Etcd:
        return Etcd(objects.url(self.cluster, seen.address, objects.CLIENT_PORT), self.trust)

    def any_etcd(self) -> Etcd:
        """Return a client of the leader, or else of any member that answers."""
        chosen = self.view.leader or next((each for each in self.view.members if each.healthy), None)
        if chosen is None:
            raise Unreachable("no member knows a leader")
        return self.etcd(chosen)

    async def create(self, obj: Object) -> None:
        try:
            await self.ctx.create(obj)
        except AlreadyExists:  # a list on the server did not show it: another process made it just now
            return

    async def delete(self, *targets: Object | None) -> None:
        for each in targets:
            if each is not None and each.metadata.deletion_timestamp is None:
                await self.ctx.delete(each)

    def event(self, reason: str, note: str, *, warning: bool = False) -> None:
        record = self.ctx.events.warning if warning else self.ctx.events.normal
        record(self.cluster, reason, note)
        CHANGES.labels(self.cluster.metadata.namespace, self.cluster.metadata.name, reason).inc()
        self.ctx.log.info("EtcdCluster change", reason=reason, note=note)


# ---- objects


async def run_pod(work: Work, seen: Seen, initial: dict[str, str]) -> None:
    """Create the Pod of a member, and before it what it mounts."""
    if work.issuer is not None:
        await work.issuer.keep(f"{seen.name}-tls", objects.hosts_for(work.cluster, seen.name, seen.address))
        initial = initial | objects.trust_of(work.issuer.authority.bundle)
    version = version_for(work.cluster, seen.name)
    await work.create(objects.member_pod(work.cluster, seen.name, seen.address, initial, version))


async def keep_services(work: Work) -> Progress | None:
    """Give each member its Service again, as it has to be, at the address that the other members know.

    Needs no quorum: members reach each other only through their Services.
    """
    known = {each.name: each.address for each in work.cluster.status.members}
    changed: list[Seen] = []
    for seen in list(work.view.seen.values()):
        address = host_of(seen.member) if seen.member else known.get(seen.name, "")
        if seen.service is None:
            is_changed = bool(address) and await restore_service(work, seen, address)
        elif address and seen.service.spec.cluster_ip != address:
            work.event("ServiceDeleted", f"Service {seen.name!r} has another address than {address}", warning=True)
            await work.delete(seen.service)
            is_changed = True
        else:
            is_changed = await repair_service(work, seen.service, objects.member_service(work.cluster, seen.name))
        if is_changed:
            changed.append(seen)
    return Progress("RepairingServices", f"the Services of {names(changed)} were changed") if changed else None


async def restore_service(work: Work, seen: Seen, address: str) -> bool:
    """Create the Service of a member again, at the address that the other members know.

    Returns False if another Service has the name or the address: the member is then replaced if it does not answer.
    """
    name = seen.name or work.view.free_name(work.cluster.metadata.name)
    try:
        await work.ctx.apply(objects.member_service(work.cluster, name, address))
    except (AlreadyOwnedError, Invalid) as error:
        work.event("AddressLost", f"The address {address} of {name} cannot be had again: {error}", warning=True)
        return False
    return True


async def repair_service(work: Work, live: Service, wanted: Service) -> bool:
    """Write back what was changed in the spec of a Service. Returns whether something was."""
    repaired = objects.repaired_service(live, wanted)
    if repaired is None:
        return False
    await work.ctx.client.update(repaired)
    work.event("ServiceRepaired", f"The spec of Service {live.metadata.name!r} was changed, and is as before again")
    return True


async def repair(work: Work) -> Progress | None:
    """Give each member the objects that it lacks. Leaves alone a member whose data or address is lost."""
    members = [each for each in work.view.members if each.service is not None and not each.lost]
    waits = [each for each in members if await repair_member(work, each)]
    return Progress("MembersStarting", f"waiting for {names(waits)} to start") if waits else None


async def repair_member(work: Work, seen: Seen) -> bool:
    """Create the claim and the Pod of a member, or tell its Pod how to start next time. Returns whether it waits."""
    if seen.claim is None:
        await work.create(objects.claim_for(work.cluster, seen.name))
    initial = initial_for(work, seen)
    if seen.pod is None:
        await run_pod(work, seen, initial)
        return True
    if seen.pod_is_over:
        await work.delete(seen.pod)
        return True
    annotations = seen.pod.metadata.annotations
    if any(annotations.get(key) != value for key, value in initial.items()):
        await work.ctx.patch(seen.pod, MergePatch({"metadata": {"annotations": initial}}))
    return False


def initial_for(work: Work, seen: Seen) -> dict[str, str]:
    if seen.started:
        return objects.later_start(seen.name, work.peer_url(seen))
    members = {each.name: each.member.peer_urls[0] for each in work.view.members if each.member}
    return objects.first_start(members, "existing")


async def sweep(work: Work) -> Progress | None:
    """Delete what belongs to no member. A Service alone is kept: it is the address of the next member.

    A Pod that cannot end, because its node does not answer, is not waited for: etcd has removed its member for good.
    """
    waits: list[Seen] = []
    for seen in [each for each in work.view.seen.values() if each.member is None]:
        doomed = next((each for each in (seen.pod, seen.claim) if each and not each.metadata.deletion_timestamp), None)
        if doomed is not None:
            await work.delete(doomed)
            waits.append(seen)
        elif seen.pod or seen.claim or len(work.view.members) >= work.cluster.spec.size:
            await work.delete(seen.service)
    return Progress("MembersLeaving", f"deleting what belonged to {names(waits)}") if waits else None


# ---- one change to the membership


async def promote(work: Work) -> Progress | None:
    """Give a learner its vote once etcd says that it has caught up."""
    for seen in work.view.learners:
        assert seen.member is not None
        if not seen.healthy:
            continue
        async with work.any_etcd() as etcd:
            try:
                await etcd.promote(seen.member.id)
            except (Refused, Unreachable) as error:
                return Progress("LearnerCatchesUp", f"{seen.name} receives data: {error}")
        work.event("MemberPromoted", f"{seen.name} has caught up, and votes")
        return Progress("MemberPromoted", f"{seen.name} votes")
    if work.view.learners:
        return Progress("MembersStarting", f"waiting for {names(work.view.learners)} to start")
    return None


async def grow(work: Work) -> Progress | None:
    """Add a learner if there are fewer members than wanted, and a majority is healthy."""
    cluster, view = work.cluster, work.view
    if len(view.members) >= cluster.spec.size or view.learners:
        return None
    if not view.tolerates_loss_of():
        return Progress("WaitingForQuorum", "a member is added when a majority is healthy")
    free = next((each for each in view.seen.values() if each.member is None and each.service and not each.pod), None)
    if free is None:
        await work.create(objects.member_service(cluster, view.free_name(cluster.metadata.name)))
        return Progress("AddingMember", "a new member gets its address")
    async with work.any_etcd() as etcd:
        await etcd.add_learner(work.peer_url(free))
    work.event("MemberAdded", f"{free.name} joins as a learner")
    return Progress("AddingMember", f"{free.name} joins")


async def shrink(work: Work) -> Progress | None:
    """Remove a member if there are more than wanted: a broken one, else a learner, else the youngest."""
    view = work.view
    if len(view.members) <= work.cluster.spec.size:
        return None
    order = {each.name: number for number, each in enumerate(view.members)}
    victim = min(view.members, key=lambda it: (it.healthy, it.votes, it.leads, -order[it.name]))
    return await remove(work, victim, "the cluster shrinks")


async def replace_broken(work: Work) -> Progress | None:
    """Remove a member whose data is lost, or that was down for too long. Another one is added later."""
    allowed = timedelta(seconds=work.cluster.spec.replace_after_seconds)
    since = {each.name: each.unhealthy_since for each in work.cluster.status.members}
    for seen in work.view.members:
        down_since, patience = since.get(seen.name), allowed if seen.started else max(allowed, FIRST_START)
        if seen.lost:
            return await remove(work, seen, "its volume is lost")
        if not seen.healthy and down_since is not None and work.now - down_since >= patience:
            return await remove(work, seen, f"it was down for {patience.total_seconds():.0f} s")
    return None


async def remove(work: Work, victim: Seen, why: str) -> Progress:
    """Remove a member from the membership, if the others are a healthy majority without it."""
    assert victim.member is not None
    if victim.votes and not work.view.tolerates_loss_of(victim):
        return Progress("WaitingForQuorum", f"{victim.name} stays until a majority of the others is healthy")
    if victim.leads and (moved := await hand_over(work, victim)) is not None:
        return moved
    async with work.any_etcd() as etcd:
        await etcd.remove(victim.member.id)
    work.event("MemberRemoved", f"{victim.name} was removed: {why}", warning=not victim.healthy)
    return Progress("RemovingMember", f"{victim.name} was removed: {why}")


async def hand_over(work: Work, leader: Seen) -> Progress | None:
    """Move leadership to the most advanced other voter. Returns None if there is none."""
    others = [each for each in work.view.voters if each is not leader and each.healthy]
    if not others:
        return None
    successor = max(others, key=lambda it: it.applied)
    assert successor.member is not None
    async with work.etcd(leader) as etcd:
        await etcd.transfer_leadership(successor.member.id)
    work.event("LeadershipMoved", f"Leadership moved from {leader.name} to {successor.name}")
    return Progress("MovingLeadership", f"{successor.name} takes over from {leader.name}")


# ---- versions and templates


async def roll(work: Work) -> Progress | None:
    """Replace the Pod of one member that has another version or template, the leader's last."""
    outdated = [each for each in work.view.members if each.pod is not None and is_outdated(work, each.pod)]
    if not outdated:
        return None
    if (refusal := version_gap(work)) is not None:
        return refusal
    if not work.view.all_healthy() or len(work.view.members) > work.cluster.spec.size:
        return Progress(
            "WaitingForMembers", f"waiting until all members are healthy; then to replace: {names(outdated)}"
        )
    if (waits := behind(work)) is not None or (waits := await allow_downgrade(work)) is not None:
        return waits
    seen = min(outdated, key=lambda it: it.leads)
    return await replace_pod(work, seen, f"{objects.image_for(work.cluster)}; {len(outdated) - 1} to go")


async def replace_pod(work: Work, seen: Seen, why: str) -> Progress:
    """Delete the Pod of a healthy member, after another member leads. The next reconcile creates another Pod."""
    if seen.leads and (moved := await hand_over(work, seen)) is not None:
        return moved
    await work.delete(seen.pod)
    work.event("MemberReplaced", f"The Pod of {seen.name} is replaced: {why}")
    return Progress("Rolling", f"the Pod of {seen.name} is replaced: {why}")


def version_for(cluster: EtcdCluster, name: str) -> str:
    """Return the version for a new Pod: that of the spec, if the member's data and the others allow it by now.

    Otherwise a Pod that was only evicted would upgrade by two versions, or downgrade before etcd has prepared it.
    """
    status, wanted = cluster.status, cluster.spec.version
    current = next((each.version for each in status.members if each.name == name and each.version), status.version)
    if not current:
        return wanted
    too_far = abs(minor(wanted) - minor(current)) > 1 or minor(wanted) - minor(status.version or current) > 1
    unprepared = minor(wanted) < minor(current) and minor(wanted) != status.downgrade_minor
    return current if too_far or unprepared else wanted


def is_outdated(work: Work, pod: Pod) -> bool:
    wanted = {objects.TEMPLATE: objects.template_hash(work.cluster)}
    if work.issuer is not None:
        wanted |= objects.trust_of(work.issuer.authority.bundle)
    is_as_wanted = wanted.items() <= pod.metadata.annotations.items()
    return not is_as_wanted or pod.spec.containers[0].image != objects.image_for(work.cluster)


def behind(work: Work) -> Progress | None:
    """Return what to wait for while a member has not caught up since its restart, or gets no clients yet."""
    if unready := [
        each.name for each in work.view.members if each.pod is not None and not health_of(each.pod).is_ready
    ]:
        return Progress("WaitingForMembers", f"waiting until the Pod of {', '.join(unready)} is ready")
    newest = max(each.applied for each in work.view.voters)
    late = [each for each in work.view.voters if newest - each.applied > BEHIND]
    return Progress("WaitingForMembers", f"waiting for {names(late)} to catch up") if late else None


def version_gap(work: Work) -> Progress | None:
    """Refuse a version that is more than one minor version away: its members could not work together."""
    versions = [each.status.version for each in work.view.members if each.status]
    far = [each for each in versions if abs(minor(each) - minor(work.cluster.spec.version)) > 1]
    if not far:
        return None
    wanted = work.cluster.spec.version
    return Progress(
        "UnsupportedVersion",
        f"spec.version: {wanted} is more than one minor version away from {far[0]}: go there in steps",
        warning=True,
    )


async def allow_downgrade(work: Work) -> Progress | None:
    """Ask etcd to write data that the older version reads, before the first member is downgraded."""
    wanted = work.cluster.spec.version
    async with work.any_etcd() as etcd:
        current = await etcd.cluster_version()
        if minor(current) <= minor(wanted):
            await cancel_downgrade(work, etcd)
            return unconverted(work)
        target = f"3.{minor(wanted)}.0"
        status = await etcd.status()
        if not status.downgrade_info.enabled:
            try:
                await etcd.downgrade("VALIDATE", target)
                await etcd.downgrade("ENABLE", target)
            except Refused as error:
                return Progress("DowngradeRefused", f"spec.version: etcd refuses {wanted}: {error}", warning=True)
            work.event("DowngradeEnabled", f"etcd writes data that {target} reads from now on")
    work.cluster.status.downgrade_minor = minor(wanted)
    return Progress("Downgrading", f"etcd writes data that {target} reads from now on")


def unconverted(work: Work) -> Progress | None:
    """Return what to wait for while the data of a member is still in the format of a newer version than wanted.

    A member converts its data while it runs. An older etcd does not start with data that is not converted.
    """
    wanted = minor(work.cluster.spec.version)
    stored = {each.name: each.status.storage_version for each in work.view.members if each.status}
    late = [name for name, version in stored.items() if version and minor(version) > wanted]
    return Progress("Downgrading", f"waiting for {', '.join(late)} to convert the data") if late else None


async def cancel_downgrade(work: Work, etcd: Etcd) -> None:
    """End a downgrade that the user no longer wants."""
    if 0 < work.cluster.status.downgrade_minor < minor(work.cluster.spec.version):
        with suppress(Refused):  # etcd ends it itself when all members have the older version
            await etcd.downgrade("CANCEL", "")
        work.cluster.status.downgrade_minor = 0


def minor(version: str) -> int:
    return int(version.split(".")[1])
