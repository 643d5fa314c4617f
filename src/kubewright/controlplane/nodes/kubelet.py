"""The kubelet of the simulated nodes: reports of each pod what a node would that runs it without fault.

Follows https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and kwok's default stages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from kubewright.apis.core.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    EphemeralContainer,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from kubewright.controller import Context, Controller, controller
from kubewright.controlplane.nodes.addresses import PodAddresses
from kubewright.controlplane.pods import condition
from kubewright.machinery.clock import Clock
from kubewright.machinery.errors import NotFound


class Kubelet:
    """Runs the pods of all simulated nodes, in appearance."""

    def __init__(self, clock: Clock, addresses: dict[str, str]) -> None:
        """`addresses`: each simulated node's name and its IP. Pods on other nodes are left alone."""
        self._clock = clock
        self._nodes = addresses
        self._ips = PodAddresses()

    async def reconcile(self, ctx: Context[Pod]) -> None:
        if ctx.gone:
            self._ips.release(ctx.request)
            return
        pod = ctx.object
        host = self._nodes.get(pod.spec.node_name or "")
        if host is None:
            return
        if pod.metadata.deletion_timestamp is not None:
            await self._end(ctx)
        elif pod.status.phase not in ("Succeeded", "Failed"):
            address = await self._address(ctx, host)
            await ctx.update_status(self._status(pod, host, address))

    async def _end(self, ctx: Context[Pod]) -> None:
        """Confirm that the containers have stopped, by a delete without grace. Finalizers may still hold the pod."""
        pod = ctx.object
        if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
            return
        try:
            await ctx.client.delete(pod, grace_period=0)
        except NotFound:
            return
        self._ips.release(ctx.request)

    async def _address(self, ctx: Context[Pod], host: str) -> str:
        if ctx.object.spec.host_network:
            return host
        if not self._ips.seeded:
            self._ips.seed(await ctx.list(Pod, namespace=""))
        return self._ips.of(ctx.request, ctx.object.status.pod_ip)

    def _status(self, pod: Pod, host: str, address: str) -> PodStatus:
        now = self._clock.now()
        finished = _finishes(pod)
        return msgspec.structs.replace(
            pod.status,
            phase="Succeeded" if finished else "Running",
            reason=None,
            message=None,
            observed_generation=pod.metadata.generation,
            start_time=pod.status.start_time or now,
            host_ip=host,
            host_ips=[HostIP(ip=host)],
            pod_ip=address,
            pod_ips=[PodIP(ip=address)],
            conditions=_conditions(pod, finished, now),
            init_container_statuses=_statuses(
                pod.spec.init_containers, pod.status.init_container_statuses, done=True, now=now
            ),
            container_statuses=_statuses(pod.spec.containers, pod.status.container_statuses, done=finished, now=now),
            ephemeral_container_statuses=_statuses(
                pod.spec.ephemeral_containers, pod.status.ephemeral_container_statuses, done=False, now=now
            ),
        )


def _finishes(pod: Pod) -> bool:
    """Pods of a Job do their work and end; all others run on."""
    return any(each.kind == "Job" and each.controller for each in pod.metadata.owner_references)


def _conditions(pod: Pod, finished: bool, now: datetime) -> list[PodCondition]:
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    gated = [gate for gate in gates if (found := condition(pod, gate)) is None or found.status != "True"]
    done = "PodCompleted" if finished else None
    wanted: list[tuple[str, bool, str | None]] = [
        ("PodReadyToStartContainers", not finished, None),
        ("Initialized", True, done),
        ("Ready", not finished and not gated, done or ("ReadinessGatesNotReady" if gated else None)),
        ("ContainersReady", not finished, done),
        ("PodScheduled", True, None),
    ]
    ours = {kind for kind, _, _ in wanted}
    kept = [each for each in pod.status.conditions if each.type not in ours]
    return [_condition(pod, kind, holds, reason, now) for kind, holds, reason in wanted] + kept


def _condition(pod: Pod, kind: str, holds: bool, reason: str | None, now: datetime) -> PodCondition:
    status = "True" if holds else "False"
    before = condition(pod, kind)
    moved = now if before is None or before.status != status else before.last_transition_time
    return PodCondition(
        type=kind,
        status=status,
        reason=reason,
        last_transition_time=moved,
        observed_generation=pod.metadata.generation,
    )


def _statuses(
    containers: Sequence[Container | EphemeralContainer],
    before: Sequence[ContainerStatus],
    *,
    done: bool,
    now: datetime,
) -> list[ContainerStatus]:
    known = {each.name: each for each in before}
    return [_status_of(each.name, each.image or "", known.get(each.name), done=done, now=now) for each in containers]


def _status_of(name: str, image: str, before: ContainerStatus | None, *, done: bool, now: datetime) -> ContainerStatus:
    if before is not None and before.image == image and _is_done(before) == done:
        return before
    restarts = (before.restart_count or 0) + 1 if before is not None and before.image != image else 0
    digest = hashlib.sha256(image.encode()).hexdigest()
    return ContainerStatus(
        name=name,
        image=image,
        image_id=f"{image.partition('@')[0]}@sha256:{digest}",
        container_id=f"simulated://{hashlib.sha256(f'{name}{image}{restarts}{now}'.encode()).hexdigest()}",
        ready=not done,
        started=not done,
        restart_count=restarts,
        state=_done(now) if done else ContainerState(running=ContainerStateRunning(started_at=now)),
    )


def _done(now: datetime) -> ContainerState:
    ended = ContainerStateTerminated(exit_code=0, reason="Completed", started_at=now, finished_at=now)
    return ContainerState(terminated=ended)


def _is_done(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.terminated is not None


def kubelet(clock: Clock, addresses: dict[str, str]) -> Controller[Pod]:
    """The controller named `kubelet`, for the nodes in `addresses`."""
    return controller(Pod, name="kubelet", deleted=True, workers=4)(Kubelet(clock, addresses))
