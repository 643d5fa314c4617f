"""The kubelet of all nodes: runs the pods that can be run, and reports of each what a node would.

Follows https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and kwok's default stages.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import ConfigMap, Node, Pod, Secret
from kubewright.cache._lister import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright_controlplane.controllers.pods import is_finished
from kubewright_controlplane.kubelet.addresses import PodAddresses
from kubewright_controlplane.kubelet.ended import confirm_ended
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.outcome import ANNOTATION, Outcome, outcome_of
from kubewright_controlplane.kubelet.podstatus import status_of
from kubewright_controlplane.kubelet.processes.kubelet import ProcessKubelet
from kubewright_controlplane.kubelet.processes.sources import config_maps_of, secrets_of


class Kubelet:
    """Runs the pods of all nodes: some as processes, the others in appearance."""

    def __init__(self, clock: Clock, processes: ProcessKubelet | None) -> None:
        self._clock = clock
        self._processes = processes
        self._ips = PodAddresses()

    async def reconcile(self, ctx: Context[Pod] | DeletedContext[Pod]) -> Result | None:
        if isinstance(ctx, DeletedContext):
            self._ips.release(ctx.request)
            if self._processes is not None:
                self._processes.gone(ctx)
            return None
        node = await _node(ctx) if ctx.object.spec.node_name else None
        if node is None:
            return None
        if self._processes is not None and await self._processes.takes(ctx):
            return await self._processes.reconcile(ctx, node)
        await self._simulate(ctx, address_of(node) or "")
        return None

    async def _simulate(self, ctx: Context[Pod], host: str) -> None:
        pod = ctx.object
        if pod.metadata.deletion_timestamp is not None:
            await self._end(ctx)
        elif not is_finished(pod):
            await self._report(ctx, host)

    async def _report(self, ctx: Context[Pod], host: str) -> None:
        pod = ctx.object
        try:
            outcome = outcome_of(pod)
        except ValueError:
            allowed = ", ".join(Outcome)
            note = f'{ANNOTATION}: "{pod.metadata.annotations[ANNOTATION]}" is none of {allowed}: the pod waits'
            ctx.events.warning(pod, "UnknownPhase", note, action="Simulate")
            outcome = Outcome.PENDING
        address = await self._address(ctx, host)
        await ctx.update_status(status_of(pod, outcome, host, address, self._clock.now()))

    async def _end(self, ctx: Context[Pod]) -> None:
        if await confirm_ended(ctx) and not ctx.object.metadata.finalizers:
            self._ips.release(ctx.request)

    async def _address(self, ctx: Context[Pod], host: str) -> str:
        if ctx.object.spec.host_network:
            return host
        if not self._ips.seeded:
            self._ips.seed(await ctx.list(Pod, namespace=""))
        return self._ips.of(ctx.request, ctx.object.status.pod_ip)


async def _node(ctx: Context[Pod]) -> Node | None:
    """The pod's node, when that is there and ready."""
    node = await ctx.get_or_none(Node, ctx.object.spec.node_name or "")
    return node if node is not None and address_of(node) is not None else None


def _pods_on(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    here = (pod for pod in pods.list() if pod.spec.node_name == node.metadata.name)
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in here]


def kubelet(clock: Clock, processes: ProcessKubelet | None = None) -> Controller[Pod]:
    """The half of `kubelet` that looks at pods, of every node. Without `processes` all of them are simulated."""
    watches = [Watch.mapped(Node, _pods_on)]
    if processes is None:
        declare = controller(Pod, name="kubelet", watches=watches, reconcile_deleted=True, workers=4)
    else:
        declare = controller(
            Pod,
            name="kubelet",
            watches=[*watches, Watch.indexed(ConfigMap, "configmaps"), Watch.indexed(Secret, "secrets")],
            sources=[processes.changed],
            indexers={"configmaps": config_maps_of, "secrets": secrets_of},
            reconcile_deleted=True,
            workers=4,
        )
    return declare(Kubelet(clock, processes))
