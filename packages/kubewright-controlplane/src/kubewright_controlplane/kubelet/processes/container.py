"""One container over its restarts: prepared, started, restarted with growing pauses, and stopped with grace.

How long a container waits after it has ended: not at all the first time, then 10 seconds, twice as long each time, at
most five minutes; one that has run for ten minutes begins anew.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ and
https://kubernetes.io/docs/tasks/configure-pod-container/determine-reason-pod-failure/
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Final

import msgspec

from kubewright.apis.core.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from kubewright_controlplane.kubelet.processes.containerrun import ContainerRun
from kubewright_controlplane.kubelet.processes.environment import PORT
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.launch import CANNOT_START
from kubewright_controlplane.kubelet.processes.logs import ContainerLog
from kubewright_controlplane.kubelet.processes.ports import port_of_process
from kubewright_controlplane.kubelet.processes.preparation import NotYet, last_message, prepare
from kubewright_controlplane.kubelet.processes.process import Command
from kubewright_controlplane.kubelet.processes.surroundings import Surroundings

SCHEME: Final = "process"
"""Of the IDs of containers that are processes; those that are not have `simulated`."""
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 300.0
_STEADY: Final = 600.0
"""Seconds that a container has to run for its earlier failures to be forgotten."""
_RETRY: Final = 5.0
"""Seconds until what is missing is looked for again, should nobody say that it has come."""
_LOST: Final = 255
"""The exit status of a container that ended unseen, as containerd has it."""


class NoLog(Exception):
    """There is no such log; says why, in a kubelet's words but for the container."""


