"""Calls of webhooks: over HTTPS with kept connections, or in this process.

Guarantees
    A call takes at most the webhook's timeout, and is given up when the request that caused it is.
    An answer of more than `_MAX_ANSWER` bytes, also after decompression, is an error. No proxy is used.
    A redirect that repeats the review (307, 308) is followed to the same server only. A real API server also follows
    it to others, and any other redirect without the review, which no webhook can answer.
    At most `_MAX_CALLS` calls of one webhook run at a time; others wait, within their timeout. So a webhook whose
    calls cause further calls of itself comes to an end.
    A large answer is read on the worker, where webhooks take turns with users.

Follows k8s.io/apiserver pkg/util/webhook/client.go and k8s.io/client-go/rest for the texts of errors.
"""

from __future__ import annotations

import asyncio
import binascii
import posixpath
import socket
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec

from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints.worker import LARGE, Steps, Worker
from kubewright_controlplane.apiserver.webhooks.services import ServiceNotReady, ServiceResolver

_MAX_ANSWER: Final = 16 * 1024 * 1024
_MAX_CALLS: Final = 100
_MAX_REQUESTS: Final = 10
"""The requests of one call, the first and its redirects."""
_MAX_CLIENTS: Final = 200
_MAX_QUOTED: Final = 2048
_IDLE_SECONDS: Final = 20.0
"""How long an unused connection is kept: less than servers usually keep it, since a call is not repeated."""
_HEADERS: Final = {
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": "kube-apiserver-admission",
}


class CallFailed(Exception):
    """A webhook could not be called, or did not answer with a success."""


class InvalidClientConfig(CallFailed):
    """The `clientConfig` of a webhook cannot be used."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where a webhook is called. Webhooks with the same endpoint share connections."""

    origin: str
    """`https://host[:port]`"""
    server_name: str
    address: tuple[str, int] | None
    """Where to connect to instead; None: to the origin."""
    ca: str
    """Certificates in base64; empty: those of the system."""


class WebhookClients:
    """Calls webhooks. `handlers` are those that run in this process, by host name (`hooks.test`, `name.ns.svc`)."""

    def __init__(self, services: ServiceResolver, handlers: Mapping[str, Handler], worker: Worker) -> None:
        self._services = services
        self._worker = worker
        self._handlers = handlers
        self._clients: OrderedDict[_Endpoint, HTTPClient] = OrderedDict()
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, config: JSONObject, timeout: int, body: bytes) -> bytes:
        """Send a review and return the body of the answer.

        `config` is the webhook's `clientConfig`. The call takes at most `timeout` seconds. Raises CallFailed.
        """
        origin, path = _target(config)
        target = f"{path}?timeout={timeout}s"
        request = Request("POST", target, dict(_HEADERS), body)
        try:
            async with asyncio.timeout(timeout):
                response = await self._follow(config, timeout, origin, request)
                answer = await response.read()
        except (ConnectionFailed, TimeoutError, ServiceNotReady) as error:
            raise CallFailed(f'Post "{origin}{target}": {reason_of(error)}') from error
        except ConfigError as error:
            raise InvalidClientConfig(f"could not get REST client: {error}") from error
        if not 200 <= response.status <= 206:
            raise CallFailed(_status_text(response.status, answer))
        if not answer:
            content_type = response.headers.get("content-type") or "application/json"
            raise CallFailed(f"0-length response with status code: {response.status} and content type: {content_type}")
        return answer

    def steps(self, webhook: str, size: int) -> Steps:
        """Return how steps run that read an answer of a webhook: on the worker if it is large."""
        steps = Steps(self._worker, f"webhook {webhook}")
        steps.are_large = size > LARGE
        return steps

    async def close(self) -> None:
        """Close all connections. Calls that run fail."""
        clients = list(self._clients.values())
        self._clients.clear()
        await asyncio.gather(*(each.close() for each in clients), *self._closing)

    async def _follow(self, config: JSONObject, timeout: int, origin: str, request: Request) -> Response:
        """Send a request, and send it again to where the server redirects it."""
        location = ""
        for _ in range(_MAX_REQUESTS):
            response = await self._send(config, timeout, origin, request)
            if response.status not in (307, 308) or not response.headers.get("location"):
                return response
            location = response.headers["location"]
            request = Request("POST", _redirected(origin, request.target, location), dict(_HEADERS), request.body)
        raise CallFailed(f'Post "{location}": stopped after {_MAX_REQUESTS} redirects')

    async def _send(self, config: JSONObject, timeout: int, origin: str, request: Request) -> Response:
        host = urlsplit(origin).hostname or ""
        handler = self._handlers.get(host)
        if handler is not None:
            return await self._call_here(host, handler, request)
        client = self._client(self._endpoint(config, origin))
        return await client.send(request, timeout=timeout)

    async def _call_here(self, host: str, handler: Handler, request: Request) -> Response:
        """Call a handler in this process, under the same limits as a connection."""
        async with self._turns.setdefault(host, asyncio.Semaphore(_MAX_CALLS)):
            try:
                response = await asyncio.ensure_future(handler(request))  # a stack of its own, as behind a connection
            except Exception as error:  # noqa: BLE001 -- a defect in a webhook is a failed call
                raise ConnectionFailed(f"its handler failed: {error!r}") from None
            if not isinstance(response.body, bytes):
                response.body = await _limited(response)
        if len(response.body) > _MAX_ANSWER:
            raise ConnectionFailed(f"its body has more than {_MAX_ANSWER} bytes")
        return response

    def _endpoint(self, config: JSONObject, origin: str) -> _Endpoint:
        service, ca = config.get("service"), config.get("caBundle") or ""
        if service is None:
            return _Endpoint(origin, urlsplit(origin).hostname or "", None, ca)
        address = self._services.resolve(service["namespace"], service["name"], service.get("port") or 443)
        return _Endpoint(origin, _server_name(service), address, ca)

    def _client(self, endpoint: _Endpoint) -> HTTPClient:
        client = self._clients.get(endpoint)
        if client is not None:
            self._clients.move_to_end(endpoint)
            return client
        client = self._clients[endpoint] = HTTPClient(
            endpoint.origin,
            ssl=client_context(endpoint.ca),
            server_name=endpoint.server_name,
            address=endpoint.address,
            connect_timeout=30.0,
            max_connections=_MAX_CALLS,
            idle_timeout=_IDLE_SECONDS,
            max_body=_MAX_ANSWER,
        )
        if len(self._clients) > _MAX_CLIENTS:
            self._drop_oldest()
        return client

    def _drop_oldest(self) -> None:
        _, client = self._clients.popitem(last=False)
        task = asyncio.create_task(client.close(), name="close webhook connections")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _limited(response: Response) -> bytes:
    """Return a streamed body, up to the limit and one byte."""
    found = bytearray()
    assert not isinstance(response.body, bytes)
    async for chunk in response.body:
        found += chunk[: _MAX_ANSWER + 1 - len(found)]
        if len(found) > _MAX_ANSWER:
            await response.aclose()
            break
    return bytes(found)


