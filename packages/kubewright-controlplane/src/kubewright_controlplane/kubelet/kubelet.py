"""The kubelet of all nodes: passes each Pod to the runtime that accepts it.

Follows https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import ConfigMap, Node, Pod, Secret
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.kubelet.admission import needs_admission, rejection
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.processes import ProcessRuntime
from kubewright_controlplane.kubelet.runtime import PodRuntime
from kubewright_controlplane.kubelet.simulated import SimulatedRuntime
from kubewright_controlplane.kubelet.sources import config_maps_of, secrets_of


class Kubelet:
    """Runs the Pods of all nodes that are ready, each in the first of `runtimes` that accepts it."""

    def __init__(self, runtimes: Sequence[PodRuntime], clock: Clock) -> None:
        self._runtimes = runtimes
        self._clock = clock
        self._admitted: dict[Request, str | None] = {}
        """The UIDs of the Pods that were checked and admitted."""

    async def reconcile(self, ctx: Context[Pod] | DeletedContext[Pod]) -> Result | None:
        if isinstance(ctx, DeletedContext):
            self._admitted.pop(ctx.request, None)
            for each in self._runtimes:
                each.forget(ctx.request)
            return None
        node = await _ready_node(ctx)
        if node is None:
            return None
        if needs_admission(ctx.object) and not await self._admit(ctx, node):
            return None
        for each in self._runtimes:
            if await each.accepts(ctx):
                return await each.sync(ctx, node)
        return None

    async def _admit(self, ctx: Context[Pod], node: Node) -> bool:
        """Return whether the node admits the Pod. The status of a Pod that is rejected says why."""
        pod = ctx.object
        if self._admitted.get(ctx.request) == pod.metadata.uid:
            return True
        listed = await ctx.list(Pod, namespace="")
        found = rejection(pod, node, [each for each in listed if self._is_on(each, pod)])
        if found is None:
            self._admitted[ctx.request] = pod.metadata.uid
            return True
        ctx.events.warning(pod, found.reason, found.message, action="Admit")
        status = msgspec.structs.replace(
            pod.status,
            phase="Failed",
            reason=found.reason,
            message=f"Pod was rejected: {found.message}",
            start_time=self._clock.now(),
            observed_generation=pod.metadata.generation,
        )
        await ctx.update_status(status)
        return False

    def _is_on(self, other: Pod, pod: Pod) -> bool:
        """Return whether another Pod was admitted to the same node, and uses its resources."""
        if other.spec.node_name != pod.spec.node_name or is_finished(other) or other.metadata.uid == pod.metadata.uid:
            return False
        name = Request(other.metadata.namespace, other.metadata.name)
        return not needs_admission(other) or self._admitted.get(name) == other.metadata.uid


async def _ready_node(ctx: Context[Pod]) -> Node | None:
    """Return the Pod's node if it exists and is ready."""
    if not ctx.object.spec.node_name:
        return None
    node = await ctx.get_or_none(Node, ctx.object.spec.node_name)
    return node if node is not None and address_of(node) is not None else None


def _pods_on(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    here = (pod for pod in pods.list() if pod.spec.node_name == node.metadata.name)
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in here]


def kubelet(clock: Clock, processes: ProcessRuntime | None = None) -> Controller[Pod]:
    """Return the controller `kubelet`, which runs the Pods of every node. Without `processes`, it simulates all."""
    simulated, on_nodes = SimulatedRuntime(clock), Watch.mapped(Node, _pods_on)
    if processes is None:
        simulate = controller(Pod, name="kubelet", watches=[on_nodes], reconcile_deleted=True, workers=4)
        return simulate(Kubelet([simulated], clock))
    declare = controller(
        Pod,
        name="kubelet",
        watches=[on_nodes, Watch.indexed(ConfigMap, "configmaps"), Watch.indexed(Secret, "secrets")],
        sources=[processes.changed],
        indexers={"configmaps": config_maps_of, "secrets": secrets_of},
        reconcile_deleted=True,
        workers=4,
    )
    return declare(Kubelet([processes, simulated], clock))
