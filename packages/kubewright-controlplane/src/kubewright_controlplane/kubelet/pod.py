"""One Pod: its init containers one after the other, its other containers side by side, and their end.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Container, EphemeralContainer, Pod
from kubewright_controlplane.kubelet.conditions import Statuses, is_sidecar
from kubewright_controlplane.kubelet.container import ContainerRunner
from kubewright_controlplane.kubelet.eviction import EVICTED, GRACE, INTERVAL, excess, has_limits
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.logs import ContainerLog
from kubewright_controlplane.kubelet.sandbox import PodSandbox, grace_of
from kubewright_controlplane.kubelet.sources import SourceMissing
from kubewright_controlplane.kubelet.status import Outcome, seconds_active
from kubewright_controlplane.kubelet.volumes import Volumes

_LEAST_GRACE: Final = 2.0
"""Seconds that sidecars have to end, even if the other containers have used up the grace period."""

_log = get_logger("kubewright.kubelet")


class PodRunner:
    """Runs one Pod from its creation until it has ended."""

    def __init__(self, pod: Pod, images: Mapping[str, Image], sandbox: PodSandbox) -> None:
        self.uid = pod.metadata.uid
        self.deadline_exceeded = False
        self.eviction = ""
        """Why the Pod is evicted; empty if it is not."""
        self._pod = pod
        self._sandbox = sandbox
        self._volumes = Volumes(sandbox)
        self._grace: float | None = None
        """The grace period in seconds, once the Pod is terminating."""
        self._end_by = 0.0
        """When the grace period ends, once the Pod is terminating."""
        self._initialized = False
        self._mains_ended = False
        self._mount_error = ""
        """The error of the volumes that is reported already."""
        self._failed = False
        self._is_job = any(each.kind == "Job" and each.controller for each in pod.metadata.owner_references)
        status = pod.status
        known = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
        self._before = {each.name: each for each in known}
        self._inits = [self._runner(each, images, waiting="PodInitializing") for each in pod.spec.init_containers]
        waiting = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
        self._mains = [self._runner(each, images, waiting=waiting) for each in pod.spec.containers]
        self._ephemerals: list[ContainerRunner] = []
        self._sidecars: list[asyncio.Task[int]] = []
        self._task = asyncio.create_task(self._run(), name=f"pod {pod.metadata.namespace}/{pod.metadata.name}")
        self._task.add_done_callback(self._report_end)
        self._set_deadline(pod)
        self._storage = asyncio.create_task(self._watch_storage()) if has_limits(pod) else None

    @property
    def address(self) -> str:
        """The address at which its processes open their ports."""
        return self._sandbox.address

    @property
    def ended(self) -> bool:
        """Whether all containers have ended for good."""
        return self._task.done()

    @property
    def outcome(self) -> Outcome:
        """The current outcome."""
        if self.ended or self.deadline_exceeded:
            failed = self._failed or self.deadline_exceeded or any(_exit_code(each) != 0 for each in self._mains)
            return Outcome.FAILED if failed else Outcome.SUCCEEDED
        if not self._initialized:
            return Outcome.PENDING
        if all(each.state.waiting and not each.last for each in self._mains):
            return Outcome.PENDING
        sidecars = [each for each in self._inits if is_sidecar(each.spec)]
        ready = all(each.ready or (each.state.terminated and not _exit_code(each)) for each in self._mains)
        return Outcome.RUNNING if ready and all(each.ready for each in sidecars) else Outcome.NOT_READY

    @property
    def renewal(self) -> timedelta | None:
        """The time until a token in its volumes has to be renewed; None without tokens."""
        at = self._volumes.renewal
        return None if at is None else max(at - self._sandbox.clock.now(), timedelta(seconds=1))

    def statuses(self) -> Statuses:
        """Return the statuses of all containers."""
        groups = (self._inits, self._mains, self._ephemerals)
        return Statuses(*([each.status() for each in group] for group in groups))

    @property
    def process_ids(self) -> dict[str, int]:
        """The first processes of the containers that run, by the names of the containers."""
        found = {each.spec.name: each.process_id for each in self._all}
        return {name: pid for name, pid in found.items() if pid is not None}

    def container(self, name: str) -> ContainerRunner:
        """Return a container by its name. Raises KeyError."""
        for each in self._all:
            if each.spec.name == name:
                return each
        raise KeyError(name)

    def log(self, container: str, *, previous: bool) -> ContainerLog:
        """Return the log of a container. Raises NoLog; KeyError if the container does not run as a process."""
        return self.container(container).log(previous=previous)

    async def update(self, pod: Pod) -> None:
        """Take a new version of the Pod, or of an object that it refers to: update volumes, start new containers."""
        self._pod = pod
        for each in self._all:
            each.update(pod)
        if self.ended or self._grace is not None:
            return
        self._add_ephemerals(pod)
        if not self._sandbox.folder.is_dir():
            return  # no container has been prepared yet
        try:
            await self._volumes.write(pod)
        except (SourceMissing, OSError) as error:
            if str(error) != self._mount_error:
                self._sandbox.warn("FailedMount", str(error))
            self._mount_error = str(error)
        else:
            self._mount_error = ""

    def stop(self, grace: float) -> None:
        """End all containers, by force after `grace` seconds. A second call may shorten the grace period.

        Sidecars end after the other containers, which may need them to end.
        """
        if self._grace is not None and grace >= self._grace:
            return
        self._grace = grace
        self._end_by = self._sandbox.clock.monotonic() + grace
        sidecars_last = self._initialized and not self._mains_ended and grace > 0
        for each in (*self._mains, *self._ephemerals) if sidecars_last else self._all:
            each.stop(grace)

    async def end(self, grace: float) -> None:
        """Stop the Pod, and wait until it has ended."""
        self.stop(grace)
        await asyncio.wait({self._task})

    def remove(self) -> None:
        """Remove its files."""
        self._volumes.remove()
        shutil.rmtree(self._sandbox.folder, ignore_errors=True)

    async def _run(self) -> None:
        try:
            for each in self._inits:
                if not await self._initialize(each):
                    self._failed = True
                    return
            self._initialized = True
            self._sandbox.changed()
            await asyncio.gather(*(each.run(self._restarts(each.spec)) for each in self._mains))
        finally:
            self._mains_ended = True
            for each in (*self._inits, *self._ephemerals):
                each.stop(self._grace_left())
            await asyncio.gather(*self._sidecars)
            if self._sandbox.pause is not None:
                await self._sandbox.pause.end()

    def _grace_left(self) -> float:
        """Return the seconds that sidecars have to end after the other containers."""
        if self._grace is None:
            return grace_of(self._pod)
        return max(self._end_by - self._sandbox.clock.monotonic(), _LEAST_GRACE) if self._grace else 0.0

    @property
    def _all(self) -> tuple[ContainerRunner, ...]:
        return (*self._inits, *self._mains, *self._ephemerals)

    def _add_ephemerals(self, pod: Pod) -> None:
        """Start ephemeral containers that were added. They never restart."""
        known = {each.spec.name for each in self._ephemerals}
        for added in pod.spec.ephemeral_containers:
            if added.name in known:
                continue
            runner = ContainerRunner(
                _as_container(added),
                self._sandbox.image(added.image or ""),
                pod,
                self._sandbox,
                self._volumes,
                before=self._before.get(added.name),
                ends=False,
                waiting="ContainerCreating",
                target=partial(self._target, added.target_container_name) if added.target_container_name else None,
            )
            self._ephemerals.append(runner)
            self._sidecars.append(asyncio.create_task(runner.run(lambda code: False)))

    async def _watch_storage(self) -> None:
        """Evict the Pod once it exceeds a limit of its disk usage."""
        sandbox, logs = self._sandbox, self._sandbox.folder / "logs"
        while self._grace is None:
            await sandbox.clock.sleep(INTERVAL)
            found = await asyncio.to_thread(excess, self._pod, self._volumes.folder, sandbox.root, logs.joinpath)
            if found is not None:
                self.eviction, self._failed = found, True
                sandbox.warn(EVICTED, found)
                self.stop(GRACE)

    def _target(self, name: str) -> int:
        """Return the first process of a container. Raises LookupError if it does not run."""
        found = self.container(name).process_id
        if found is None:
            raise LookupError(name)
        return found

    def _report_end(self, task: asyncio.Task[None]) -> None:
        if self._storage is not None:
            self._storage.cancel()
        self._sandbox.changed()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed = True
            _log.error("Pod failed with an internal error", pod=task.get_name(), exc_info=error)

    async def _initialize(self, container: ContainerRunner) -> bool:
        """Run an init container until it ends, or a sidecar until it has started. Returns False if the Pod fails."""
        if self._grace is not None:
            return False
        if is_sidecar(container.spec):
            task = asyncio.create_task(container.run(lambda code: True))
            self._sidecars.append(task)
            started = asyncio.create_task(container.has_started.wait())
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            return not task.done()
        policy = self._pod.spec.restart_policy
        code = await container.run(lambda code: code != 0 and policy != "Never")
        container.ready = code == 0
        return code == 0 and self._grace is None

    def _restarts(self, container: Container) -> Callable[[int], bool]:
        """Return a function that decides by the exit status whether the container restarts."""
        policy = container.restart_policy or self._pod.spec.restart_policy or "Always"

        def restarts(code: int) -> bool:
            for rule in container.restart_policy_rules:
                codes = rule.exit_codes
                if codes is not None and (code in codes.values) is (codes.operator == "In"):
                    return rule.action == "Restart"
            return policy == "Always" or (policy == "OnFailure" and code != 0)

        return restarts

    def _runner(self, spec: Container, images: Mapping[str, Image], *, waiting: str) -> ContainerRunner:
        initializes = any(each is spec for each in self._pod.spec.init_containers) and not is_sidecar(spec)
        return ContainerRunner(
            spec,
            images.get(spec.image or ""),
            self._pod,
            self._sandbox,
            self._volumes,
            before=self._before.get(spec.name),
            ends=initializes or self._is_job,
            waiting=waiting,
            initializes=initializes,
        )

    def _set_deadline(self, pod: Pod) -> None:
        left = seconds_active(pod, self._sandbox.clock.now())
        if math.isfinite(left):
            self._sandbox.clock.call_later(max(left, 0.0), self._exceed_deadline)

    def _exceed_deadline(self) -> None:
        if not self.ended:
            self.deadline_exceeded = True
            self.stop(grace_of(self._pod))
            self._sandbox.changed()


def _as_container(ephemeral: EphemeralContainer) -> Container:
    """Return an ephemeral container as a container, without its target."""
    fields = msgspec.structs.asdict(ephemeral)
    del fields["target_container_name"]
    return Container(**fields)


def _exit_code(container: ContainerRunner) -> int:
    """Return the exit status, or that of a killed process if the container never ran."""
    return container.state.terminated.exit_code if container.state.terminated is not None else 137
