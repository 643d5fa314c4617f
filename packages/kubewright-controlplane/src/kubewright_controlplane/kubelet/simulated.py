"""Simulated Pods: nothing is executed. Pods of a Job succeed immediately, all others run and are ready.

The annotation `simulation.kubewright.dev/phase` requests another outcome: `Pending` (the containers never start),
`NotReady` (the Pod runs without getting ready), `Running`, `Succeeded`, `Failed`. It may change while the Pod exists. A
Pod that has ended stays ended. A deleted Pod ends immediately, whatever its grace period. A Pod fails after its
`activeDeadlineSeconds`.

Follows kwok's default stages.
"""

from __future__ import annotations

import math
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, Pod
from kubewright.controllers import Context, Request, Result
from kubewright_controlplane.common.network import PodAddresses
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.kubelet.node import address_of
from kubewright_controlplane.kubelet.runtime import confirm_terminated
from kubewright_controlplane.kubelet.status import Outcome, report_deadline, seconds_active, status_of

ANNOTATION: Final = "simulation.kubewright.dev/phase"


class SimulatedRuntime:
    """A `PodRuntime` that reports Pods to run, and runs nothing. It accepts every Pod."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addresses = PodAddresses()

    async def accepts(self, ctx: Context[Pod]) -> bool:
        return True

    async def sync(self, ctx: Context[Pod], node: Node) -> Result | None:
        pod = ctx.object
        if pod.metadata.deletion_timestamp is not None:
            if await confirm_terminated(ctx) and not pod.metadata.finalizers:
                self.forget(ctx.request)
        elif not is_finished(pod):
            return await self._report(ctx, address_of(node) or "")
        return None

    def forget(self, name: Request) -> None:
        self._addresses.release(name)

    async def _report(self, ctx: Context[Pod], host: str) -> Result | None:
        pod, now = ctx.object, self._clock.now()
        left = seconds_active(pod, now)
        outcome = Outcome.FAILED if left <= 0 else self._outcome(ctx)
        status = status_of(pod, outcome, host, await self._address(ctx, host), now)
        if left <= 0:
            report_deadline(status)
        await ctx.update_status(status)
        return Result(requeue_after=left) if math.isfinite(left) and not outcome.ends else None

    def _outcome(self, ctx: Context[Pod]) -> Outcome:
        pod = ctx.object
        try:
            return outcome_of(pod)
        except ValueError:
            allowed = ", ".join(Outcome)
            value = pod.metadata.annotations[ANNOTATION]
            note = f'annotation {ANNOTATION}: must be one of {allowed}, got "{value}"; the Pod waits'
            ctx.events.warning(pod, "UnknownPhase", note, action="Simulate")
            return Outcome.PENDING

    async def _address(self, ctx: Context[Pod], host: str) -> str:
        if ctx.object.spec.host_network:
            return host
        if not self._addresses.seeded:
            self._addresses.seed(await ctx.list(Pod, namespace=""))
        return self._addresses.of(ctx.request, ctx.object.status.pod_ip)


def outcome_of(pod: Pod) -> Outcome:
    """Return the outcome of a simulated Pod. Raises ValueError if the annotation has another value."""
    if is_finished(pod):
        return Outcome(pod.status.phase or "")
    requested = pod.metadata.annotations.get(ANNOTATION)
    if requested is not None:
        return Outcome(requested)
    is_job = any(each.kind == "Job" and each.controller for each in pod.metadata.owner_references)
    return Outcome.SUCCEEDED if is_job else Outcome.RUNNING
