"""The connection through which a client sends requests to an API server.

`HTTPTransport` sends requests to the server of a `Config`: address, TLS, credentials. `HandlerTransport` calls an API
server in the same process. Both implement the guarantees of `Transport`: timeouts, errors and retries. `Propagating`
adds the trace context. Wrap a transport to record or change requests: it has two methods.

A request is retried when Kubernetes requests it, and never if it could take effect twice:

- after 429 with Retry-After, any request, because the server has not acted on it;
- after a 5xx with Retry-After or a failed connection, only idempotent requests that do not change the protocol.

All attempts share the timeout of the request. Retries follow k8s.io/client-go/rest (with_retry.go), with additional
jitter, so that clients with the same Retry-After do not retry at the same moment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from random import random
from ssl import SSLContext
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote

from msgspec.structs import replace

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.client._auth import Credential, credentials_of, pair_of
from kubewright.client._config import Config, Impersonation
from kubewright.client._tls import ClientTLS, KeyPair
from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Peer, Request, Response
from kubewright.http.proxy import proxy_for
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded

TIMEOUT: Final = 60.0
"""Default timeout in seconds for a request and its answer. An API server uses the same limit."""

MAX_ANSWER: Final = 1 << 30
"""Default limit of a whole answer in bytes. A list of 100,000 Pods in one answer has about half of it."""

_MOST_RETRIES: Final = 10
"""The maximum number of retries that the server requests."""
_MOST_RETRIES_AFTER_LOSS: Final = 3
"""The maximum number of retries after failed connections."""
_LOSS_DELAY: Final = 0.1
"""Seconds before the first retry after a failed connection, with 50 % jitter; doubled for each retry."""
_LONGEST_DELAY: Final = 60.0
"""The longest Retry-After in seconds. If the server requests more, the caller gets the answer instead."""

Observer: TypeAlias = Callable[[str, str, str], None]
"""Called for each sent request with code (`"200"`, or `"<error>"` without an answer), method and host."""

Send: TypeAlias = Callable[[Request, float | None, bool], Awaitable[Response]]
"""Sends a request once. Takes a timeout (None: `TIMEOUT`) and whether to stream the answer."""


class Transport(Protocol):
    """Sends requests to an API server. All network access of a client goes through a transport."""

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """Return the response to `request`, whatever its status.

        With `stream=False`, the body is bytes, and all of it arrives within `timeout` seconds (None: a minute).
        With `stream=True`, the body is an iterator of chunks. Read it to its end or call `Response.aclose`. `timeout`
        is then the longest silence before the head and before each chunk; None limits only the wait for the head, to a
        minute.

        Raises ConnectionFailed if no answer arrives, and DeadlineExceeded if it arrives too late. Iterating over a
        streamed body raises both, too. The module's docstring describes retries. A stream is retried only before its
        head has arrived.
        """
        ...

    async def close(self) -> None:
        """Close every connection, including those of streams."""
        ...


async def send_with_retries(
    once: Send, request: Request, *, timeout: float | None, stream: bool, clock: Clock
) -> Response:
    """Send a request by `once`, with the retries that Kubernetes requests, all within `timeout`."""
    until = clock.monotonic() + (timeout or TIMEOUT)
    left, attempt = timeout, 0
    while True:
        attempt += 1
        try:
            response = await once(request, left, stream)
        except ConnectionFailed:
            delay = _delay_after_loss(request, attempt)
            if delay is None or clock.monotonic() + delay >= until:
                raise
        else:
            if response.status < 300:
                return response
            delay = _delay_after_answer(request, response, attempt)
            if delay is None or clock.monotonic() + delay >= until:
                return response
            await response.aclose()
        await clock.sleep(delay)
        left = timeout if stream else until - clock.monotonic()


def _delay_after_answer(request: Request, response: Response, attempt: int) -> float | None:
    """Return the seconds before a retry after the answer to attempt number `attempt`; None: do not retry."""
    status = response.status
    if attempt > _MOST_RETRIES or not (status == 429 or (status >= 500 and request.is_repeatable)):
        return None
    asked = response.headers.get("retry-after", "")
    if not (asked.isascii() and asked.isdigit()):
        return None  # nothing, or a date, which no API server sends
    delay = float(asked)
    return delay * (1 + random() / 4) if delay <= _LONGEST_DELAY else None


def _delay_after_loss(request: Request, attempt: int) -> float | None:
    """Return the seconds before a retry after a failed connection in attempt number `attempt`; None: do not retry."""
    if attempt > _MOST_RETRIES_AFTER_LOSS or not request.is_repeatable:
        return None
    return _LOSS_DELAY * 2.0**attempt * (0.5 + random())


class HTTPTransport:
    """Sends requests to the server of a `Config`, with its credentials.

    After 401, the credentials are renewed and the request is retried once, because a token or the files of a client
    certificate may have been replaced. `observer` is called for every sent request. `max_answer` limits the bytes of an
    answer that is not streamed; a larger one is an error.
    """

    def __init__(
        self,
        config: Config,
        *,
        observer: Observer | None = None,
        clock: Clock | None = None,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        """Raises ConfigError if a part of `config` is not usable. Sends nothing."""
        self._config = config
        self._max_answer = max_answer
        self._observer = observer
        self._clock = clock or SystemClock()
        self._pair = pair_of(config)
        self._credentials = credentials_of(config, self._pair, self._clock)
        self._tls = self._secure()
        self._context: SSLContext | None = None
        """The certificate of the current client's first connections. Later connections may use a newer one."""
        self._client = self._connect()
        self._retired: HTTPClient | None = None

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """Send a request, and return the response: see `Transport`."""
        return await send_with_retries(self._send, request, timeout=timeout, stream=stream, clock=self._clock)

    async def _send(self, request: Request, timeout: float | None, stream: bool) -> Response:
        """Send a request with the current credentials. If they are rejected, retry with new ones."""
        renewed = False
        while True:
            credential = self._credentials.fresh() or await self._credentials.get()
            if credential.pair is not self._pair:
                await self._change_pair(credential.pair)
            client = self._client
            code = "<error>"  # the value in client-go's metrics
            try:
                response = await client.send(
                    request, authorization=credential.authorization, timeout=timeout, stream=stream
                )
                code = str(response.status)
            finally:
                if self._observer is not None:
                    self._observer(code, request.method, client.where)
            if response.status != 401 or renewed or not await self._renew(credential, client):
                return response
            renewed = True
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
        if self._retired is not None:
            await self._retired.close()

    async def _renew(self, refused: Credential, client: HTTPClient) -> bool:
        """Return whether there are new credentials after the server rejected those of `client`."""
        if await self._credentials.renew(refused):
            return True
        if client is self._client and self._tls is not None and self._tls.context() is not self._context:
            await self._reconnect()
        return client is not self._client

    def _secure(self) -> ClientTLS | None:
        return ClientTLS(self._config, self._pair) if self._config.server.startswith("https:") else None

    def _connect(self) -> HTTPClient:
        config = self._config
        self._context = self._tls.context() if self._tls is not None else None
        return HTTPClient(
            config.server,
            ssl=self._tls.context if self._tls is not None else None,
            server_name=config.tls_server_name,
            proxy=config.proxy_url or proxy_for(config.server, os.environ),
            headers=_impersonation(config.impersonate),
            timeout=TIMEOUT,
            max_body=self._max_answer,
        )

    async def _change_pair(self, pair: KeyPair | None) -> None:
        """Use another client certificate for new connections."""
        self._pair = pair
        self._tls = self._secure()
        await self._reconnect()

    async def _reconnect(self) -> None:
        """Open new connections. Requests on the previous connections may finish until the next call."""
        oldest, self._retired, self._client = self._retired, self._client, self._connect()
        if oldest is not None:
            await oldest.close()


