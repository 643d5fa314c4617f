"""The scheduler: binds each Pod to the eligible node with the fewest Pods.

It considers `nodeSelector`, required node affinity, taints and tolerations, `unschedulable` and the Pod's claims. It
ignores Pod affinity, topology spread and resources, which make no difference on simulated nodes.

Follows kubernetes/pkg/scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import (
    Binding,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.storage.v1 import StorageClass
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Watch, controller
from kubewright.machinery.errors import Conflict, NotFound
from kubewright.models import PolicyRule
from kubewright_controlplane.common import affinity, taints
from kubewright_controlplane.common.pods import condition, is_finished
from kubewright_controlplane.common.volumes import claims_of
from kubewright_controlplane.scheduler.placement import Placement
from kubewright_controlplane.scheduler.volumes import VolumeCheck

NAME: Final = "default-scheduler"
_WAITING: Final = "waiting"
"""The index of Pods that wait: under "", and under each of their claims."""


class Scheduler:
    """Binds Pods that name this scheduler and have no node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._placement = Placement()

    async def reconcile(self, ctx: Context[Pod] | DeletedContext[Pod]) -> None:
        if not self._placement.seeded:
            self._placement.seed(await ctx.list(Pod, namespace=""))
        if isinstance(ctx, DeletedContext):
            self._placement.put(ctx.request, "")
            return
        pod = ctx.object
        self._placement.see(pod)
        if _is_waiting(pod):
            await self._schedule(ctx)

    async def _schedule(self, ctx: Context[Pod]) -> None:
        pod = ctx.object
        nodes = list(await ctx.list(Node))
        volumes = await VolumeCheck.of(ctx)
        if volumes.error:
            await self._report(ctx, f"0/{len(nodes)} nodes are available: {volumes.error}.")
            return
        fitting = [node for node in nodes if (refusal(pod, node) or volumes.refusal(node)) is None]
        if not fitting:
            await self._report(ctx, _no_node(pod, nodes, volumes))
            return
        chosen = min(fitting, key=lambda node: (self._placement.on(node.metadata.name), node.metadata.name))
        if await volumes.provided(chosen.metadata.name):
            await self._bind(ctx, chosen.metadata.name)

    async def _bind(self, ctx: Context[Pod], node: str) -> None:
        pod = ctx.object
        target = ObjectReference(kind="Node", name=node)
        # labels and annotations of a Binding would overwrite those of the Pod
        meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        binding = Binding(metadata=meta, target=target)
        bindings = ctx.client.subresource(Pod, pod.metadata.name, "binding", namespace=pod.metadata.namespace)
        try:
            await bindings.create(binding)
        except (NotFound, Conflict):
            return  # deleted or bound meanwhile: an event follows
        self._placement.put(ctx.request, node)
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        ctx.events.normal(pod, "Scheduled", f"Successfully assigned {where} to {node}", action="Binding")

    async def _report(self, ctx: Context[Pod], message: str) -> None:
        pod = ctx.object
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


def _no_node(pod: Pod, nodes: Sequence[Node], volumes: VolumeCheck) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    reasons = Counter(refusal(pod, node) or volumes.refusal(node) for node in nodes)
    causes = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{len(nodes)} nodes are available: {causes}."


def refusal(pod: Pod, node: Node) -> str | None:
    """Return why the node is not eligible, in the words of `kubectl describe`; None if it is."""
    if node.metadata.deletion_timestamp is not None:
        return "node(s) were being deleted"
    if node.spec.unschedulable and not taints.tolerated(taints.UNSCHEDULABLE, pod.spec.tolerations):
        return "node(s) were unschedulable"
    taint = taints.untolerated(node, pod.spec.tolerations, "NoSchedule", "NoExecute")
    if taint is not None:
        return "node(s) had untolerated taint(s)"
    if not affinity.matches(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _is_waiting(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not is_finished(pod)
        and pod.spec.scheduler_name in (None, NAME)
        and pod.metadata.deletion_timestamp is None
        and not pod.spec.scheduling_gates
    )


def _on_node_change(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    """Return the waiting Pods after a change of a node."""
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in pods.by_index(_WAITING, "")]


def _on_claim_change(claim: PersistentVolumeClaim, pods: Lister[Pod]) -> Iterable[Request]:
    """Return the Pods that wait for a claim."""
    waiting = pods.by_index(_WAITING, f"{claim.metadata.namespace}/{claim.metadata.name}")
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in waiting]


def _by_waiting(pod: Pod) -> Iterable[str]:
    if not _is_waiting(pod):
        return ()
    return ["", *(f"{pod.metadata.namespace}/{name}" for name in claims_of(pod))]


def scheduler(clock: Clock) -> Controller[Pod]:
    """Return the controller `default-scheduler`."""
    declare = controller(
        Pod,
        name=NAME,
        watches=[Watch.mapped(Node, _on_node_change), Watch.mapped(PersistentVolumeClaim, _on_claim_change)],
        cached=[PersistentVolume, StorageClass],
        writes=[PersistentVolumeClaim],
        rules=[PolicyRule(api_groups=[""], resources=["pods/binding"], verbs=["create"])],
        indexers={_WAITING: _by_waiting},
        reconcile_deleted=True,
        namespace_ending="stop",
        workers=1,
    )
    return declare(Scheduler(clock))
