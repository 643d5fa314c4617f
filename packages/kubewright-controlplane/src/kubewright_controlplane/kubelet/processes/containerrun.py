"""One run of a container as a process: its hooks and probes, whoever is let in, and its end.

Sources: https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from kubewright.apis.core.v1 import Container
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.kubelet.processes.handlers import Target, Unhealthy, perform
from kubewright_controlplane.kubelet.processes.logs import ContainerLog, Lines
from kubewright_controlplane.kubelet.processes.preparation import check
from kubewright_controlplane.kubelet.processes.probes import Probing
from kubewright_controlplane.kubelet.processes.process import Command, Output, Process
from kubewright_controlplane.kubelet.processes.session import Channels, failure, outcome
from kubewright_controlplane.kubelet.processes.surroundings import Surroundings, grace_of

_LEAST_GRACE: Final = 2.0
"""Seconds that a container has after its preStop hook, however long that took."""


class ContainerRun:
    """A container whose process has been started: `attend` it, to its end."""

    def __init__(
        self, spec: Container, command: Command, process: Process, listeners: set[Output], around: Surroundings
    ) -> None:
        self._spec = spec
        self._command = command
        """What it was started by. What is run in it later has its environment and folder."""
        self._process = process
        self._listeners = listeners
        self._around = around
        self._probing: Probing | None = None

    @classmethod
    async def start(cls, spec: Container, command: Command, log: ContainerLog, around: Surroundings) -> Self:
        """Start the container's process, which writes to `log`. Raises OSError when it can't be started."""
        check(command)
        listeners = set[Output]()
        lines = Lines(lambda stream, text, whole: log.write(stream, text, whole=whole))

        def hear(fd: int, data: bytes) -> None:
            lines(fd, data)
            for listener in listeners:
                listener(fd, data)

        process = await Process.start(
            command, around.watcher, hear, stdin=bool(spec.stdin), terminal=bool(spec.tty)
        )  # fmt: skip
        return cls(spec, command, process, listeners, around)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def attend(self, stop: asyncio.Future[float], tell_health: Callable[[bool, bool], None]) -> int:
        """See to it until its process has ended: give its exit status.

        It is ended when `stop` has the seconds of grace for that, or its probes or its hook doom it. `tell_health` is
        called when it is started, and when it is ready or is not any more.
        """
        around = self._around
        target = Target(self._spec, around.placed.address, self._command, around.watcher, around.clock)
        exited = asyncio.ensure_future(self._process.wait())
        hooked = asyncio.ensure_future(self._post_start(target))

        def look() -> None:
            assert self._probing is not None
            tell_health(self._probing.started, self._probing.ready)

        try:
            await _first(exited, hooked, stop)
            if hooked.done() and hooked.result() and not exited.done():
                self._probing = probing = Probing(target, look, self._complain)
                look()
                await _first(exited, probing.doomed, stop)
            if not exited.done():
                await self._terminate(target, exited, stop)
            return await exited
        finally:
            hooked.cancel()
            if self._probing is not None:
                self._probing.stop()
                self._probing = None

    def kill(self) -> None:
        self._process.kill()

    # Who is let in

    async def execute(self, command: Sequence[str], channels: Channels) -> JSONObject | None:
        """Run a command in it. Gives the Status that says how it ended; None when whoever asked has left."""
        wishes, prepared = channels.wishes, replace(self._command, arguments=command)
        try:
            check(prepared)
            process = await Process.start(
                prepared, self._around.watcher, channels.hear, stdin=wishes.stdin, terminal=wishes.terminal
            )
        except OSError as error:
            return failure(f"cannot exec in container {self._spec.name}: {error}")
        # Begun at once: whatever becomes of the client, the process is attended to.
        ended = asyncio.ensure_future(process.wait())
        try:
            await channels.greet()
            code = await channels.serve(process, ended)
        finally:
            process.kill()
        return None if code is None else outcome(code)

    async def attach(self, channels: Channels) -> JSONObject | None:
        """Let somebody hear what it writes, and type to it if it reads. Otherwise as `execute`."""
        process = self._process
        self._listeners.add(channels.hear)
        try:
            await channels.greet()
            code = await channels.serve(process, asyncio.ensure_future(process.ended()))
        finally:
            self._listeners.discard(channels.hear)
            if channels.wishes.stdin and self._spec.stdin_once:
                process.close_input()
        return None if code is None else outcome(0)

    # Its hooks, and its end

    async def _post_start(self, target: Target) -> bool:
        """The hook after the start, when there is one; False when it failed, and the container has to go."""
        hook = self._spec.lifecycle.post_start if self._spec.lifecycle else None
        if hook is None:
            return True
        try:
            await perform(target, hook)
        except Unhealthy as error:
            self._around.tell("Warning", "FailedPostStartHook", str(error))
            return False
        return True

    def _complain(self, note: str) -> None:
        self._around.tell("Warning", "Unhealthy", note)

    async def _terminate(self, target: Target, exited: asyncio.Future[int], stop: asyncio.Future[float]) -> None:
        """End the process: with the grace of whoever wants it gone."""
        clock = self._around.clock
        why, grace = self._sentence(stop)
        self._around.tell("Normal", "Killing", why)
        if self._probing is not None:
            self._probing.stop()
        deadline = clock.monotonic() + grace
        hook = self._spec.lifecycle.pre_stop if self._spec.lifecycle else None
        if hook is not None and grace > 0:
            try:
                await perform(target, hook, grace)
            except Unhealthy as error:
                self._around.tell("Warning", "FailedPreStopHook", str(error))
            deadline = max(deadline, clock.monotonic() + _LEAST_GRACE)
        self._process.send(self._stop_signal())
        late = asyncio.ensure_future(clock.sleep(deadline - clock.monotonic()))
        await _first(exited, late)
        late.cancel()
        self._process.kill()

    def _sentence(self, stop: asyncio.Future[float]) -> tuple[str, float]:
        """Why the process is ended, and the seconds of grace that it has."""
        name, grace = self._spec.name, grace_of(self._around.placed.pod)
        if stop.done():
            return f"Stopping container {name}", stop.result()
        if self._probing is not None and self._probing.doomed.done():
            reason, probe = self._probing.doomed.result()
            grace = float(probe.termination_grace_period_seconds or grace)
            return f"Container {name} {reason}, will be restarted", grace
        return f"Stopping container {name}", grace

    def _stop_signal(self) -> int:
        name = (self._spec.lifecycle.stop_signal if self._spec.lifecycle else None) or "SIGTERM"
        return getattr(signal, name, signal.SIGTERM)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Until one of them is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
