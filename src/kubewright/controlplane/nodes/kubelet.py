"""The kubelet of the simulated nodes: reports of each pod what a node would.

Follows https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and kwok's default stages.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.apis.core.v1 import Node, Pod
from kubewright.cache.lister import Lister
from kubewright.controller import Context, Controller, Request, Watch, controller
from kubewright.controlplane.nodes.addresses import PodAddresses
from kubewright.controlplane.nodes.node import address_of
from kubewright.controlplane.nodes.outcome import ANNOTATION, Outcome, outcome_of
from kubewright.controlplane.nodes.podstatus import status_of
from kubewright.controlplane.pods import is_finished
from kubewright.machinery.clock import Clock
from kubewright.machinery.errors import NotFound


class Kubelet:
    """Runs the pods of all simulated nodes, in appearance."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ips = PodAddresses()

    async def reconcile(self, ctx: Context[Pod]) -> None:
        if ctx.gone:
            self._ips.release(ctx.request)
            return
        pod = ctx.object
        host = await _host(ctx) if pod.spec.node_name else None
        if host is None:
            return
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
        """Confirm that the containers have stopped, by a delete without grace. Finalizers may still hold the pod."""
        pod = ctx.object
        if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
            return
        try:
            await ctx.client.delete(pod, grace_period=0)
        except NotFound:
            return
        if not pod.metadata.finalizers:
            self._ips.release(ctx.request)

    async def _address(self, ctx: Context[Pod], host: str) -> str:
        if ctx.object.spec.host_network:
            return host
        if not self._ips.seeded:
            self._ips.seed(await ctx.list(Pod, namespace=""))
        return self._ips.of(ctx.request, ctx.object.status.pod_ip)


async def _host(ctx: Context[Pod]) -> str | None:
    """The IP of the pod's node, when that is there and ready."""
    try:
        return address_of(await ctx.get(Node, ctx.object.spec.node_name or ""))
    except NotFound:
        return None


def _pods_on(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    here = (pod for pod in pods.list() if pod.spec.node_name == node.metadata.name)
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in here]


def kubelet(clock: Clock) -> Controller[Pod]:
    """The half of `kubelet` that looks at pods, of every node."""
    declare = controller(Pod, name="kubelet", watches=[Watch(Node, map=_pods_on)], deleted=True, workers=4)
    return declare(Kubelet(clock))