class ContainerRunner:
    """Runs one container. Without an `image` it is simulated: it runs until it is stopped; with `ends` it does not run,
    and has succeeded.
    """

    def __init__(
        self,
        spec: Container,
        image: Image | None,
        around: Surroundings,
        *,
        before: ContainerStatus | None,
        ends: bool,
        waits: str,
    ) -> None:
        """`before` is what an earlier control plane reported of it; `waits` is the reason for which it waits now."""
        self.spec = spec
        self.started = False
        self.ready = False
        self.restarts = (before.restart_count or 0) if before is not None else 0
        self.state = ContainerState(waiting=ContainerStateWaiting(reason=waits))
        self.last: ContainerStateTerminated | None = None
        self.has_started = asyncio.Event()
        self._image = image
        self._around = around
        self._ends = ends
        self._id: str | None = None
        self._pause = 0.0
        self._stop: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        self._run: ContainerRun | None = None
        self._logs: dict[int, ContainerLog] = {}
        self._latest = -1
        """The number of the latest run: how many there were before it."""
        if before is not None:
            self._inherit(before)

    @property
    def current_run(self) -> ContainerRun:
        """The process that it runs as now. Raises LookupError when there is none."""
        if self._run is None:
            raise LookupError(self.spec.name)
        return self._run

    def status(self) -> ContainerStatus:
        """What a kubelet reports of it."""
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
        )

    def log(self, *, previous: bool) -> ContainerLog:
        """What its latest run wrote, or with `previous` the last that has ended and been followed by a restart.

        Raises NoLog; KeyError when it is simulated.
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
        """Run it until it has ended and `restarts` says no to its exit status, or it is stopped. Gives that status."""
        ended = self.state.terminated
        if ended is not None:  # under an earlier control plane
            if not restarts(ended.exit_code):
                return ended.exit_code
            self.last = ended
            self.restarts += 1
        while True:
            at = self._around.clock.monotonic()
            code = await (self._once(self._image) if self._image is not None else self._pretend())
            if self._stop.done() or not restarts(code):
                return code
            await self._back_off(self._around.clock.monotonic() - at)
            if self._stop.done():
                return code
            self.restarts += 1

    def stop(self, grace: float) -> None:
        """Ask it to end, and kill it after `grace` seconds. A second call may shorten the first's grace."""
        if not self._stop.done():
            self._stop.set_result(grace)
        self._around.clock.call_later(grace, self.kill)

    def kill(self) -> None:
        if self._run is not None:
            self._run.kill()

    def look_again(self) -> None:
        """What it waits for may have come."""
        self._news.set()

    # One run

    async def _once(self, image: Image) -> int:
        command = await self._prepare(image)
        if command is None:
            return 0
        self._latest = self.restarts
        log, around = self._log(self._latest), self._around
        if self._latest >= 2:
            self._log(self._latest - 2).remove()
            del self._logs[self._latest - 2]
        self._id = f"{SCHEME}://{secrets.token_hex(32)}"
        at = around.clock.now()
        try:
            run = self._run = await ContainerRun.start(self.spec, command, log, around)
        except OSError as error:
            log.write("stderr", str(error).encode(), whole=True)
            return self._ended(CANNOT_START, at, log, str(error))
        self.state = ContainerState(running=ContainerStateRunning(started_at=at))
        self._tell_of_ports(image)
        around.tell("Normal", "Started", f"Started container {self.spec.name} as process {run.pid}")
        around.changed()
        try:
            code = await run.attend(self._stop, self._look_at_health)
        finally:
            run.kill()
            self._run = None
        return self._ended(code, at, log)

    def _look_at_health(self, started: bool, ready: bool) -> None:
        self.started, self.ready = started, ready
        if started:
            self.has_started.set()
        self._around.changed()

    def _tell_of_ports(self, image: Image) -> None:
        """Say which ports are others here, to whoever wonders why a program could not open its own."""
        for port in sorted({*image.ports, *(each.container_port for each in self.spec.ports)}):
            there = port_of_process(port)
            if there != port:
                note = (
                    f"This user may not open port {port}: container {self.spec.name} has to open {there} in its place, "
                    f"as ${PORT}{port} says; or let everyone open it: "
                    f"sysctl net.ipv4.ip_unprivileged_port_start={port}"
                )
                self._around.tell("Warning", "PortMoved", note)

    async def _pretend(self) -> int:
        """A run of a container that is simulated."""
        at = self._around.clock.now()
        self._id = f"simulated://{secrets.token_hex(32)}"
        if not self._ends:
            self.state = ContainerState(running=ContainerStateRunning(started_at=at))
            self.started = self.ready = True
            self.has_started.set()
            self._around.changed()
            await asyncio.wait({self._stop})
        return self._ended(0, at, None)

    def _ended(self, code: int, at: datetime, log: ContainerLog | None, message: str = "") -> int:
        self.started = self.ready = False
        reason = "StartError" if message else "Completed" if code == 0 else "Error"
        terminated = ContainerStateTerminated(
            container_id=self._id,
            exit_code=code,
            reason=reason,
            message=message or last_message(self.spec, self._around) or None,
            started_at=at,
            finished_at=self._around.clock.now(),
        )
        self.state = ContainerState(terminated=terminated)
        if log is not None:
            log.close()
        self._around.changed()
        return code

    async def _back_off(self, ran: float) -> None:
        """Wait for as long as a container waits that has ended after `ran` seconds."""
        if ran >= _STEADY:
            self._pause = 0.0
        pause = self._pause
        self._pause = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self.last = self.state.terminated
        if not pause:
            return
        pod = self._around.placed.pod.metadata
        where = f"container={self.spec.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        note = f"back-off {pause:g}s restarting failed {where}"
        self._wait_for("CrashLoopBackOff", note)
        self._around.tell("Warning", "BackOff", f"Back-off restarting failed container {self.spec.name}")
        await self._sleep(pause)

    # Before a run

    async def _prepare(self, image: Image) -> Command | None:
        """What to run, once all that it needs is there; None when it is to stop before."""
        while not self._stop.done():
            self._news.clear()
            try:
                return await prepare(self.spec, image, self._around)
            except NotYet as error:
                if self._wait_for(error.state, str(error)):
                    self._around.tell("Warning", error.event, str(error))
                await self._sleep(_RETRY, self._news.wait())
        return None

    def _wait_for(self, reason: str, note: str) -> bool:
        """Report that it waits. False when that is known already."""
        waiting = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=note))
        if self.state == waiting:
            return False
        self.state = waiting
        self._around.changed()
        return True

    async def _sleep(self, seconds: float, *others: Coroutine[Any, Any, object]) -> None:
        """Wait; not beyond a stop, nor beyond any of the others."""
        tasks = [asyncio.ensure_future(each) for each in (self._around.clock.sleep(seconds), *others)]
        ends: list[asyncio.Future[Any]] = [*tasks, self._stop]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _log(self, number: int) -> ContainerLog:
        if number not in self._logs:
            folder = self._around.folder / "logs" / self.spec.name / str(number)
            self._logs[number] = ContainerLog(folder, self._around.clock)
        return self._logs[number]

    def _inherit(self, before: ContainerStatus) -> None:
        """Go on from what an earlier control plane reported. A container that ran has ended with that, unseen."""
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
            finished_at=self._around.clock.now(),
        )
        self.state = ContainerState(terminated=ended)
        self._id = before.container_id
        self._latest = self.restarts
        self._log(self._latest).close()
