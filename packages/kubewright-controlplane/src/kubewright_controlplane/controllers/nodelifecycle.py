"""The node lifecycle controller: taints nodes by their conditions, and notices nodes whose kubelet is silent.

A node whose kubelet neither posts a status nor renews its Lease gets unknown conditions after a grace period. Taints
follow the conditions: NoSchedule for each problem, and NoExecute, which evicts Pods, if the node is not ready.

Simulated nodes never fall silent, so they are not monitored.

Follows kubernetes/pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, NodeCondition, Pod, Taint
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, DeletedContext, Result, controller
from kubewright.models._values import plain
from kubewright_controlplane.common.nodes import PROCESSES
from kubewright_controlplane.common.pods import condition
from kubewright_controlplane.common.selection import lister_of

GRACE: Final = timedelta(seconds=50)
"""How long a kubelet may be silent."""
_STARTUP: Final = timedelta(seconds=10)
"""How much longer it may be silent before its first status."""

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): _NOT_READY,
    ("Ready", "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset([*_BY_CONDITION.values(), _UNSCHEDULABLE])
_POSTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_COPIED_LABELS: Final = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


@dataclass(slots=True)
class _Health:
    """What was last seen of a kubelet."""

    heartbeat: datetime | None
    renewed: datetime | None
    at: datetime


class NodeLifecycle:
    """Keeps taints, labels and unknown conditions of nodes."""

    def __init__(self, live: Client, clock: Clock, *, simulated: bool, grace: timedelta) -> None:
        """`live` reads Leases. If nodes are `simulated`, only those with the label `PROCESSES` are monitored."""
        self._live = live
        self._clock = clock
        self._simulated = simulated
        self._grace = grace
        self._health: dict[str, _Health] = {}
        self._registered: dict[str, str] = {}
        """The UIDs of the known nodes."""

    async def reconcile(self, ctx: Context[Node] | DeletedContext[Node]) -> Result | None:
        if isinstance(ctx, DeletedContext) or ctx.object.metadata.deletion_timestamp is not None:
            self._health.pop(ctx.request.name, None)
            if isinstance(ctx, DeletedContext):
                self._unregister(ctx)
            return None
        self._register(ctx)
        left = await self._monitor(ctx) if self._is_monitored(ctx.object) else None
        await self._correct(ctx)
        return Result(requeue_after=left) if left is not None else None

    def _register(self, ctx: Context[Node]) -> None:
        """Write an Event for a node that this controller sees for the first time."""
        name = ctx.request.name
        if name not in self._registered:
            self._registered[name] = ctx.object.metadata.uid
            note = f"Node {name} event: Registered Node {name} in Controller"
            ctx.events.normal(ctx.object, "RegisteredNode", note, action="Register")

    def _unregister(self, ctx: DeletedContext[Node]) -> None:
        name = ctx.request.name
        uid = self._registered.pop(name, None)
        if uid is not None:
            note = f"Node {name} event: Removing Node {name} from Controller"
            ctx.events.normal(Node(metadata=ObjectMeta(name=name, uid=uid)), "RemovingNode", note, action="Remove")

    def _is_monitored(self, node: Node) -> bool:
        return not self._simulated or PROCESSES in node.metadata.labels

    async def _monitor(self, ctx: Context[Node]) -> timedelta | None:
        """Make the conditions unknown if the kubelet is silent. Returns the time until the next check."""
        node, now = ctx.object, self._clock.now()
        ready = _ready(node)
        grace = self._grace if ready is not None else self._grace + _STARTUP
        seen = self._seen(node, ready, now)
        if now < seen.at + grace:
            return seen.at + grace - now
        await self._look_for_lease(node, seen, now)
        if now < seen.at + grace:
            return seen.at + grace - now
        await self._report_silence(ctx, ready, now)
        return grace / 5

    def _seen(self, node: Node, ready: NodeCondition | None, now: datetime) -> _Health:
        heartbeat = ready.last_heartbeat_time if ready is not None else None
        seen = self._health.get(node.metadata.name)
        if seen is None:
            started = now if ready is not None else node.metadata.creation_timestamp or now
            seen = self._health[node.metadata.name] = _Health(heartbeat, None, started)
        elif seen.heartbeat != heartbeat and (ready is None or ready.status != "Unknown"):
            seen.heartbeat, seen.at = heartbeat, now
        return seen

    async def _look_for_lease(self, node: Node, seen: _Health, now: datetime) -> None:
        from kubewright.apis.coordination.v1 import Lease  # simulated nodes have none

        lease = await self._live.get_or_none(Lease, node.metadata.name, namespace="kube-node-lease")
        renewed = lease.spec.renew_time if lease is not None else None
        if renewed is not None and (seen.renewed is None or seen.renewed < renewed):
            seen.renewed, seen.at = renewed, min(renewed, now)

    async def _report_silence(self, ctx: Context[Node], ready: NodeCondition | None, now: datetime) -> None:
        node = ctx.object
        conditions = list(node.status.conditions)
        for kind in _POSTED:
            index = next((at for at, each in enumerate(conditions) if each.type == kind), None)
            if index is None:
                conditions.append(_never_posted(node, kind, now))
            elif conditions[index].status != "Unknown":
                conditions[index] = msgspec.structs.replace(
                    conditions[index],
                    status="Unknown",
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                    last_transition_time=now,
                )
        if conditions == node.status.conditions:
            return
        node.status.conditions = conditions
        await ctx.update_status(node.status)
        if ready is not None and ready.status == "True":
            note = f"Node {node.metadata.name} status is now: NodeNotReady"
            ctx.events.normal(node, "NodeNotReady", note, action="Monitor")
            await self._mark_pods(ctx, now)

    async def _mark_pods(self, ctx: Context[Node], now: datetime) -> None:
        """Report the Pods of the node not ready."""
        for pod in lister_of(ctx, Pod).list():
            ready = condition(pod, "Ready")
            if pod.spec.node_name != ctx.request.name or ready is None or ready.status != "True":
                continue
            ready.status, ready.last_transition_time = "False", now
            await ctx.client.update_status(pod)
            ctx.events.warning(pod, "NodeNotReady", "Node is not ready", action="Monitor")

    async def _correct(self, ctx: Context[Node]) -> None:
        """Set the taints that the conditions require, and the deprecated labels."""
        node = ctx.object
        change: dict[str, Any] = {}
        taints = _taints(node, self._clock.now())
        if taints != node.spec.taints:
            change["spec"] = {"taints": plain(taints) or None}
        labels = {
            copy: node.metadata.labels[label] for label, copy in _COPIED_LABELS.items() if label in node.metadata.labels
        }
        if not labels.items() <= node.metadata.labels.items():
            change["metadata"] = {"labels": labels}
        if change:
            change.setdefault("metadata", {})["resourceVersion"] = node.metadata.resource_version
            await ctx.patch(node, MergePatch(change))


def _ready(node: Node) -> NodeCondition | None:
    return next((each for each in node.status.conditions if each.type == "Ready"), None)


def _never_posted(node: Node, kind: str, now: datetime) -> NodeCondition:
    return NodeCondition(
        type=kind,
        status="Unknown",
        reason="NodeStatusNeverUpdated",
        message="Kubelet never posted node status.",
        last_heartbeat_time=node.metadata.creation_timestamp,
        last_transition_time=now,
    )


def _taints(node: Node, now: datetime) -> Sequence[Taint]:
    """Return the taints of the node, with those that follow from its conditions."""
    wanted = {(key, "NoSchedule") for each in node.status.conditions if (key := _key_of(each))}
    if node.spec.unschedulable:
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    ready = _ready(node)
    if ready is not None and ready.status != "True":
        wanted.add((_key_of(ready), "NoExecute"))
    kept = [each for each in node.spec.taints if (each.key, each.effect) in wanted or not _is_ours(each, ready)]
    present = {(each.key, each.effect) for each in kept}
    return [*kept, *(Taint(key=key, effect=effect, time_added=now) for key, effect in sorted(wanted - present))]


def _key_of(found: NodeCondition) -> str:
    return _BY_CONDITION.get((found.type, found.status), "")


def _is_ours(taint: Taint, ready: NodeCondition | None) -> bool:
    """Return whether the taint follows from a condition."""
    if taint.effect == "NoSchedule":
        return taint.key in _OURS
    return taint.effect == "NoExecute" and taint.key in (_NOT_READY, _UNREACHABLE) and ready is not None


def node_lifecycle_controller(
    live: Client, clock: Clock, *, simulated: bool = True, grace: timedelta = GRACE
) -> Controller[Node]:
    """Return the controller `node-lifecycle-controller`."""
    declare = controller(Node, name="node-lifecycle-controller", cached=[Pod], reconcile_deleted=True, workers=1)
    return declare(NodeLifecycle(live, clock, simulated=simulated, grace=grace))
