"""`pods/proxy`, `services/proxy` and `nodes/proxy`: HTTP requests that the server passes on to a program or a kubelet.

The name may contain a port and a scheme: `web`, `web:8080`, `web:http`, `https:web:8443`. Only Pods that run as
processes get requests, because other addresses may belong to machines that a client must not reach. TLS certificates
are not verified. A request may change the protocol of its connection, to WebSocket for example.

Follows k8s.io/apimachinery pkg/util/proxy, and k8s.io/kubernetes pkg/registry/core/pod and pkg/registry/core/service.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Request, Response
from kubewright.http.tls import accept_any_server
from kubewright.machinery.errors import (
    BadRequest,
    ConfigError,
    ConnectionFailed,
    DeadlineExceeded,
    ServiceUnavailable,
)
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import upgrading
from kubewright_controlplane.apiserver.forwarding import answered, forwarded
from kubewright_controlplane.apiserver.kinds.core.podsubresources import unsupported
from kubewright_controlplane.apiserver.kinds.generic import existing
from kubewright_controlplane.apiserver.registry.model import Attributes, Connection
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.services import ServiceNotReady, ServiceResolver, process_target

_SEGMENTS: Final = 8
"""The parts of a path up to `proxy`: `/api/v1/namespaces/default/services/web/proxy`."""
_NODE_SEGMENTS: Final = 6
"""The same: `/api/v1/nodes/one/proxy`."""


class Program(NamedTuple):
    """A program that a name leads to."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


class _Parts(NamedTuple):
    """The parts of a name in the path."""

    scheme: str
    name: str
    port: str

    @classmethod
    def of(cls, name: str, what: str) -> _Parts:
        match name.split(":"):
            case [only]:
                found = cls("http", only, "")
            case [first, port]:
                found = cls("http", first, port)
            case [scheme, second, port]:
                found = cls(scheme or "http", second, port)
            case _:
                raise BadRequest(f'invalid {what} request "{name}"')
        if not found.name or found.scheme not in ("http", "https"):
            raise BadRequest(f'invalid {what} request "{name}"')
        return found


@dataclass(frozen=True, kw_only=True)
class _Proxy(Connection):
    verbs: tuple[str, ...] = ("create", "delete", "get", "patch", "update")
    methods: tuple[str, ...] = ("OPTIONS",)
    resources: ResourceSet

    def find(self, attributes: Attributes) -> Program:
        """Return the program to ask."""
        raise NotImplementedError

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        parts = request.path.split("/", _SEGMENTS)
        if len(parts) <= _SEGMENTS and request.method in ("GET", "HEAD"):
            return Response(301, {"location": f"{request.path}/{_query(request)}"})
        program = self.find(attributes)
        path = f"/{parts[_SEGMENTS]}" if len(parts) > _SEGMENTS else "/"
        sent = replace(request, target=f"{path}{_query(request)}", headers=forwarded(request))
        try:
            if request.upgrade:
                return await _upgrade(program, sent, request.headers["upgrade"])
            return await _ask(program, sent, "/".join(parts[:_SEGMENTS]))
        except (ConnectionFailed, DeadlineExceeded, ConfigError, ValueError) as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from error


class PodProxy(_Proxy):
    """Passes a request on to a Pod, by default to its first port."""

    def find(self, attributes: Attributes) -> Program:
        parts = _Parts.of(attributes.name, "pod")
        pod = existing(self.resources, "pods", parts.name, attributes.namespace)
        port = parts.port or _first_port(pod) or ("443" if parts.scheme == "https" else "80")
        if not port.isdecimal():
            raise BadRequest(f'invalid pod request "{attributes.name}"')
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            raise BadRequest("address not allowed")
        target = process_target(address, int(port))
        if target is None:
            raise unsupported("proxy", attributes, f': pod "{parts.name}" is simulated, no process runs in it')
        return Program(parts.scheme, *target)


class ServiceProxy(_Proxy):
    """Passes a request on to a ready endpoint of a Service."""

    def find(self, attributes: Attributes) -> Program:
        parts = _Parts.of(attributes.name, "service")
        existing(self.resources, "services", parts.name, attributes.namespace)
        services = ServiceResolver(self.resources)
        try:
            return Program(parts.scheme, *services.resolve_pod(attributes.namespace, parts.name, parts.port))
        except ServiceNotReady as error:
            raise ServiceUnavailable(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class NodeProxy(Connection):
    """Passes a request on to the kubelet of a node, which has the logs and sessions of the Pods that are processes."""

    verbs: tuple[str, ...] = ("create", "delete", "get", "patch", "update")
    methods: tuple[str, ...] = ("OPTIONS",)
    resources: ResourceSet
    kubelet: Handler | None

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        node = _Parts.of(attributes.name, "node").name
        existing(self.resources, "nodes", node, "")
        if self.kubelet is None:
            raise unsupported("proxy", attributes, f': node "{node}" is simulated, no Pod runs on it')
        path = "".join(f"/{part}" for part in request.path.split("/")[_NODE_SEGMENTS:]) or "/"
        return await self.kubelet(replace(request, target=f"{path}{_query(request)}"))


async def _upgrade(program: Program, request: Request, protocol: str) -> Response:
    context = _unverified() if program.scheme == "https" else None
    where = upgrading.Program(f"{program.host}:{program.port}", (program.host, program.port), context, program.host)
    response = await upgrading.upgrade(where, request, (), protocol)
    return response if response.tunnel else replace(response, headers=answered(response.headers))


async def _ask(program: Program, request: Request, prefix: str) -> Response:
    """Return the answer as a stream. Its redirects lead through the proxy."""
    client = HTTPClient(program.origin, ssl=_unverified() if program.scheme == "https" else None)
    try:
        response = await client.send(request, stream=request.method != "HEAD")
    except BaseException:
        await client.close()
        raise
    headers = _answered(response.headers, program.origin, prefix)
    if isinstance(response.body, bytes):
        await client.close()
        return Response(response.status, headers, response.body)
    return Response(response.status, headers, _closing(response, client))


async def _closing(response: Response, client: HTTPClient) -> AsyncIterator[bytes]:
    """Yield the body, and close the connection at its end."""
    try:
        if not isinstance(response.body, bytes):
            async for chunk in response.body:
                yield chunk
    finally:
        await response.aclose()
        await client.close()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    accept_any_server(context)
    return context


def _first_port(pod: JSONObject) -> str:
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
    return next((str(each["containerPort"]) for each in ports), "")


def _query(request: Request) -> str:
    return f"?{request.query}" if request.query else ""


def _answered(headers: Mapping[str, str], origin: str, prefix: str) -> dict[str, str]:
    kept = answered(headers)
    location = kept.get("location", "")
    if location.startswith(f"{origin}/") or (location.startswith("/") and not location.startswith("//")):
        parts = urlsplit(location)
        kept["location"] = f"{prefix}{parts.path}" + (f"?{parts.query}" if parts.query else "")
    return kept
