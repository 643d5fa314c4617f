"""The embedded API server and a real one: kube-apiserver and its etcd, measured together.

Both run as separate processes without controllers. They receive the same requests of an administrator in alternating
order, over TLS: Deployments are created, read, changed with a merge patch and with an apply, and listed. With webhooks,
they call one that changes each new ConfigMap and one that allows it; both run in the process of the benchmark. The
embedded server is also compared with itself when it keeps objects on disk (`--data`).
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.bars import EMBEDDED, ON_DISK, REAL
from benchmarks.process import Usage, running
from benchmarks.report import Figure, Measured, Run, in_turns, say
from benchmarks.workers import run_concurrently
from kubewright.client._config import Config
from kubewright.client._rest import JSON, LogOnce, Query, RESTClient
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request, Response
from kubewright.http.server import Server as HTTPServer
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.real import RealControlPlane

LISTED: Final = 3000
_LISTS: Final = 20
_AT_ONCE: Final = 4
_BURST: Final = 32
_REST: Final = 0.2
"""Seconds for a server to finish the background work of requests."""
_READY_WITHIN: Final = 30.0
_LOOK: Final = 0.02

_KUBEWRIGHT: Final = "from kubewright_cli.main import main; main()"
_PATH: Final = "/apis/apps/v1/namespaces/default/deployments"
_CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_CONFIGURED_AFTER: Final = 3.0
"""Seconds until kube-apiserver has seen a new configuration."""
_PATCH: Final = b64encode(b'[{"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}]').decode()
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"

FIGURES: Final = (
    Figure("create_us", "create, us of CPU", 0),
    Figure("get_us", "get, us of CPU", 0),
    Figure("merge_patch_us", "merge patch, us of CPU", 0),
    Figure("apply_us", "server-side apply, us of CPU", 0),
    Figure("list_us", f"list of {LISTED}, us of CPU", 0),
    Figure("server_rss_mb", f"memory with {LISTED} objects, MB", 0, depends_on_load=False),
)

WEBHOOK_FIGURES: Final = (
    Figure("webhook_write_us", "write through two webhooks, us of CPU", 0),
    Figure("webhook_write_ms", "the same, ms until it is answered", 2),
)

DATA_FIGURES: Final = (
    Figure("data_create_us", "create, us of CPU", 0),
    Figure("data_create_ms", "create, one at a time, ms until it is answered", 2),
    Figure("data_creates_ms", f"create, {_BURST} at a time, ms until all are answered, for each", 2),
)


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    rest: RESTClient
    usage: Usage


async def measure(requests: int, repetitions: int) -> Measured:
    """Return the values by figure and server."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        async with AsyncExitStack() as stack:
            say("Starting an embedded API server, etcd and kube-apiserver ...")
            servers = [await stack.enter_async_context(start) for start in (embedded(Path(name)), real())]

            async def run(server: Server) -> Run:
                return await _run(server, requests)

            return await in_turns(servers, repetitions, run, FIGURES)


async def measure_data(writes: int, repetitions: int) -> Measured:
    """Return the values by figure and server, of writes to a server with a data folder and to others."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        async with AsyncExitStack() as stack:
            say("Starting an embedded API server with and without a data folder, etcd and kube-apiserver ...")
            folders = Path(name, "memory"), Path(name, "disk")
            for folder in folders:
                folder.mkdir()
            starting = (embedded(folders[0]), embedded(folders[1], data=folders[1] / "data"), real())
            servers = [await stack.enter_async_context(start) for start in starting]

            async def run(server: Server) -> Run:
                return await _run_data(server, writes)

            return await in_turns(servers, repetitions, run, DATA_FIGURES)


async def _run_data(server: Server, writes: int) -> Run:
    """Create ConfigMaps in one repetition, and delete them."""
    body = msgspec.json.encode({"metadata": {"generateName": "web-"}, "data": {"k": "v" * 500}})
    calls = [Call("POST", _CONFIG_MAPS, body)] * writes
    try:
        cost = await _cost(server, calls)
        return {
            "data_create_us": cost,
            "data_create_ms": await _seconds(server, calls[: writes // _BURST], 1) * 1e3,
            "data_creates_ms": await _seconds(server, calls, _BURST) * 1e3,
        }
    finally:
        await _send(server, Call("DELETE", _CONFIG_MAPS, query={"fieldSelector": "metadata.name!=kube-root-ca.crt"}))


async def _seconds(server: Server, calls: Sequence[Call], at_once: int) -> float:
    """Return the time for each call until all are answered, with so many at a time."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await run_concurrently((_send(server, call) for call in calls), at_once)
    return (loop.time() - before) / len(calls)


