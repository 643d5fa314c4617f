"""Probes of one run of a container: is it started, is it alive, is it ready.

Follows k8s.io/kubernetes pkg/kubelet/prober/worker.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubewright.apis.core.v1 import Probe
from kubewright_controlplane.kubelet.processes.handlers import Target, Unhealthy, perform


class Probing:
    """The probes of a container that runs, until `stop`."""

    def __init__(self, target: Target, changed: Callable[[], None], complain: Callable[[str], None]) -> None:
        """`changed` is called when `started` or `ready` is another; `complain` is told of each probe that fails."""
        self._target = target
        self._changed = changed
        self._complain = complain
        container = target.container
        self.started = container.startup_probe is None
        self.ready = self.started and container.readiness_probe is None
        self.doomed: asyncio.Future[tuple[str, Probe]] = asyncio.get_running_loop().create_future()
        """Done when the container has to be killed: with why, and the probe that says so."""
        self._tasks = [asyncio.create_task(self._run())]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        container = self._target.container
        if container.startup_probe is not None:
            await self._startup(container.startup_probe)
        if container.liveness_probe is not None:
            self._tasks.append(asyncio.create_task(self._liveness(container.liveness_probe)))
        if container.readiness_probe is not None:
            self._tasks.append(asyncio.create_task(self._readiness(container.readiness_probe)))

    async def _startup(self, probe: Probe) -> None:
        await self._wait(probe.initial_delay_seconds or 0)
        failures = 0
        while (why := await self._fault("Startup", probe)) is not None:
            failures += 1
            if failures >= (probe.failure_threshold or 3):
                self._doom(f"failed startup probe: {why}", probe)
            await self._wait(probe.period_seconds or 10)
        self.started = True
        self.ready = self._target.container.readiness_probe is None
        self._changed()

    async def _liveness(self, probe: Probe) -> None:
        await self._wait(probe.initial_delay_seconds or 0)
        failures = 0
        while True:
            why = await self._fault("Liveness", probe)
            failures = failures + 1 if why is not None else 0
            if failures >= (probe.failure_threshold or 3):
                self._doom(f"failed liveness probe: {why}", probe)
            await self._wait(probe.period_seconds or 10)

    async def _readiness(self, probe: Probe) -> None:
        await self._wait(probe.initial_delay_seconds or 0)
        run, last = 0, False
        while True:
            good = await self._fault("Readiness", probe) is None
            run = run + 1 if good is last else 1
            last = good
            needed = (probe.success_threshold if good else probe.failure_threshold) or (1 if good else 3)
            if run >= needed and self.ready is not good:
                self.ready = good
                self._changed()
            await self._wait(probe.period_seconds or 10)

    async def _fault(self, name: str, probe: Probe) -> str | None:
        try:
            await perform(self._target, probe, probe.timeout_seconds or 1)
        except Unhealthy as error:
            self._complain(f"{name} probe failed: {error}")
            return str(error)
        except OSError as error:
            self._complain(f"{name} probe errored: {error}")
            return str(error)
        return None

    def _doom(self, why: str, probe: Probe) -> None:
        if not self.doomed.done():
            self.doomed.set_result((why, probe))

    async def _wait(self, seconds: float) -> None:
        await self._target.clock.sleep(seconds)
