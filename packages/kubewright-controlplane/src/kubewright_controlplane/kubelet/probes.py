"""Probes and lifecycle hooks of a container that runs.

Follows k8s.io/kubernetes pkg/kubelet/prober/worker.go. Sources:
https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/ and
https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Container, GRPCAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request, Response
from kubewright.http.tls import accept_any_server
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded
from kubewright_controlplane.kubelet.grpchealth import HealthCheckFailed, health
from kubewright_controlplane.kubelet.process import Command, Process, Reaper
from kubewright_controlplane.ports import process_port

_SHOWN: Final = 10 << 10
"""Bytes of output or of an HTTP response that are reported."""


class ProbeFailed(Exception):
    """A probe or a hook failed. The message says how."""


@dataclass(frozen=True, slots=True)
class Target:
    """A container that runs."""

    container: Container
    address: str
    command: Command
    """The command that started it. A command run in it has the same environment and folder."""
    reaper: Reaper
    clock: Clock


async def perform(target: Target, handler: Probe | LifecycleHandler, timeout: float | None = None) -> None:
    """Perform a probe or hook. Raises ProbeFailed, also if it takes longer than `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            await _perform(target, handler)
    except TimeoutError:
        raise ProbeFailed(f"timed out after {timeout:g} s") from None


async def _perform(target: Target, handler: Probe | LifecycleHandler) -> None:
    if handler.exec is not None:
        await _exec(target, handler.exec.command)
    elif handler.http_get is not None:
        await _http_get(target, handler.http_get)
    elif handler.tcp_socket is not None:
        await _tcp(target, handler.tcp_socket)
    elif isinstance(handler, LifecycleHandler) and handler.sleep is not None:
        await target.clock.sleep(handler.sleep.seconds)
    elif isinstance(handler, Probe) and handler.grpc is not None:
        await _grpc(target, handler.grpc)
    else:
        raise ProbeFailed("missing probe handler")


async def _exec(target: Target, command: Sequence[str]) -> None:
    output = bytearray()

    def collect(fd: int, data: bytes) -> None:
        if len(output) < _SHOWN:
            output.extend(data)

    process = await Process.start(replace(target.command, arguments=command), target.reaper, collect)
    ended = asyncio.ensure_future(process.wait())  # it is waited for even if the time is over, and frees its pipes then
    try:
        code = await asyncio.shield(ended)
    finally:
        process.kill()
    if code != 0:
        raise ProbeFailed(
            f"command {' '.join(command)} exited with {code}: {output[:_SHOWN].decode(errors='replace').strip()}"
        )


async def _http_get(target: Target, get: HTTPGetAction) -> None:
    secure = (get.scheme or "HTTP").upper() == "HTTPS"
    host, port = _address(target, get.host, get.port)
    host = f"[{host}]" if ":" in host else host
    headers = {header.name.lower(): header.value for header in get.http_headers}
    path = get.path or "/"
    request = Request("GET", path if path.startswith("/") else f"/{path}", {"user-agent": "kube-probe/1.36", **headers})
    try:
        client = HTTPClient(f"{'https' if secure else 'http'}://{host}:{port}", ssl=_unverified() if secure else None)
        try:
            response = await client.send(request, stream=True)
            body = await _beginning(response)
        finally:
            await client.close()
    except (ConnectionFailed, DeadlineExceeded, ConfigError, ValueError) as error:
        raise ProbeFailed(str(error)) from error
    if not 200 <= response.status < 400:
        text = body[:_SHOWN].decode(errors="replace").strip()
        raise ProbeFailed(f"HTTP probe failed with statuscode: {response.status}{text and ': '}{text}")


async def _beginning(response: Response) -> bytes:
    """Return the first `_SHOWN` bytes of a streamed body. A program may send without end."""
    found = bytearray()
    assert not isinstance(response.body, bytes)
    async for chunk in response.body:
        found += chunk[: _SHOWN - len(found)]
        if len(found) == _SHOWN:
            break
    await response.aclose()
    return bytes(found)


async def _tcp(target: Target, tcp: TCPSocketAction) -> None:
    host, port = _address(target, tcp.host, tcp.port)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProbeFailed(f"dial tcp {host}:{port}: {reason}") from error
    writer.close()


async def _grpc(target: Target, action: GRPCAction) -> None:
    host, port = _address(target, None, action.port)
    service = action.service or ""
    try:
        found = await health(host, port, service)
    except HealthCheckFailed as error:
        raise ProbeFailed(f"error: {error}") from error
    except OSError as error:
        reason = error.strerror or error
        raise ProbeFailed(f'error: failed to connect service "{host}:{port}": {reason}') from error
    if found != "SERVING":
        raise ProbeFailed(f'service unhealthy (responded with "{found}")')


def _address(target: Target, host: str | None, port: int | str) -> tuple[str, int]:
    number = _port(target.container, port)
    return (host, number) if host else (target.address, process_port(number))


def _port(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    found = next((each.container_port for each in container.ports if each.name == port), None)
    if found is None and not port.isdigit():
        raise ProbeFailed(f"couldn't find port: {port}")
    return found if found is not None else int(port)


def _unverified() -> ssl.SSLContext:
    """Return a context that accepts any certificate, as a kubelet does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accept_any_server(context)
    return context


class Prober:
    """Runs the probes of one container until `stop`."""

    def __init__(self, target: Target, changed: Callable[[], None], failed: Callable[[str], None]) -> None:
        """`changed` is called after `started` or `ready` has changed, `failed` with the error of each failed probe."""
        self._target = target
        self._changed = changed
        self._failed = failed
        container = target.container
        self.started = container.startup_probe is None
        self.ready = self.started and container.readiness_probe is None
        self.verdict: asyncio.Future[tuple[str, Probe]] = asyncio.get_running_loop().create_future()
        """Set when the container must be killed: the reason, and the probe."""
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
        while (error := await self._try("Startup", probe)) is not None:
            failures += 1
            if failures >= (probe.failure_threshold or 3):
                self._condemn(f"failed startup probe: {error}", probe)
            await self._wait(probe.period_seconds or 10)
        self.started = True
        self.ready = self._target.container.readiness_probe is None
        self._changed()

    async def _liveness(self, probe: Probe) -> None:
        await self._wait(probe.initial_delay_seconds or 0)
        failures = 0
        while True:
            error = await self._try("Liveness", probe)
            failures = failures + 1 if error is not None else 0
            if failures >= (probe.failure_threshold or 3):
                self._condemn(f"failed liveness probe: {error}", probe)
            await self._wait(probe.period_seconds or 10)

    async def _readiness(self, probe: Probe) -> None:
        await self._wait(probe.initial_delay_seconds or 0)
        run, last = 0, False
        while True:
            good = await self._try("Readiness", probe) is None
            run = run + 1 if good is last else 1
            last = good
            needed = (probe.success_threshold if good else probe.failure_threshold) or (1 if good else 3)
            if run >= needed and self.ready is not good:
                self.ready = good
                self._changed()
            await self._wait(probe.period_seconds or 10)

    async def _try(self, name: str, probe: Probe) -> str | None:
        """Return the error of a probe; None if it succeeds."""
        try:
            await perform(self._target, probe, probe.timeout_seconds or 1)
        except ProbeFailed as error:
            self._failed(f"{name} probe failed: {error}")
            return str(error)
        except OSError as error:
            self._failed(f"{name} probe errored: {error}")
            return str(error)
        return None

    def _condemn(self, reason: str, probe: Probe) -> None:
        if not self.verdict.done():
            self.verdict.set_result((reason, probe))

    async def _wait(self, seconds: float) -> None:
        await self._target.clock.sleep(seconds)
