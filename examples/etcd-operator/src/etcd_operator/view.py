"""What a reconcile knows: the objects on the server, and what etcd itself says about its members.

Guarantees
    The objects are read before the membership, from the server and from a quorum. A Pod that was made for a new member
    is therefore never without its member here, even if another process made it.
    A member's answer counts only if its cluster and its ID are those of the membership: an address that leads to
    another process is a member that does not answer.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from kubewright import Context
from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Secret, Service
from kubewright.certificates import BUNDLE, CERTIFICATE, KEY
from kubewright.controllers import is_controlled_by
from kubewright.models import Object

from etcd_operator import objects
from etcd_operator.api.v1.etcdcluster import EtcdCluster
from etcd_operator.etcd import Credentials, Etcd, Member, Members, Refused, Status, Unreachable


@dataclass
class Seen:
    """One member: its objects, its entry in the membership, and its own answer."""

    name: str
    service: Service | None = None
    pod: Pod | None = None
    claim: PersistentVolumeClaim | None = None
    member: Member | None = None
    status: Status | None = None
    seconds: float | None = None
    """How long its answer took."""

    @property
    def address(self) -> str:
        if self.service is not None:
            return self.service.spec.cluster_ip or ""
        return host_of(self.member) if self.member else ""

    @property
    def started(self) -> bool:
        """Whether it has started once: its vote may depend on its data."""
        return self.member is not None and bool(self.member.name)

    @property
    def votes(self) -> bool:
        return self.member is not None and not self.member.is_learner

    @property
    def healthy(self) -> bool:
        """Whether it answers, and knows a leader."""
        return self.status is not None and self.status.leader != "0"

    @property
    def leads(self) -> bool:
        return self.healthy and self.member is not None and self.status is not None and (
            self.status.leader == self.member.id
        )  # fmt: skip

    @property
    def applied(self) -> int:
        return int(self.status.raft_applied_index) if self.status else 0

    @property
    def lost(self) -> bool:
        """Whether its data is gone for good: it has started, and no longer has a volume."""
        if not self.started:
            return False
        if self.claim is None:
            return True
        return self.claim.status.phase == "Lost" or (
            self.claim.metadata.deletion_timestamp is not None and self.pod is None
        )

    @property
    def pod_is_over(self) -> bool:
        return self.pod is not None and self.pod.status.phase in ("Succeeded", "Failed")


@dataclass
class View:
    """All members of a cluster's current epoch."""

    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    """By name: what has objects or is a member."""
    older: list[Object] = field(default_factory=list[Object])
    """Objects of earlier epochs, Pods first."""
    tasks: dict[str, Pod] = field(default_factory=dict[str, Pod])
    """Other Pods of this epoch, by name."""
    cluster_id: str = ""
    """As the answers say it, in hexadecimal."""
    has_quorum: bool = False

    @property
    def members(self) -> list[Seen]:
        """Return the members, in order of their names."""
        return [each for _, each in sorted(self.seen.items(), key=_in_order) if each.member is not None]

    @property
    def voters(self) -> list[Seen]:
        return [each for each in self.members if each.votes]

    @property
    def learners(self) -> list[Seen]:
        return [each for each in self.members if not each.votes]

    @property
    def leader(self) -> Seen | None:
        return next((each for each in self.voters if each.leads), None)

    def tolerates_loss_of(self, *gone: Seen) -> bool:
        """Return whether the other voters have a healthy majority among themselves, and among all voters of now."""
        left = [each for each in self.voters if each not in gone]
        healthy = sum(each.healthy for each in left)
        return healthy >= len(left) // 2 + 1

    def stays_available_without(self, member: Seen) -> bool:
        """Return whether a majority of all voters is healthy while this one restarts."""
        others = sum(each.healthy for each in self.voters if each is not member)
        return others >= len(self.voters) // 2 + 1

    def all_healthy(self) -> bool:
        return bool(self.voters) and all(each.healthy for each in self.voters) and not self.learners

    def free_name(self, cluster: str) -> str:
        """Return the first name that no object and no member has."""
        taken = set(self.seen) | {each.metadata.name for each in self.older}
        return next(name for n in range(len(taken) + 1) if (name := f"{cluster}-{n}") not in taken)


def host_of(member: Member) -> str:
    return urlsplit(member.peer_urls[0]).hostname or "" if member.peer_urls else ""


def hexadecimal(number: str) -> str:
    return f"{int(number or 0):x}"


