"""The embedded API server beside a real one: kube-apiserver and its etcd, counted together.

Both run as processes of their own without controllers, and get the same requests in turns, over TLS, as an
administrator sends them: Deployments that are created, read, changed by both sorts of patch, and listed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.bars import EMBEDDED, REAL
from benchmarks.hands import share
from benchmarks.process import Usage, running
from benchmarks.report import Figure, Medians, Run, in_turns, say
from kubewright.client._config import Config
from kubewright.client._rest import JSON, LogOnce, Query, RESTClient
from kubewright.client._transport import HTTPTransport
from kubewright_controlplane.real import RealControlPlane

LISTED: Final = 3000
_LISTS: Final = 20
_AT_ONCE: Final = 4
_REST: Final = 0.2
"""Seconds for a server to finish what a request leaves behind."""
_READY_WITHIN: Final = 30.0
_LOOK: Final = 0.02

_KUBEWRIGHT: Final = "from kubewright_cli.main import main; main()"
_PATH: Final = "/apis/apps/v1/namespaces/default/deployments"
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"

FIGURES: Final = (
    Figure("create_us", "create, us of CPU", 0),
    Figure("get_us", "get, us of CPU", 0),
    Figure("merge_patch_us", "merge patch, us of CPU", 0),
    Figure("apply_us", "server-side apply, us of CPU", 0),
    Figure("list_us", f"list of {LISTED}, us of CPU", 0),
    Figure("server_rss_mb", f"memory with {LISTED} objects, MB", 0),
)


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    name: str
    rest: RESTClient
    usage: Usage


async def measure(requests: int, repetitions: int) -> Medians:
    """The medians by figure and server."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        async with AsyncExitStack() as stack:
            say("Starting an embedded API server, etcd and kube-apiserver ...")
            servers = [await stack.enter_async_context(start) for start in (_embedded(Path(name)), _real())]

            async def run(server: Server) -> Run:
                return await _run(server, requests)

            return await in_turns(servers, repetitions, run, FIGURES)


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncGenerator[Server]:
    kubeconfig = folder / "kubeconfig"
    command = (sys.executable, "-c", _KUBEWRIGHT, "up", "--bare", "--kubeconfig", str(kubeconfig))
    async with running(command, folder / "embedded.log") as usage:
        async with asyncio.timeout(_READY_WITHIN):
            while not kubeconfig.exists():  # noqa: ASYNC110 - it is another process that writes it
                await asyncio.sleep(_LOOK)
        async with _client(Config.from_kubeconfig(kubeconfig)) as rest:
            yield Server(EMBEDDED, rest, usage)


@asynccontextmanager
async def _real() -> AsyncGenerator[Server]:
    async with RealControlPlane(controllers=False) as control_plane, _client(control_plane.config) as rest:
        yield Server(REAL, rest, Usage(control_plane.pids.values()))


@asynccontextmanager
async def _client(config: Config) -> AsyncGenerator[RESTClient]:
    rest = RESTClient(HTTPTransport(config), user_agent="kubewright-bench", on_warning=LogOnce())
    try:
        yield rest
    finally:
        await rest.close()


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    query: Query | None = None


async def _run(server: Server, requests: int) -> Run:
    """One repetition; leaves nothing on the server."""
    names = [f"web-{number}" for number in range(LISTED)]
    some = [names[number % LISTED] for number in range(requests)]
    try:
        costs = {figure: await _cost(server, calls) for figure, calls in _cases(names, some).items()}
        return {**costs, "server_rss_mb": server.usage.rss / 1e6}
    finally:
        await _send(server, Call("DELETE", _PATH))


def _cases(names: Sequence[str], some: Sequence[str]) -> dict[str, list[Call]]:
    """The requests behind each figure, in the order in which they are sent."""
    scaled = msgspec.json.encode({"spec": {"replicas": 3}})
    force = {"fieldManager": "kubewright-bench", "force": "true"}
    return {
        "create_us": [Call("POST", _PATH, _deployment(name, "nginx:1.23.0")) for name in names],
        "get_us": [Call("GET", f"{_PATH}/{name}") for name in some],
        "merge_patch_us": [Call("PATCH", f"{_PATH}/{name}", scaled, _MERGE) for name in some],
        "apply_us": [
            Call("PATCH", f"{_PATH}/{name}", _deployment(name, f"nginx:1.23.{number}"), _APPLY, force)
            for number, name in enumerate(some, start=1)
        ],
        "list_us": [Call("GET", _PATH)] * _LISTS,
    }


async def _cost(server: Server, calls: Sequence[Call]) -> float:
    """Microseconds of the server's CPU for each of `calls`."""
    before = server.usage.cpu
    await share((_send(server, call) for call in calls), _AT_ONCE)
    await asyncio.sleep(_REST)
    return (server.usage.cpu - before) / len(calls) * 1e6


async def _send(server: Server, call: Call) -> None:
    await server.rest.request(call.method, call.path, call.query, body=call.body, content_type=call.content_type)


def _deployment(name: str, image: str) -> bytes:
    labels = {"app": "webserver", "webserver_cr": name}
    container = {
        "name": "webserver",
        "image": image,
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "GREETING", "value": "hello"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return msgspec.json.encode(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
    )
