"""The door to the network: what a client sends its requests through.

`HTTPTransport` speaks to a real server as a `Config` says: address, TLS, credentials, retries. `HandlerTransport`
calls an API server in the same process. A test wraps either: a transport has two methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeAlias

from kubewright.client.config import Config
from kubewright.http.message import Handler, Peer, Request, Response
from kubewright.machinery.errors import DeadlineExceeded

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
    """Sends requests to the server of a `Config`, with its credentials."""

    def __init__(self, config: Config, *, user_agent: str = "kubewright", observer: Observer | None = None) -> None: ...

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        raise NotImplementedError

    async def close(self) -> None: ...


class HandlerTransport:
    """Calls `handler` in this process, as `peer`: no socket, no TLS, the same bytes."""

    def __init__(self, handler: Handler, *, peer: Peer | None = None) -> None:
        self._handler = handler
        self._peer = peer or Peer()

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        arrived = Request(request.method, request.target, request.headers, request.body, self._peer)
        try:
            async with asyncio.timeout(timeout):
                response = await self._handler(arrived)
                if not stream:
                    await response.read()
        except TimeoutError as error:
            raise DeadlineExceeded(f"{request.method} {request.path}: no answer within {timeout:g} s") from error
        if timeout is not None and not isinstance(response.body, bytes):
            response.body = _bounded(response.body, timeout)
        return response

    async def close(self) -> None:
        """Nothing to close: the handler is its owner's."""


async def _bounded(body: AsyncIterator[bytes], silence: float) -> AsyncIterator[bytes]:
    """`body`, given up when a chunk lets itself be waited for more than `silence` seconds."""
    try:
        while True:
            try:
                async with asyncio.timeout(silence):
                    chunk = await anext(body)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise DeadlineExceeded(f"the stream was silent for {silence:g} s") from error
            yield chunk
    finally:
        await Response(200, body=body).aclose()