def _target(config: JSONObject) -> tuple[str, str]:
    """Return origin and path of a webhook. The path has no empty segments and no slash at its end."""
    service = config.get("service")
    if service is not None:
        port = service.get("port") or 443
        return f"https://{_server_name(service)}:{port}", _cleaned(service.get("path") or "")
    parts = urlsplit(config.get("url") or "")
    return f"{parts.scheme}://{parts.netloc}", _cleaned(parts.path)


def _cleaned(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _redirected(origin: str, target: str, location: str) -> str:
    """Return the target of a redirect. Raises CallFailed if it leads to another server."""
    own = urlsplit(origin)
    try:
        url = urlsplit(urljoin(origin + target, location))
        is_own = (url.scheme, url.hostname, url.port or 443) == (own.scheme, own.hostname, own.port or 443)
    except ValueError as error:
        raise CallFailed(f'Post "{origin}{target}": redirected to an invalid address: {error}') from None
    if not is_own:
        raise CallFailed(f'Post "{url.geturl()}": redirects to other servers are not followed; configure that address')
    return urlunsplit(("", "", url.path or "/", url.query, ""))


def _server_name(service: Mapping[str, str]) -> str:
    return f"{service['name']}.{service['namespace']}.svc"


def client_context(ca: str) -> ssl.SSLContext:
    """Return a TLS context that trusts these certificates. Raises ConfigError.

    As in Go, each of them is trusted itself, even one that is not an authority's: envtest has the webhook's own.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    if not ca:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cadata=binascii.a2b_base64(ca).decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError("unable to load root certificates: unable to parse bytes as PEM block") from error
    return context


def reason_of(error: Exception) -> str:
    """Return the reason of a failed call, as Go words it if a common one."""
    cause = error.__cause__
    if isinstance(error, TimeoutError) or isinstance(cause, TimeoutError):  # DeadlineExceeded is a TimeoutError
        return "context deadline exceeded"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_error(cause)}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup failed: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError):
        return "connect: connection refused"
    return str(error)


def _certificate_error(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 18 | 19 | 20 | 21:
            return "certificate signed by unknown authority"
        case 9 | 10:
            return "certificate has expired or is not yet valid"
        case _:
            return error.verify_message


def _status_text(code: int, body: bytes) -> str:
    """Return what client-go says about an answer that is not a success: the message of a Status, or its own."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and isinstance(status.get("message"), str):
        return str(status["message"])
    said = body[:_MAX_QUOTED].decode("utf-8", "replace").strip() or "unknown"
    if code == 403:
        return said
    quoted = msgspec.json.encode(said).decode()
    if code in _STATUS_TEXTS:
        return _STATUS_TEXTS[code]
    if code >= 500:
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


_STATUS_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to respond with a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
