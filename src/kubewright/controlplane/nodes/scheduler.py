"""The scheduler: binds each pod to a node that takes it, the one with the fewest pods.

Looks at `nodeSelector`, taints and tolerations, and `unschedulable`. Pods that ask for more (affinity, topology spread,
resources) are placed as if they had not: on simulated nodes it makes no difference to what runs.

Follows kubernetes/pkg/scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from kubewright.apis.core.v1 import Binding, Node, ObjectReference, Pod, PodCondition, Taint, Toleration
from kubewright.cache.lister import Lister
from kubewright.controller import Context, Controller, Request, Watch, controller
from kubewright.controlplane.pods import condition
from kubewright.machinery.clock import Clock
from kubewright.machinery.errors import Conflict, NotFound

NAME = "default-scheduler"


class Scheduler:
    """Binds pods that name this scheduler and no node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def reconcile(self, ctx: Context[Pod]) -> None:
        pod = ctx.object
        if not _is_waiting(pod):
            return
        nodes = list(await ctx.list(Node))
        fitting = [node for node in nodes if refusal(pod, node) is None]
        if not fitting:
            await self._report(ctx, nodes)
            return
        crowd = Counter(other.spec.node_name for other in await ctx.list(Pod, namespace=""))
        chosen = min(fitting, key=lambda node: (crowd[node.metadata.name], node.metadata.name))
        await self._bind(ctx, chosen.metadata.name)

    async def _bind(self, ctx: Context[Pod], node: str) -> None:
        pod = ctx.object
        target = ObjectReference(kind="Node", name=node)
        binding = Binding(metadata=msgspec.structs.replace(pod.metadata, resource_version=""), target=target)
        try:
            await ctx.client.subresource(Pod, pod.metadata.name, "binding", namespace=pod.metadata.namespace).create(
                binding
            )
        except (NotFound, Conflict):
            return  # deleted or bound meanwhile: the event that says so comes
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        ctx.events.normal(pod, "Scheduled", f"Successfully assigned {where} to {node}", action="Binding")

    async def _report(self, ctx: Context[Pod], nodes: list[Node]) -> None:
        pod = ctx.object
        reasons = Counter(refusal(pod, node) for node in nodes)
        causes = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        message = f"0/{len(nodes)} nodes are available: {causes}." if nodes else "no nodes available to schedule pods"
        before = condition(pod, "PodScheduled")
        if before is not None and before.message == message:
            return
        waiting = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=message,
            last_transition_time=self._clock.now(),
        )
        others = [each for each in pod.status.conditions if each.type != "PodScheduled"]
        await ctx.update_status(msgspec.structs.replace(pod.status, phase="Pending", conditions=[*others, waiting]))
        ctx.events.warning(pod, "FailedScheduling", message, action="Scheduling")


def refusal(pod: Pod, node: Node) -> str | None:
    """Why the node does not take the pod, in the words of `kubectl describe`; None when it does."""
    if node.metadata.deletion_timestamp is not None:
        return "node(s) were being deleted"
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    if node.spec.unschedulable and not _tolerated(
        Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"), pod.spec.tolerations
    ):
        return "node(s) were unschedulable"
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerated(taint, pod.spec.tolerations):
            return f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value or ''}}}"
    return None


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def _is_waiting(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and pod.spec.scheduler_name in (None, NAME)
        and pod.metadata.deletion_timestamp is None
        and not pod.spec.scheduling_gates
    )


def _on_node_change(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    """A node that appears or opens up may take what waits."""
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in pods.list() if _is_waiting(pod)]


def scheduler(clock: Clock) -> Controller[Pod]:
    """The controller named `default-scheduler`."""
    declare = controller(Pod, name=NAME, watches=[Watch(Node, map=_on_node_change)], writes=[Binding], workers=1)
    return declare(Scheduler(clock))
