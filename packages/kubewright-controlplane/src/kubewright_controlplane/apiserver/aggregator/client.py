"""Requests to extension servers, in the name of a user.

Guarantees
    The user of a request is the one that this server has authenticated, whatever headers the client sends.
    A response is streamed: a slow client slows its extension server down, and at most 256 KiB are kept between them.
    A head that takes longer than `_HEAD_SECONDS` is an error.

Follows k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go and k8s.io/client-go transport.NewAuthProxyRoundTripper.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Request, Response
from kubewright.http.tls import accept_any_server
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.aggregator.frontproxy import FrontProxy
from kubewright_controlplane.apiserver.forwarding import answered, forwarded
from kubewright_controlplane.apiserver.pki import load_pair
from kubewright_controlplane.apiserver.upgrading import Program, upgrade
from kubewright_controlplane.apiserver.user import UserInfo
from kubewright_controlplane.apiserver.webhooks.client import client_context
from kubewright_controlplane.apiserver.webhooks.services import ServiceResolver

_HEAD_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
_MAX_CLIENTS: Final = 200
_MAX_DOCUMENT: Final = 16 * 1024 * 1024
_TOKEN: Final = "!#$&'*+-.^_`|~"
"""What a header's name may contain in addition to letters and digits, without the percent sign that escapes others."""


@dataclass(frozen=True, slots=True)
class ExtensionServer:
    """Where the extension server of an APIService is, and how it is trusted."""

    namespace: str
    name: str
    port: int
    ca: str
    """Certificates in base64; empty: those of the system."""
    is_insecure: bool

    @classmethod
    def of(cls, spec: JSONObject) -> ExtensionServer:
        """Read the `spec` of an APIService that has a `service`."""
        service = spec["service"]
        return cls(
            service["namespace"],
            service["name"],
            service.get("port") or 443,
            spec.get("caBundle") or "",
            bool(spec.get("insecureSkipTLSVerify")),
        )

    @property
    def host(self) -> str:
        """The name in its certificate."""
        return f"{self.name}.{self.namespace}.svc"


class ExtensionClients:
    """Sends requests to extension servers. `handlers` are those that run in this process, by `<service>.<ns>.svc`.

    Every method raises ServiceNotReady if the Service has no endpoint, ConfigError for an invalid `caBundle`, and
    ConnectionFailed if no answer arrives.
    """

    def __init__(self, services: ServiceResolver, handlers: Mapping[str, Handler], front_proxy: FrontProxy) -> None:
        self._services = services
        self._handlers = handlers
        self._front_proxy = front_proxy
        self._clients: OrderedDict[tuple[ExtensionServer, tuple[str, int]], HTTPClient] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def address(self, server: ExtensionServer) -> tuple[str, int]:
        """Return host and port of one of the server's endpoints. Raises ServiceNotReady."""
        if server.host in self._handlers:
            return server.host, server.port
        return self._services.resolve(server.namespace, server.name, server.port)

    async def read(self, server: ExtensionServer, target: str, user: UserInfo, accept: str, seconds: float) -> Response:
        """Return the whole answer to a GET within `seconds`."""
        request = Request("GET", target, {"accept": accept})
        handler = self._handlers.get(server.host)
        if handler is not None:
            async with asyncio.timeout(seconds):
                response = await handler(_with_user(request, user))
                await response.read()
                return response
        client = self._client(server, self.address(server))
        return await client.send(request, headers=list(_user_headers(user)), timeout=seconds)

    async def forward(self, server: ExtensionServer, request: Request, user: UserInfo) -> Response:
        """Return the answer to a client's request as a stream."""
        sent = replace(request, headers=_forwarded(request))
        handler = self._handlers.get(server.host)
        if handler is not None:
            return await handler(_with_user(sent, user))
        address = self.address(server)
        user_headers = list(_user_headers(user))
        if request.upgrade:
            program = Program(urlsplit(_origin(address)).netloc, address, self._context(server), server.host)
            response = await upgrade(program, sent, user_headers, request.headers["upgrade"])
            return response if response.tunnel else replace(response, headers=_answered(response.headers))
        client = self._client(server, address)
        response = await client.send(sent, headers=user_headers, timeout=None, stream=request.method != "HEAD")
        return Response(response.status, _answered(response.headers), response.body)

    async def close(self) -> None:
        """Close all connections. Requests that run fail."""
        clients = list(self._clients.values())
        self._clients.clear()
        await asyncio.gather(*(each.close() for each in clients), *self._closing)

    def _client(self, server: ExtensionServer, address: tuple[str, int]) -> HTTPClient:
        found = self._clients.get((server, address))
        if found is not None:
            self._clients.move_to_end((server, address))
            return found
        made = self._clients[server, address] = HTTPClient(
            _origin(address),
            ssl=self._context(server),
            server_name=server.host,
            address=address,
            timeout=_HEAD_SECONDS,
            connect_timeout=_CONNECT_SECONDS,
            max_body=_MAX_DOCUMENT,
        )
        if len(self._clients) > _MAX_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            task = asyncio.create_task(oldest.close(), name="close connections to extension servers")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return made

    def _context(self, server: ExtensionServer) -> ssl.SSLContext:
        context = client_context(server.ca)
        if server.is_insecure:
            accept_any_server(context)
        load_pair(context, self._front_proxy.pair)
        return context


def _origin(address: tuple[str, int]) -> str:
    host, port = address
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _forwarded(request: Request) -> dict[str, str]:
    """Return the headers of a client's request as an extension server gets them, without those of a user."""
    return {name: value for name, value in forwarded(request).items() if not name.startswith("x-remote-")}


def _answered(headers: Mapping[str, str]) -> dict[str, str]:
    return {"cache-control": "no-cache, private", **answered(headers)}


def _user_headers(user: UserInfo) -> Iterator[tuple[str, str]]:
    yield "x-remote-user", user.name
    if user.uid:
        yield "x-remote-uid", user.uid
    for group in user.groups:
        yield "x-remote-group", group
    for key, values in user.extra.items():
        name = f"x-remote-extra-{quote(key, safe=_TOKEN)}"
        for value in values:
            yield name, value


def _with_user(request: Request, user: UserInfo) -> Request:
    """Return a request with the headers of its user. As in `Request`, the values of a repeated header are joined."""
    headers = dict(request.headers)
    for name, value in _user_headers(user):
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return replace(request, headers=headers)