class HandlerTransport:
    """Calls `handler` in this process, as `peer`, without a socket or TLS, with the same bytes."""

    def __init__(self, handler: Handler, *, peer: Peer | None = None, clock: Clock | None = None) -> None:
        self._handler = handler
        self._peer = peer or Peer()
        self._clock = clock or SystemClock()

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """Send a request, and return the response: see `Transport`."""
        return await send_with_retries(self._send, request, timeout=timeout, stream=stream, clock=self._clock)

    async def _send(self, request: Request, timeout: float | None, stream: bool) -> Response:
        if request.fence is not None:
            request.fence()
        arrived = Request(request.method, request.target, request.headers, request.body, self._peer)
        allowed = timeout or TIMEOUT
        limit = asyncio.timeout(allowed)
        try:
            async with limit:
                response = await self._handler(arrived)
                if not stream:
                    await response.read()
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineExceeded(f"{request.method} {request.path}: no answer within {allowed:g} s") from error
            raise ConnectionFailed(f"{request.method} {request.path}: the handler failed: {error!r}") from error
        if stream and timeout is not None and not isinstance(response.body, bytes):
            response.body = _Bounded(response.body, timeout)
        return response

    async def close(self) -> None:
        """Do nothing. The creator of the handler closes it."""


class _Bounded(AsyncIterator[bytes]):
    """A body that raises DeadlineExceeded if no chunk arrives for `silence` seconds."""

    def __init__(self, body: AsyncIterator[bytes], silence: float) -> None:
        self._body = body
        self._silence = silence

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await anext(self._body)
        except TimeoutError as error:
            await self.aclose()
            raise DeadlineExceeded(f"the stream was silent for {self._silence:g} s") from error

    async def aclose(self) -> None:
        await Response(200, body=self._body).aclose()


class Propagating:
    """A transport that sends `traceparent` (and `tracestate`) with each request for which a span is active.

        client = Client(transport=Propagating(HTTPTransport(Config.load())))

    Needs the extra `otel`. A Manager with a tracer provider uses it for its requests.

    Source: https://www.w3.org/TR/trace-context/ and
    https://kubernetes.io/docs/concepts/cluster-administration/system-traces/
    """

    def __init__(self, transport: Transport) -> None:
        """Raises ConfigError if OpenTelemetry is not installed."""
        try:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: pip install 'kubewright[otel]'") from error
        self._propagator = TraceContextTextMapPropagator()
        self._transport = transport

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """Send a request, and return the response: see `Transport`."""
        context: dict[str, str] = {}
        self._propagator.inject(context)
        if context:
            request = replace(request, headers={**request.headers, **context})
        return await self._transport.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


def _impersonation(user: Impersonation | None) -> list[tuple[str, str]]:
    """Return the impersonation headers. Each group has its own header, because group names may contain commas.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
    """
    if user is None:
        return []
    lines = [("impersonate-user", user.user)]
    if user.uid:
        lines.append(("impersonate-uid", user.uid))
    lines += [("impersonate-group", group) for group in user.groups]
    for key, values in user.extra.items():
        lines += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
    return lines