async def observe(ctx: Context[EtcdCluster], cluster: EtcdCluster, trust: Credentials | None) -> View:
    """Return the current view. Members that do not answer within some seconds are seen without a status."""
    view = View()
    for kind in (Pod, PersistentVolumeClaim, Service):
        await _read_objects(ctx, cluster, kind, view)
    if cluster.spec.tls.enabled and trust is None:
        return view
    addresses = sorted({each.address for each in view.seen.values() if each.address})
    async with asyncio.TaskGroup() as group:
        asked = {
            each: group.create_task(_ask(objects.url(cluster, each, objects.CLIENT_PORT), trust)) for each in addresses
        }
    answers = {address: task.result() for address, task in asked.items()}
    _match(cluster, view, answers)
    return view


async def credentials_of(ctx: Context[EtcdCluster], cluster: EtcdCluster) -> Credentials | None:
    """Return what the operator needs to talk to a cluster with TLS; None without TLS, or before there is one."""
    secret = await ctx.client.uncached.get_or_none(
        Secret, f"{cluster.metadata.name}-client", namespace=cluster.metadata.namespace
    )
    if not cluster.spec.tls.enabled or secret is None:
        return None
    return credentials_in(secret, objects.host_for(cluster))


def credentials_in(secret: Secret, server_name: str) -> Credentials:
    return Credentials(secret.data[BUNDLE], secret.data[CERTIFICATE], secret.data[KEY], server_name)


async def _read_objects(
    ctx: Context[EtcdCluster], cluster: EtcdCluster, kind: type[Pod | PersistentVolumeClaim | Service], view: View
) -> None:
    labels = {objects.CLUSTER: cluster.metadata.name}
    found = await ctx.client.uncached.list(kind, namespace=cluster.metadata.namespace, labels=labels)
    for each in found:
        name = each.metadata.labels.get(objects.MEMBER)
        if name is None or not is_controlled_by(each, cluster):
            continue
        if each.metadata.labels.get(objects.EPOCH) != str(cluster.status.epoch.number):
            view.older.append(each)
        elif each.metadata.name != name:
            if isinstance(each, Pod):
                view.tasks[each.metadata.name] = each
        else:
            seen = view.seen.setdefault(name, Seen(name))
            match each:
                case Pod():
                    seen.pod = each
                case PersistentVolumeClaim():
                    seen.claim = each
                case Service():
                    seen.service = each


class Answer(NamedTuple):
    """What a member says: its own state, and the membership if it has a quorum."""

    status: Status | None = None
    members: Members | None = None
    seconds: float | None = None


async def _ask(url: str, trust: Credentials | None) -> Answer:
    began, status, seconds = time.monotonic(), None, None
    async with Etcd(url, trust) as etcd:
        try:
            status = await etcd.status()
            seconds = time.monotonic() - began
            return Answer(status, await etcd.members(), seconds)
        except (Unreachable, Refused):
            return Answer(status, None, seconds)


def _match(cluster: EtcdCluster, view: View, answers: dict[str, Answer]) -> None:
    """Enter the answers into the view."""
    wanted = cluster.status.cluster_id
    known = [m for _, m, _ in answers.values() if m and wanted in ("", hexadecimal(m.header.cluster_id))]
    if not known:
        return _match_without_quorum(view, wanted, answers)
    latest = max(known, key=lambda it: int(it.header.raft_term))
    view.cluster_id, view.has_quorum = hexadecimal(latest.header.cluster_id), True
    by_address = {each.address: each for each in view.seen.values() if each.address}
    for member in latest.members:
        address = host_of(member)
        seen = by_address.get(address)
        if seen is None:
            seen = view.seen.setdefault(member.name or f"unknown-{hexadecimal(member.id)}", Seen(member.name))
        seen.member = member
        answer = answers.get(address, Answer())
        if answer.status is not None and answer.status.header.member_id == member.id:
            seen.status, seen.seconds = answer.status, answer.seconds
    return None


def _match_without_quorum(view: View, wanted: str, answers: dict[str, Answer]) -> None:
    for seen in view.seen.values():
        status = answers.get(seen.address, Answer()).status
        if status is not None and wanted in ("", hexadecimal(status.header.cluster_id)):
            seen.status = status


def _in_order(item: tuple[str, Seen]) -> tuple[int, str]:
    ordinal = item[0].rpartition("-")[2]
    return int(ordinal) if ordinal.isascii() and ordinal.isdigit() else 1 << 30, item[0]


def names(members: Iterable[Seen]) -> str:
    return ", ".join(each.name for each in members)
