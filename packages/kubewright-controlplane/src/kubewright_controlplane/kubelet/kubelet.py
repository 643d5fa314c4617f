"""The kubelet of all nodes: passes each Pod to the runtime that accepts it.

Follows https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import ConfigMap, Node, Pod, Secret
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.processes import ProcessRuntime
from kubewright_controlplane.kubelet.runtime import PodRuntime
from kubewright_controlplane.kubelet.simulated import SimulatedRuntime
from kubewright_controlplane.kubelet.sources import config_maps_of, secrets_of


class Kubelet:
    """Runs the Pods of all nodes that are ready, each in the first of `runtimes` that accepts it."""

    def __init__(self, runtimes: Sequence[PodRuntime]) -> None:
        self._runtimes = runtimes

    async def reconcile(self, ctx: Context[Pod] | DeletedContext[Pod]) -> Result | None:
        if isinstance(ctx, DeletedContext):
            for each in self._runtimes:
                each.forget(ctx.request)
            return None
        node = await _ready_node(ctx)
        if node is None:
            return None
        for each in self._runtimes:
            if await each.accepts(ctx):
                return await each.sync(ctx, node)
        return None


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
        return simulate(Kubelet([simulated]))
    declare = controller(
        Pod,
        name="kubelet",
        watches=[on_nodes, Watch.indexed(ConfigMap, "configmaps"), Watch.indexed(Secret, "secrets")],
        sources=[processes.changed],
        indexers={"configmaps": config_maps_of, "secrets": secrets_of},
        reconcile_deleted=True,
        workers=4,
    )
    return declare(Kubelet([processes, simulated]))
