"""One container over its restarts, and one run of it as a process.

After its first exit, a container restarts immediately. The pause before the next restart is 10 seconds, and doubles
with each exit, up to five minutes. A container that ran for ten minutes starts over. A container that can't be created
is retried with the same growing pauses; its Pod keeps waiting and does not fail.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and
https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Self

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
from kubewright.machinery.json import JSONObject
from kubewright.manager._serving import BIND_HOST
from kubewright_controlplane.common.durations import duration
from kubewright_controlplane.common.listening import hosts_listening
from kubewright_controlplane.kubelet.environment import PORT, NotReadyToStart, check, prepare, termination_message
from kubewright_controlplane.kubelet.exec import Channels, exit_status, failure
from kubewright_controlplane.kubelet.helpers.exec_helper import CANNOT_START
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.kubelet.logs import ContainerLog, Lines
from kubewright_controlplane.kubelet.probes import ProbeFailed, Prober, Target, perform
from kubewright_controlplane.kubelet.process import Command, Output, Process
from kubewright_controlplane.kubelet.sandbox import PodEvent, PodSandbox, grace_of
from kubewright_controlplane.kubelet.status import needs_restart, resources_of
from kubewright_controlplane.kubelet.volumes import Volumes
from kubewright_controlplane.ports import process_port

_IN_USE: Final = b"address already in use"
"""What programs in most languages write if another program has their port."""
SCHEME: Final = "process"
"""The scheme of IDs of containers that run as processes. Simulated ones have `simulated`."""
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 300.0
_STEADY: Final = 600.0
"""Seconds that a container has to run for its earlier failures to be forgotten."""
_RETRY: Final = 5.0
"""Seconds until a missing ConfigMap, Secret or token is read again, if no event arrives before."""
_LOST: Final = 255
"""The exit status of a container whose exit was not observed, as in containerd."""
_MESSAGE_LINES, _MESSAGE_BYTES = 80, 2048
"""How much of a log becomes a termination message."""
_LEAST_GRACE: Final = 2.0
"""Seconds that a container has after its preStop hook, regardless of the duration of the hook."""

_log = get_logger("kubewright.kubelet")


class NoLog(Exception):
    """The log does not exist. The message has a placeholder for the container."""


class ContainerRunner:
    """Runs one container, and restarts it.

    Without an `image` the container is simulated: it runs until it is stopped, or with `ends` it succeeds immediately.
    """

    def __init__(
        self,
        spec: Container,
        image: Image | None,
        pod: Pod,
        sandbox: PodSandbox,
        volumes: Volumes,
        *,
        before: ContainerStatus | None,
        ends: bool,
        waiting: str,
        initializes: bool = False,
        target: Callable[[], int] | None = None,
    ) -> None:
        """`before` is the status that an earlier control plane reported, `waiting` the reason of the first state.

        A container that `initializes` its Pod is not ready while it runs. `target` returns the first process of the
        container whose processes this one shares, or raises LookupError.
        """
        self.spec = spec
        self.started = False
        self.ready = False
        self.restarts = (before.restart_count or 0) if before is not None else 0
        self.state = ContainerState(waiting=ContainerStateWaiting(reason=waiting))
        self.last: ContainerStateTerminated | None = None
        self.has_started = asyncio.Event()
        self._image = image
        self._pod = pod
        self._sandbox = sandbox
        self._volumes = volumes
        self._ends = ends
        self._initializes = initializes
        self._target = target
        self._id: str | None = None
        self._pause = 0.0
        self._stop: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._updated = asyncio.Event()
        self._run: ContainerRun | None = None
        self._resources: ResourceRequirements | None = None
        """Those of the current process, or of the latest."""
        self._resizes = False
        """The process ends because the container was resized, and needs a restart for that."""
        self._logs: dict[int, ContainerLog] = {}
        self._latest = -1
        """The number of the latest run, from 0."""
        if before is not None:
            self._inherit(before)

    @property
    def current_run(self) -> ContainerRun:
        """The current process of the container. Raises LookupError if it does not run."""
        if self._run is None:
            raise LookupError(self.spec.name)
        return self._run

    @property
    def process_id(self) -> int | None:
        """The first process of the container; None if it does not run."""
        return self._run.pid if self._run is not None else None

    def status(self) -> ContainerStatus:
        """Return the status that a kubelet reports for the container."""
        image = self.spec.image or ""
        digest = hashlib.sha256(msgspec.json.encode(self._image) if self._image else image.encode()).hexdigest()
        return ContainerStatus(
            name=self.spec.name,
            image=image,
            image_id=f"{image.partition('@')[0]}@sha256:{digest}" if self._id else "",
            container_id=self._id,
            ready=self.ready,
            started=self.started,
            restart_count=self.restarts,
            state=self.state,
            last_state=ContainerState(terminated=self.last) if self.last is not None else None,
            resources=self._resources,
            allocated_resources=self._resources.requests if self._resources is not None else {},
        )

    def log(self, *, previous: bool) -> ContainerLog:
        """Return the log of the latest run, or with `previous` of the run before the latest restart.

        Raises NoLog; KeyError if the container is simulated.
        """
        if self._image is None:
            raise KeyError(self.spec.name)
        waiting = self.state.waiting
        if previous:
            if self.last is None:
                raise NoLog("previous terminated container {} not found")
            return self._log(self._latest if waiting is not None else self._latest - 1)
        if self._latest < 0:
            raise NoLog(f"container {{}} is waiting to start: {waiting.reason if waiting else 'ContainerCreating'}")
        return self._log(self._latest)

    async def run(self, restarts: Callable[[int], bool]) -> int:
        """Run until the container is stopped, or `restarts` is false for an exit status. Returns that status."""
        ended = self.state.terminated
        if ended is not None:  # under an earlier control plane
            if not restarts(ended.exit_code):
                return ended.exit_code
            self.last = ended
            self.restarts += 1
        while True:
            at = self._sandbox.clock.monotonic()
            code = await (self._run_once(self._image) if self._image is not None else self._simulate())
            resized, self._resizes = self._resizes, False
            if self._stop.done() or not (resized or restarts(code)):
                return code
            if not resized:
                await self._back_off(self._sandbox.clock.monotonic() - at)
            if self._stop.done():
                return code
            self.restarts += 1

    def stop(self, grace: float) -> None:
        """Ask the container to end, and kill it after `grace` seconds. A second call may shorten the grace period."""
        if not self._stop.done():
            self._stop.set_result(grace)
        self._sandbox.clock.call_later(duration(grace).total_seconds(), self.kill)

    def kill(self) -> None:
        if self._run is not None:
            self._run.kill()

    def update(self, pod: Pod) -> None:
        """Take a new version of the Pod. What the container waits for may exist now, and it may be resized."""
        self._pod = pod
        named = (each for each in (*pod.spec.containers, *pod.spec.init_containers) if each.name == self.spec.name)
        if (new := next(named, None)) is not None and self._resources is not None:
            self._resizes = self._resizes or (self._run is not None and needs_restart(new, self._resources))
            self.spec = msgspec.structs.replace(self.spec, resources=new.resources)
            self._resources = resources_of(new)
            if self._resizes:
                self.kill()
        self._updated.set()

    # One run

    async def _run_once(self, image: Image) -> int:
        command = await self._prepare(image)
        if command is None:
            return 0
        self._latest = self.restarts
        log, sandbox = self._log(self._latest), self._sandbox
        if self._latest >= 2:
            self._log(self._latest - 2).remove()
            del self._logs[self._latest - 2]
        self._id = f"{SCHEME}://{secrets.token_hex(32)}"
        at = sandbox.clock.now()
        try:
            run = self._run = await ContainerRun.start(self.spec, command, log, self._pod, sandbox)
        except OSError as error:
            log.write("stderr", str(error).encode(), whole=True)
            return self._terminated(CANNOT_START, at, log, str(error))
        self.state = ContainerState(running=ContainerStateRunning(started_at=at))
        self._resources = resources_of(self.spec)
        self._warn_of_moved_ports(image)
        sandbox.emit(PodEvent("Normal", "Started", f"Started container {self.spec.name} as process {run.pid}"))
        sandbox.changed()
        try:
            code = await run.wait(self._stop, self._set_health)
        finally:
            run.kill()
            self._run = None
        return self._terminated(code, at, log)

    def _set_health(self, started: bool, ready: bool) -> None:
        self.started, self.ready = started, ready and not self._initializes
        if started:
            self.has_started.set()
        self._sandbox.changed()

    def _warn_of_moved_ports(self, image: Image) -> None:
        """Record which ports differ here, for users whose program could not open its own."""
        for port in sorted({*image.ports, *(each.container_port for each in self.spec.ports)}):
            there = process_port(port)
            if there != port:
                note = (
                    f"This user may not open port {port}: container {self.spec.name} has to open port {there} "
                    f"instead, the value of ${PORT}{port}. To let every user open it: "
                    f"sysctl net.ipv4.ip_unprivileged_port_start={port}"
                )
                self._sandbox.warn("PortMoved", note)

    async def _simulate(self) -> int:
        """Simulate one run of a container."""
        at = self._sandbox.clock.now()
        self._id = f"simulated://{secrets.token_hex(32)}"
        if not self._ends:
            self.state = ContainerState(running=ContainerStateRunning(started_at=at))
            self._resources = resources_of(self.spec)
            self.started = self.ready = True
            self.has_started.set()
            self._sandbox.changed()
            await asyncio.wait({self._stop})
        return self._terminated(0, at, None)

    def _terminated(self, code: int, at: datetime, log: ContainerLog | None, message: str = "") -> int:
        self.started = self.ready = False
        reason = "StartError" if message else "Completed" if code == 0 else "Error"
        terminated = ContainerStateTerminated(
            container_id=self._id,
            exit_code=code,
            reason=reason,
            message=message
            or termination_message(self.spec, self._image, self._sandbox)
            or self._last_output(code, log),
            started_at=at,
            finished_at=self._sandbox.clock.now(),
        )
        self.state = ContainerState(terminated=terminated)
        if log is not None:
            log.close()
            if code != 0 and _IN_USE in log.ending().lower():
                self._warn_of_port_in_use()
        self._sandbox.changed()
        return code

    def _warn_of_port_in_use(self) -> None:
        """Record who may have the port of a program, for users who expect a network for each Pod."""
        taken = ""
        for port in self.spec.ports:
            hosts = hosts_listening(port.protocol or "TCP", port.container_port)
            taken += f" Port {port.container_port} is in use at {', '.join(sorted(hosts))}." if hosts else ""
        self._sandbox.warn(
            "PortInUse",
            f"The log of container {self.spec.name} says that an address is already in use.{taken} Pods and Services "
            f"share the network of this machine: a program has to listen on the address of its Pod, ${BIND_HOST} or "
            "status.podIP, and not on all interfaces",
        )

    def _last_output(self, code: int, log: ContainerLog | None) -> str | None:
        """Return the end of the log of a failed container that wants it as its termination message."""
        if log is None or code == 0 or self.spec.termination_message_policy != "FallbackToLogsOnError":
            return None
        return log.tail(_MESSAGE_LINES, _MESSAGE_BYTES).decode(errors="replace") or None

    async def _back_off(self, ran: float) -> None:
        """Pause before the next restart of a container that ran for `ran` seconds."""
        if ran >= _STEADY:
            self._pause = 0.0
        pause = self._pause
        self._pause = _longer(pause)
        self.last = self.state.terminated
        if not pause:
            return
        pod = self._pod.metadata
        where = f"container={self.spec.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        self._wait_for("CrashLoopBackOff", f"back-off {pause:g}s restarting failed {where}")
        self._sandbox.warn("BackOff", f"Back-off restarting failed container {self.spec.name}")
        await self._sleep(pause)

    # Before a run

    async def _prepare(self, image: Image) -> Command | None:
        """Return the command once it can start; None if the container is stopped before."""
        pause = 0.0
        while not self._stop.done():
            self._updated.clear()
            try:
                return await prepare(self.spec, image, self._pod, self._sandbox, self._volumes, self._target)
            except NotReadyToStart as error:
                if self._wait_for(error.state, str(error)):
                    self._sandbox.warn(error.event, str(error))
                await self._sleep(_RETRY, self._updated.wait())
            except Exception as error:  # noqa: BLE001 - a Pod that fails would be replaced immediately, again and again
                pause = _longer(pause)
                if self._wait_for("CreateContainerError", str(error)):
                    self._sandbox.warn("Failed", f"Error: {error}")
                    _log.error("Container creation failed", container=self.spec.name, exc_info=error)
                await self._sleep(pause)
        return None

    def _wait_for(self, reason: str, note: str) -> bool:
        """Report that the container waits. Returns False if this is the reported state already."""
        waiting = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=note))
        if self.state == waiting:
            return False
        self.state = waiting
        self._sandbox.changed()
        return True

    async def _sleep(self, seconds: float, *others: Coroutine[Any, Any, object]) -> None:
        """Sleep until the time is over, the container is stopped, or one of `others` is done."""
        tasks = [asyncio.ensure_future(each) for each in (self._sandbox.clock.sleep(seconds), *others)]
        ends: list[asyncio.Future[Any]] = [*tasks, self._stop]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _log(self, number: int) -> ContainerLog:
        if number not in self._logs:
            folder = self._sandbox.folder / "logs" / self.spec.name / str(number)
            self._logs[number] = ContainerLog(folder, self._sandbox.clock)
        return self._logs[number]

    def _inherit(self, before: ContainerStatus) -> None:
        """Continue from the status that an earlier control plane reported. A container that ran then has ended."""
        self.last = before.last_state.terminated if before.last_state is not None else None
        state = before.state or ContainerState()
        if state.waiting is not None:
            return
        running = state.running
        ended = state.terminated or ContainerStateTerminated(
            container_id=before.container_id,
            exit_code=_LOST,
            reason="Unknown",
            message="The control plane that ran the container has ended",
            started_at=running.started_at if running is not None else None,
            finished_at=self._sandbox.clock.now(),
        )
        self.state = ContainerState(terminated=ended)
        self._id = before.container_id
        self._latest = self.restarts
        self._log(self._latest).close()


class ContainerRun:
    """One run of a container as a process, with its hooks, probes and sessions."""

    def __init__(
        self, spec: Container, command: Command, process: Process, outputs: set[Output], pod: Pod, sandbox: PodSandbox
    ) -> None:
        self._spec = spec
        self._command = command
        """Commands that are run in the container later have the same environment and folder."""
        self._process = process
        self._outputs = outputs
        self._grace = grace_of(pod)
        self._sandbox = sandbox
        self._prober: Prober | None = None

    @classmethod
    async def start(cls, spec: Container, command: Command, log: ContainerLog, pod: Pod, sandbox: PodSandbox) -> Self:
        """Start the process of the container, which writes to `log`. Raises OSError if that fails."""
        check(command)
        outputs = set[Output]()
        lines = Lines(log.write_parts)

        def distribute(fd: int, data: bytes) -> None:
            lines(fd, data)
            for each in outputs:
                each(fd, data)

        process = await Process.start(
            command, sandbox.reaper, distribute, stdin=bool(spec.stdin), terminal=bool(spec.tty)
        )
        return cls(spec, replace(command, inside=process.pid), process, outputs, pod, sandbox)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self, stop: asyncio.Future[float], set_health: Callable[[bool, bool], None]) -> int:
        """Run hooks and probes until the process exits. Returns its exit status.

        The process is terminated when `stop` is set, to the seconds of grace, or after a failed probe or hook.
        `set_health` is called when the container is started, and when its readiness changes.
        """
        sandbox = self._sandbox
        target = Target(self._spec, sandbox.address, self._command, sandbox.reaper, sandbox.clock)
        exited = asyncio.ensure_future(self._process.wait())
        hooked = asyncio.ensure_future(self._post_start(target))

        def changed() -> None:
            assert self._prober is not None
            set_health(self._prober.started, self._prober.ready)

        try:
            await _first(exited, hooked, stop)
            if hooked.done() and hooked.result() and not exited.done():
                self._prober = prober = Prober(target, changed, lambda note: sandbox.warn("Unhealthy", note))
                changed()
                await _first(exited, prober.verdict, stop)
            if not exited.done():
                await self._terminate(target, exited, stop)
            return await exited
        finally:
            hooked.cancel()
            if self._prober is not None:
                self._prober.stop()
                self._prober = None

    def kill(self) -> None:
        self._process.kill()

    # Sessions

    async def execute(self, command: Sequence[str], channels: Channels) -> JSONObject | None:
        """Run a command in the container. Returns its Status; None if the client disconnected."""
        options, prepared = channels.options, replace(self._command, arguments=command)
        try:
            check(prepared)
            process = await Process.start(
                prepared, self._sandbox.reaper, channels.output, stdin=options.stdin, terminal=options.terminal
            )
        except OSError as error:
            return failure(f"cannot exec in container {self._spec.name}: {error}")
        # Started immediately: the process is waited for even if the client disconnects.
        ended = asyncio.ensure_future(process.wait())
        try:
            await channels.open(process)
            code = await channels.serve(process, ended)
        finally:
            channels.release()
            process.kill()
        return None if code is None else exit_status(code)

    async def attach(self, channels: Channels) -> JSONObject | None:
        """Connect a client to the output of the process, and to its input if it has one. Returns as `execute`."""
        process = self._process
        self._outputs.add(channels.output)
        try:
            await channels.open(process)
            code = await channels.serve(process, asyncio.ensure_future(process.ended()))
        finally:
            self._outputs.discard(channels.output)
            channels.release()
            if channels.options.stdin and self._spec.stdin_once:
                process.close_input()
        return None if code is None else exit_status(0)

    # Hooks and termination

    async def _post_start(self, target: Target) -> bool:
        """Run the postStart hook, if there is one. Returns False if it failed and the container has to end."""
        hook = self._spec.lifecycle.post_start if self._spec.lifecycle else None
        if hook is None:
            return True
        try:
            await perform(target, hook)
        except ProbeFailed as error:
            self._sandbox.warn("FailedPostStartHook", str(error))
            return False
        return True

    async def _terminate(self, target: Target, exited: asyncio.Future[int], stop: asyncio.Future[float]) -> None:
        """Run the preStop hook, send the stop signal, and kill the process after the grace period."""
        clock = self._sandbox.clock
        reason, grace = self._termination(stop)
        self._sandbox.emit(PodEvent("Normal", "Killing", reason))
        if self._prober is not None:
            self._prober.stop()
        deadline = clock.monotonic() + grace
        hook = self._spec.lifecycle.pre_stop if self._spec.lifecycle else None
        if hook is not None and grace > 0:
            try:
                await perform(target, hook, grace)
            except ProbeFailed as error:
                self._sandbox.warn("FailedPreStopHook", str(error))
            deadline = max(deadline, clock.monotonic() + _LEAST_GRACE)
        self._process.send(self._stop_signal())
        late = asyncio.ensure_future(clock.sleep(deadline - clock.monotonic()))
        await _first(exited, late)
        late.cancel()
        self._process.kill()

    def _termination(self, stop: asyncio.Future[float]) -> tuple[str, float]:
        """Return why the process is terminated, and its grace period in seconds."""
        name = self._spec.name
        if stop.done():
            return f"Stopping container {name}", stop.result()
        if self._prober is not None and self._prober.verdict.done():
            reason, probe = self._prober.verdict.result()
            grace = float(probe.termination_grace_period_seconds or self._grace)
            return f"Container {name} {reason}, will be restarted", grace
        return f"Stopping container {name}", self._grace

    def _stop_signal(self) -> int:
        name = (self._spec.lifecycle.stop_signal if self._spec.lifecycle else None) or "SIGTERM"
        return getattr(signal, name, signal.SIGTERM)


def _longer(pause: float) -> float:
    return min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
