"""What a kubelet does to a container when it probes it, or at the beginning and end of its life.

Sources: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/ and
https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Container, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded
from kubewright_controlplane.kubelet.processes.ports import port_of_process
from kubewright_controlplane.kubelet.processes.process import Command, Process, Watcher

_SHOWN: Final = 10 << 10
"""Bytes of what an exec or an HTTP answer says that are told."""


class Unhealthy(Exception):
    """The container did not answer as it should; says how."""


@dataclass(frozen=True, slots=True)
class Target:
    """A container that runs."""

    container: Container
    address: str
    command: Command
    """What it was started by: an exec has its environment and folder."""
    watcher: Watcher
    clock: Clock


async def perform(target: Target, handler: Probe | LifecycleHandler, timeout: float | None = None) -> None:
    """Do what `handler` says. Raises Unhealthy, also when it takes longer than `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            await _perform(target, handler)
    except TimeoutError:
        raise Unhealthy(f"timed out after {timeout:g} s") from None


async def _perform(target: Target, handler: Probe | LifecycleHandler) -> None:
    if handler.exec is not None:
        await _exec(target, handler.exec.command)
    elif handler.http_get is not None:
        await _http_get(target, handler.http_get)
    elif handler.tcp_socket is not None:
        await _tcp(target, handler.tcp_socket)
    elif isinstance(handler, LifecycleHandler) and handler.sleep is not None:
        await target.clock.sleep(handler.sleep.seconds)
    else:
        raise Unhealthy("probes by gRPC are not supported for containers that are processes")


async def _exec(target: Target, command: Sequence[str]) -> None:
    said = bytearray()

    def hear(fd: int, data: bytes) -> None:
        if len(said) < _SHOWN:
            said.extend(data)

    process = await Process.start(replace(target.command, arguments=command), target.watcher, hear)
    try:
        code = await process.wait()
    finally:
        process.kill()
    if code != 0:
        raise Unhealthy(
            f"command {' '.join(command)} exited with {code}: {said[:_SHOWN].decode(errors='replace').strip()}"
        )


async def _http_get(target: Target, get: HTTPGetAction) -> None:
    secure = (get.scheme or "HTTP").upper() == "HTTPS"
    host, port = _where(target, get.host, get.port)
    host = f"[{host}]" if ":" in host else host
    headers = {header.name.lower(): header.value for header in get.http_headers}
    client = HTTPClient(f"{'https' if secure else 'http'}://{host}:{port}", ssl=_anybody() if secure else None)
    path = get.path or "/"
    request = Request("GET", path if path.startswith("/") else f"/{path}", {"user-agent": "kube-probe/1.36", **headers})
    try:
        response = await client.send(request)
        body = await response.read()
    except (ConnectionFailed, DeadlineExceeded, ValueError) as error:
        raise Unhealthy(str(error)) from error
    finally:
        await client.close()
    if not 200 <= response.status < 400:
        said = body[:_SHOWN].decode(errors="replace").strip()
        raise Unhealthy(f"HTTP probe failed with statuscode: {response.status}{said and ': '}{said}")


async def _tcp(target: Target, tcp: TCPSocketAction) -> None:
    host, port = _where(target, tcp.host, tcp.port)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise Unhealthy(f"dial tcp {host}:{port}: {error.strerror or error}") from error
    writer.close()


def _where(target: Target, host: str | None, port: int | str) -> tuple[str, int]:
    number = _port(target.container, port)
    return (host, number) if host else (target.address, port_of_process(number))


def _port(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    found = next((each.container_port for each in container.ports if each.name == port), None)
    if found is None and not port.isdigit():
        raise Unhealthy(f"couldn't find port: {port}")
    return found if found is not None else int(port)


def _anybody() -> ssl.SSLContext:
    """A kubelet does not look at the certificate either."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