async def measure_webhooks(writes: int, repetitions: int) -> Measured:
    """Return the values by figure and server, of writes through a mutating and a validating webhook."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        async with AsyncExitStack() as stack:
            say("Starting an embedded API server, etcd and kube-apiserver ...")
            servers = [await stack.enter_async_context(start) for start in (embedded(Path(name)), real())]
            authority = CertificateAuthority.create()
            hooks = HTTPServer(_review, ssl=tls_context(authority, Path(name)))
            await hooks.start()
            stack.push_async_callback(hooks.close)
            for server in servers:
                await _configure(server, f"https://127.0.0.1:{hooks.port}", authority)

            async def run(server: Server) -> Run:
                return await _run_webhooks(server, writes)

            return await in_turns(servers, repetitions, run, WEBHOOK_FIGURES)


async def _run_webhooks(server: Server, writes: int) -> Run:
    """Create ConfigMaps in one repetition, and delete them."""
    body = msgspec.json.encode({"metadata": {"generateName": "web-", "labels": {"app": "web"}}, "data": {"k": "v"}})
    loop = asyncio.get_running_loop()
    try:
        before = loop.time()
        cost = await _cost(server, [Call("POST", _CONFIG_MAPS, body)] * writes)
        return {
            "webhook_write_us": cost,
            "webhook_write_ms": (loop.time() - before - _REST) / writes * _AT_ONCE * 1e3,
        }
    finally:
        await _send(server, Call("DELETE", _CONFIG_MAPS, query={"labelSelector": "app=web"}))


async def _configure(server: Server, url: str, authority: CertificateAuthority) -> None:
    """Create one configuration of each kind, and wait until the server uses both."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    for kind in ("mutating", "validating"):
        webhook = {
            "name": f"{kind}.bench.example.com",
            "clientConfig": {"url": f"{url}/{kind}", "caBundle": b64encode(authority.certificate).decode()},
            "rules": [rule],
            "objectSelector": {"matchLabels": {"app": "web"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        body = msgspec.json.encode({"metadata": {"name": "bench"}, "webhooks": [webhook]})
        await _send(server, Call("POST", f"{_CONFIGURATIONS}/{kind}webhookconfigurations", body))
    await asyncio.sleep(_CONFIGURED_AFTER)


async def _review(request: Request) -> Response:
    """Answer an AdmissionReview: add an annotation, or allow the write."""
    review = msgspec.json.decode(request.body)
    response: JSONObject = {"uid": review["request"]["uid"], "allowed": True}
    if request.path == "/mutating":
        response |= {"patchType": "JSONPatch", "patch": _PATCH}
    answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
    return Response(200, {"content-type": JSON}, msgspec.json.encode(answer))


def tls_context(authority: CertificateAuthority, folder: Path) -> ssl.SSLContext:
    pair = authority.issue_server(["127.0.0.1"])
    file = folder / "webhooks.pem"
    file.write_bytes(pair.key + pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@asynccontextmanager
async def embedded(folder: Path, data: Path | None = None) -> AsyncGenerator[Server]:
    """Run an embedded API server for the duration of the block. Its kubeconfig is the file `kubeconfig` in `folder`.

    It keeps objects in `data`, by default in memory.
    """
    kubeconfig = folder / "kubeconfig"
    kept = ("--data", str(data)) if data is not None else ()
    command = (sys.executable, "-c", _KUBEWRIGHT, "up", "--bare", "--kubeconfig", str(kubeconfig), *kept)
    async with running(command, folder / "embedded.log") as usage:
        async with asyncio.timeout(_READY_WITHIN):
            while not kubeconfig.exists():  # noqa: ASYNC110 - another process writes the file
                await asyncio.sleep(_LOOK)
        async with _client(Config.from_kubeconfig(kubeconfig)) as rest:
            yield Server(ON_DISK if data is not None else EMBEDDED, rest, usage)


@asynccontextmanager
async def real() -> AsyncGenerator[Server]:
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
    """Run one repetition, and delete all objects."""
    names = [f"web-{number}" for number in range(LISTED)]
    some = [names[number % LISTED] for number in range(requests)]
    try:
        costs = {figure: await _cost(server, calls) for figure, calls in _cases(names, some).items()}
        return {**costs, "server_rss_mb": server.usage.rss / 1e6}
    finally:
        await _send(server, Call("DELETE", _PATH))


def _cases(names: Sequence[str], some: Sequence[str]) -> dict[str, list[Call]]:
    """Return the requests of each figure, in the order in which they are sent."""
    scaled = msgspec.json.encode({"spec": {"replicas": 3}})
    force = {"fieldManager": "kubewright-bench", "force": "true"}
    return {
        "create_us": [Call("POST", _PATH, deployment(name, "nginx:1.23.0")) for name in names],
        "get_us": [Call("GET", f"{_PATH}/{name}") for name in some],
        "merge_patch_us": [Call("PATCH", f"{_PATH}/{name}", scaled, _MERGE) for name in some],
        "apply_us": [
            Call("PATCH", f"{_PATH}/{name}", deployment(name, f"nginx:1.23.{number}"), _APPLY, force)
            for number, name in enumerate(some, start=1)
        ],
        "list_us": [Call("GET", _PATH)] * _LISTS,
    }


async def _cost(server: Server, calls: Sequence[Call]) -> float:
    """Return the server's CPU time per call, in microseconds."""
    before = server.usage.cpu
    await run_concurrently((_send(server, call) for call in calls), _AT_ONCE)
    await asyncio.sleep(_REST)
    return (server.usage.cpu - before) / len(calls) * 1e6


async def _send(server: Server, call: Call) -> None:
    await server.rest.request(call.method, call.path, call.query, body=call.body, content_type=call.content_type)


def deployment(name: str, image: str) -> bytes:
    """Return a small Deployment as JSON."""
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
