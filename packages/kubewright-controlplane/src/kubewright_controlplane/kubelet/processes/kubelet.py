"""A kubelet's work on the Pods that run as processes: brings about what a Pod says, and reports what became of it."""

from __future__ import annotations

import asyncio

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, Pod
from kubewright.client._client import Client
from kubewright.controllers import Context, DeletedContext, Result
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.controllers.pods import is_finished
from kubewright_controlplane.kubelet.addresses import LOOPBACK, PodAddresses, ProcessNetwork
from kubewright_controlplane.kubelet.ended import confirm_ended
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.podstatus import Statuses, status_with
from kubewright_controlplane.kubelet.processes.downward import Placed
from kubewright_controlplane.kubelet.processes.environment import APIAddress
from kubewright_controlplane.kubelet.processes.pod import PodRunner
from kubewright_controlplane.kubelet.processes.runtime import ProcessRuntime


class ProcessKubelet:
    """Runs those Pods of which the image table knows an image."""

    def __init__(
        self, runtime: ProcessRuntime, client: Client, api: APIAddress, network: ProcessNetwork, clock: Clock
    ) -> None:
        """`client` reads what Pods take from other objects, and may read all of it."""
        self.changed = runtime.changed
        """A source of the Pods of which there is something new to report."""
        self._runtime = runtime
        self._client = client
        self._api = api
        self._clock = clock
        self._network = network
        self._addresses = PodAddresses(network.told) if network.told is not None else None
        self._swept = False

    async def run(self) -> None:
        """Until it is cancelled; then no Pod is left running."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._runtime.close()

    def gone(self, ctx: DeletedContext[Pod]) -> None:
        """The Pod of this name is no more."""
        self._runtime.forget(ctx.request)
        if self._addresses is not None:
            self._addresses.release(ctx.request)

    async def takes(self, ctx: Context[Pod]) -> bool:
        """Whether the Pod is one that runs here."""
        pod = ctx.object
        if not self._swept:
            await self._sweep(ctx)
        self._runtime.forget(ctx.request, keep=pod.metadata.uid)
        if self._runtime.runner(pod) is not None:
            return True
        if is_finished(pod):
            self._runtime.remember(pod)
            return False
        try:
            return pod.metadata.deletion_timestamp is None and bool(self._runtime.images_of(pod))
        except ConfigError as error:
            ctx.events.warning(pod, "ImageTable", str(error), action="Run")
            return False

    async def reconcile(self, ctx: Context[Pod], node: Node) -> Result | None:
        """Bring a Pod that `takes` has accepted to where it should be, and report it."""
        pod, host = ctx.object, address_of(node) or ""
        address = self._address(ctx)
        runner = self._runtime.runner(pod)
        if runner is None:
            placed = Placed(pod, self._network.process_of(address) or LOOPBACK, host, node.status.allocatable)
            runner = self._runtime.start(placed, self._runtime.images_of(pod), self._client, self._api)
        await runner.look_again(pod)
        if pod.metadata.deletion_timestamp is not None:
            runner.stop(float(pod.metadata.deletion_grace_period_seconds or 0))
        _tell(ctx, runner)
        status = status_with(
            pod,
            runner.outcome,
            host,
            address,
            Statuses(runner.init_statuses(), runner.statuses(), runner.ephemeral_statuses()),
            self._clock.now(),
        )
        if runner.deadline_exceeded:
            status.reason = "DeadlineExceeded"
            status.message = "Pod was active on the node longer than the specified deadline"
        ended = runner.ended  # before the status is sent: what comes after is another reconcile's
        await ctx.update_status(status)
        if ended and pod.metadata.deletion_timestamp is not None:
            await confirm_ended(ctx)
        return Result(requeue_after=runner.renewal) if not ended else None

    async def _sweep(self, ctx: Context[Pod]) -> None:
        self._swept = True
        pods = await ctx.list(Pod, namespace="")
        self._runtime.sweep({each.metadata.uid or "" for each in pods})
        if self._addresses is not None:
            self._addresses.seed(pods)

    def _address(self, ctx: Context[Pod]) -> str:
        if self._addresses is None:
            return LOOPBACK
        return self._addresses.of(ctx.request, ctx.object.status.pod_ip)


def _tell(ctx: Context[Pod], runner: PodRunner) -> None:
    for each in runner.happenings():
        record = ctx.events.warning if each.type == "Warning" else ctx.events.normal
        record(ctx.object, each.reason, each.note, action="Run")
