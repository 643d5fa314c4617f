"""The door to the network: what a client sends its requests through.

`HTTPTransport` speaks to a real server as a `Config` says: address, TLS, credentials, retries. `HandlerTransport`
calls an API server in the same process. A test wraps either: a transport has two methods.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from ssl import SSLContext
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.client._auth import credentials_of, pair_of
from kubewright.client._config import Config, Impersonation
from kubewright.client._credentials import Credential
from kubewright.client._retry import delay_after_answer, delay_after_loss
from kubewright.client._tls import ClientTLS, KeyPair
from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Peer, Request, Response
from kubewright.http.proxy import proxy_for
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded

_TIMEOUT: Final = 60.0
"""Seconds for a request and its answer where the caller names none: an API server gives up after as many itself."""

Observer: TypeAlias = Callable[[str, str, str], None]
"""Told of each request that was sent: code (`"200"`, or `"<error>"` when no answer came), method, host."""


class Transport(Protocol):
    """The only door to the network."""

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        """The response to `request`, whatever its status.

        Whole (`stream` false): the body is bytes, and all of it came within `timeout` seconds (None: a minute).
        Streamed: the body is an iterator of chunks as they come; read it to its end or call `Response.aclose`.
        `timeout` is then the longest silence: before the head, and before each chunk; None bounds the wait for the
        head alone.

        ConnectionFailed when no answer came, DeadlineExceeded when it came too late; a streamed body raises them too.
        """
        ...

    async def close(self) -> None:
        """Close every connection, streams too."""
        ...


class HTTPTransport:
    """Sends requests to the server of a `Config`: with its credentials, and again where Kubernetes asks for that.

    A request is sent again after 429 with Retry-After, and if it is idempotent after a 5xx with Retry-After and after
    a connection that failed; all within `timeout`. After 401 credentials are renewed, once: a token, or a client
    certificate whose files have changed. A stream that has begun is never begun again. `observer` is told of every
    sending.
    """

    def __init__(self, config: Config, *, observer: Observer | None = None, clock: Clock | None = None) -> None:
        """ConfigError when something of `config` cannot be used; nothing is sent yet."""
        self._config = config
        self._observer = observer
        self._clock = clock or SystemClock()
        self._pair = pair_of(config)
        self._credentials = credentials_of(config, self._pair, self._clock)
        self._tls = self._secure()
        self._context: SSLContext | None = None
        """Of the first connections of the present client: later ones may have a newer one."""
        self._client = self._connect()
        self._retired: HTTPClient | None = None

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        allowed = timeout or _TIMEOUT
        until = self._clock.monotonic() + allowed
        attempt, renewed = 0, False
        while True:
            attempt += 1
            credential = self._credentials.fresh() or await self._credentials.get()
            if credential.pair is not self._pair:
                await self._change_pair(credential.pair)
            client = self._client
            left = timeout if stream or attempt == 1 else until - self._clock.monotonic()
            code = "<error>"  # as client-go's metrics have it
            try:
                response = await client.send(
                    request, authorization=credential.authorization, timeout=left, stream=stream
                )
                code = str(response.status)
            except ConnectionFailed:
                delay = delay_after_loss(request, attempt)
                if delay is None or self._clock.monotonic() + delay >= until:
                    raise
            else:
                if response.status < 300:
                    return response
                if response.status == 401 and not renewed and await self._renew(credential, client):
                    renewed, delay = True, 0.0
                else:
                    delay = delay_after_answer(request, response, attempt)
                if delay is None or self._clock.monotonic() + delay >= until:
                    return response
                await response.aclose()
            finally:
                if self._observer is not None:
                    self._observer(code, request.method, client.where)
            await self._clock.sleep(delay)

    async def close(self) -> None:
        await self._client.close()
        if self._retired is not None:
            await self._retired.close()

    async def _renew(self, refused: Credential, client: HTTPClient) -> bool:
        """Whether there is another way to say who we are than the one in which `client` was refused."""
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
            timeout=_TIMEOUT,
        )

    async def _change_pair(self, pair: KeyPair | None) -> None:
        """Use another client certificate: on new connections."""
        self._pair = pair
        self._tls = self._secure()
        await self._reconnect()

    async def _reconnect(self) -> None:
        """Leave all connections. What is under way may end, until the next time."""
        oldest, self._retired, self._client = self._retired, self._client, self._connect()
        if oldest is not None:
            await oldest.close()


class HandlerTransport:
    """Calls `handler` in this process, as `peer`: no socket, no TLS, the same bytes."""

    def __init__(self, handler: Handler, *, peer: Peer | None = None) -> None:
        self._handler = handler
        self._peer = peer or Peer()

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        if request.fence is not None:
            request.fence()
        arrived = Request(request.method, request.target, request.headers, request.body, self._peer)
        try:
            async with asyncio.timeout(timeout):
                response = await self._handler(arrived)
                if not stream:
                    await response.read()
        except TimeoutError as error:
            raise DeadlineExceeded(f"{request.method} {request.path}: no answer within {timeout:g} s") from error
        if timeout is not None and not isinstance(response.body, bytes):
            response.body = _Bounded(response.body, timeout)
        return response

    async def close(self) -> None:
        """Nothing to close: the handler is its owner's."""


class _Bounded(AsyncIterator[bytes]):
    """`body`, given up when a chunk lets itself be waited for more than `silence` seconds."""

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


def _impersonation(whom: Impersonation | None) -> list[tuple[str, str]]:
    """The headers that ask to act as somebody else; one line a group, since names of groups may have commas.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
    """
    if whom is None:
        return []
    lines = [("impersonate-user", whom.user)]
    if whom.uid:
        lines.append(("impersonate-uid", whom.uid))
    lines += [("impersonate-group", group) for group in whom.groups]
    for key, values in whom.extra.items():
        lines += [(f"impersonate-extra-{quote(key.lower(), safe='')}", value) for value in values]
    return lines
