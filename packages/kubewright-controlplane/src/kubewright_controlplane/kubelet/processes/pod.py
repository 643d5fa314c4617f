"""One Pod that runs: its init containers one after the other, the others beside each other, and their end.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Container, ContainerStatus, EphemeralContainer, Pod
from kubewright_controlplane.kubelet.outcome import Outcome
from kubewright_controlplane.kubelet.processes.container import ContainerRunner
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.logs import ContainerLog
from kubewright_controlplane.kubelet.processes.sources import Missing
from kubewright_controlplane.kubelet.processes.surroundings import Happening, Surroundings, grace_of

_log = get_logger("kubewright.kubelet")


class PodRunner:
    """Runs one Pod from its making until it has ended."""

    def __init__(self, pod: Pod, images: Mapping[str, Image], around: Surroundings) -> None:
        self.uid = pod.metadata.uid
        self.deadline_exceeded = False
        self._around = around
        self._grace: float | None = None
        """What it was given when it was asked to end."""
        self._initialized = False
        self._complaint = ""
        """What is known to be wrong with its volumes."""
        self._failed = False
        self._works = any(each.kind == "Job" and each.controller for each in pod.metadata.owner_references)
        status = pod.status
        known = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
        self._before = before = {each.name: each for each in known}
        first = bool(pod.spec.init_containers)
        self._inits = [self._runner(each, images, before, waits="PodInitializing") for each in pod.spec.init_containers]
        waits = "PodInitializing" if first else "ContainerCreating"
        self._mains = [self._runner(each, images, before, waits=waits) for each in pod.spec.containers]
        self._ephemerals: list[ContainerRunner] = []
        self._sidecars: list[asyncio.Task[int]] = []
        self._task = asyncio.create_task(self._run(), name=f"pod {pod.metadata.namespace}/{pod.metadata.name}")
        self._task.add_done_callback(self._look_at_end)
        self._deadline(pod)

    @property
    def address(self) -> str:
        """Where its processes open their ports."""
        return self._around.placed.address

    @property
    def ended(self) -> bool:
        """Nothing of it runs any more, nor will."""
        return self._task.done()

    @property
    def outcome(self) -> Outcome:
        """What has become of it so far."""
        if self.ended or self.deadline_exceeded:
            failed = self._failed or self.deadline_exceeded or any(_exit_code(each) != 0 for each in self._mains)
            return Outcome.FAILED if failed else Outcome.SUCCEEDED
        if not self._initialized:
            return Outcome.PENDING
        if all(each.state.waiting and not each.last for each in self._mains):
            return Outcome.PENDING
        lasting = [each for each in self._inits if _is_sidecar(each.spec)]
        ready = all(each.ready or (each.state.terminated and not _exit_code(each)) for each in self._mains)
        return Outcome.RUNNING if ready and all(each.ready for each in lasting) else Outcome.NOT_READY

    def happenings(self) -> list[Happening]:
        """What has happened since this was asked last."""
        news = self._around.happenings[:]
        self._around.happenings.clear()
        return news

    @property
    def renewal(self) -> timedelta | None:
        """How long its volumes stay as they are by themselves."""
        at = self._around.volumes.renewal
        return None if at is None else max(at - self._around.clock.now(), timedelta(seconds=1))

    def init_statuses(self) -> list[ContainerStatus]:
        return [each.status() for each in self._inits]

    def statuses(self) -> list[ContainerStatus]:
        return [each.status() for each in self._mains]

    def ephemeral_statuses(self) -> list[ContainerStatus]:
        return [each.status() for each in self._ephemerals]

    def container(self, name: str) -> ContainerRunner:
        """KeyError for a container that there is not."""
        for each in self._all:
            if each.spec.name == name:
                return each
        raise KeyError(name)

    def log(self, container: str, *, previous: bool) -> ContainerLog:
        """The log of a container. Raises NoLog; KeyError for a container that does not run here."""
        return self.container(container).log(previous=previous)

    async def look_again(self, pod: Pod) -> None:
        """The Pod, or what it takes from other objects, has changed: bring its volumes up to date."""
        self._around.placed = replace(self._around.placed, pod=pod)
        for each in self._all:
            each.look_again()
        if self.ended or self._grace is not None:
            return
        self._add_ephemerals(pod)
        try:
            await self._around.volumes.write(self._around.placed)
        except Missing as error:
            if str(error) != self._complaint:
                self._around.tell("Warning", "FailedMount", str(error))
            self._complaint = str(error)
        else:
            self._complaint = ""

    def stop(self, grace: float) -> None:
        """End all containers, those that are left after `grace` seconds by force. A second call may make it shorter."""
        if self._grace is not None and grace >= self._grace:
            return
        self._grace = grace
        for each in self._all:
            each.stop(grace)

    async def end(self, grace: float) -> None:
        """The same, and wait for it."""
        self.stop(grace)
        await asyncio.wait({self._task})

    def remove(self) -> None:
        """Remove its files."""
        shutil.rmtree(self._around.folder, ignore_errors=True)

    async def _run(self) -> None:
        try:
            for each in self._inits:
                if not await self._init(each):
                    self._failed = True
                    return
            self._initialized = True
            self._around.changed()
            await asyncio.gather(*(each.run(self._restarts(each.spec)) for each in self._mains))
        finally:
            for each in (*self._inits, *self._ephemerals):
                each.stop(grace_of(self._around.placed.pod))
            await asyncio.gather(*self._sidecars)

    @property
    def _all(self) -> tuple[ContainerRunner, ...]:
        return (*self._inits, *self._mains, *self._ephemerals)

    def _add_ephemerals(self, pod: Pod) -> None:
        """Start those that were added; once, whatever becomes of them."""
        known = {each.spec.name for each in self._ephemerals}
        for added in pod.spec.ephemeral_containers:
            if added.name in known:
                continue
            image = self._around.images(added.image or "")
            runner = ContainerRunner(
                _as_container(added),
                image,
                self._around,
                before=self._before.get(added.name),
                ends=False,
                waits="ContainerCreating",
            )
            self._ephemerals.append(runner)
            self._sidecars.append(asyncio.create_task(runner.run(lambda code: False)))

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        self._around.changed()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed = True
            _log.error("Pod could not be run", pod=task.get_name(), exc_info=error)

    async def _init(self, container: ContainerRunner) -> bool:
        """Run one init container to its end, or a sidecar until it has started. False when the Pod can't go on."""
        if self._grace is not None:
            return False
        if _is_sidecar(container.spec):
            task = asyncio.create_task(container.run(lambda code: True))
            self._sidecars.append(task)
            started = asyncio.create_task(container.has_started.wait())
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            return not task.done()
        policy = self._around.placed.pod.spec.restart_policy
        code = await container.run(lambda code: code != 0 and policy != "Never")
        container.ready = code == 0
        return code == 0 and self._grace is None

    def _restarts(self, container: Container) -> Callable[[int], bool]:
        """Whether an exit status makes the container start again."""
        policy = container.restart_policy or self._around.placed.pod.spec.restart_policy or "Always"

        def again(code: int) -> bool:
            for rule in container.restart_policy_rules:
                codes = rule.exit_codes
                if codes is not None and (code in codes.values) is (codes.operator == "In"):
                    return rule.action == "Restart"
            return policy == "Always" or (policy == "OnFailure" and code != 0)

        return again

    def _runner(
        self, spec: Container, images: Mapping[str, Image], before: Mapping[str, ContainerStatus], *, waits: str
    ) -> ContainerRunner:
        is_init = any(each is spec for each in self._around.placed.pod.spec.init_containers)
        ends = (is_init and not _is_sidecar(spec)) or self._works
        known = before.get(spec.name)
        return ContainerRunner(spec, images.get(spec.image or ""), self._around, before=known, ends=ends, waits=waits)

    def _deadline(self, pod: Pod) -> None:
        seconds = pod.spec.active_deadline_seconds
        if seconds is None:
            return
        since: datetime = pod.status.start_time or self._around.clock.now()
        left = since + timedelta(seconds=seconds) - self._around.clock.now()
        self._around.clock.call_later(max(left.total_seconds(), 0.0), self._exceed)

    def _exceed(self) -> None:
        if not self.ended:
            self.deadline_exceeded = True
            self.stop(grace_of(self._around.placed.pod))
            self._around.changed()


def _as_container(ephemeral: EphemeralContainer) -> Container:
    """The same as a container like others, but for whose processes it wants to see: here all see all."""
    fields = msgspec.structs.asdict(ephemeral)
    del fields["target_container_name"]
    return Container(**fields)


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _exit_code(container: ContainerRunner) -> int:
    """The status that it ended with; that of a failure when it never ran."""
    return container.state.terminated.exit_code if container.state.terminated is not None else 137
