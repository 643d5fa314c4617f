"""Faults between an operator and its API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from ssl import SSLContext

from kubewright import Config
from kubewright.client._tls import client_context
from kubewright.http.client import HTTPClient
from kubewright.http.message import PipeBroken, Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConnectionFailed
from kubewright.testing import failure

READS, WRITES = {"GET"}, {"POST", "PUT", "PATCH", "DELETE"}

_HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding"}


class Gate:
    """Forwards requests to the API server of a config.

    If `answer` returns a response for a request, the request is not forwarded. If `loses` returns true, the request is
    forwarded and its answer is dropped. If `cuts` returns true, only half of the answer is passed on. Every answer is
    delayed by `delay` seconds, and watch events are delayed by `lag` seconds.
    """

    def __init__(self, config: Config, tls: SSLContext | None) -> None:
        self._client = HTTPClient(config.server, ssl=client_context(config, None), max_connections=200)
        self._server = Server(self._handle, ssl=tls)
        self.answer: Callable[[Request], Response | None] = lambda _: None
        self.loses: Callable[[Request], bool] = lambda _: False
        self.cuts: Callable[[Request], bool] = lambda _: False
        self.delay = 0.0
        self.lag = 0.0
        self.requests = 0
        self.writes = 0
        """The number of write requests, without renewals of a Lease."""
        self.codes = Counter[int]()
        """The number of answers by status."""

    async def start(self) -> int:
        """Listen. Returns the port."""
        await self._server.start()
        return self._server.port

    async def close(self) -> None:
        await self._server.close()
        await self._client.close()

    async def _handle(self, request: Request) -> Response:
        self.requests += 1
        self.writes += request.method != "GET" and "/leases" not in request.path
        answered = self.answer(request)
        if answered is not None:
            return answered
        passed = Request(request.method, request.target, _end_to_end(request.headers), request.body)
        try:
            response = await self._client.send(passed, stream="watch=true" in request.query)
        except ConnectionFailed:
            return Response(502)
        self.codes[response.status] += 1
        await asyncio.sleep(self.delay)
        if self.loses(request):
            await response.aclose()
            return Response(504)
        body = response.body
        if self.cuts(request):
            await response.aclose()
            body = _half(body if isinstance(body, bytes) else b"{}")
        elif not isinstance(body, bytes):
            body = self._late(body)
        return Response(response.status, _end_to_end(response.headers), body)

    async def _late(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for chunk in body:
                await asyncio.sleep(self.lag)
                yield chunk
        except ConnectionFailed as error:
            raise PipeBroken("the server's end broke") from error


class Line:
    """A TCP connection between an operator and the gate that can be reset, down or silent."""

    def __init__(self) -> None:
        self._writers: set[asyncio.StreamWriter] = set()
        self._moving = asyncio.Event()
        self._moving.set()
        self.connections = 0
        self._up = True
        self._far_port = 0
        self._listener: asyncio.Server | None = None

    async def start(self, far_port: int) -> int:
        """Listen, and forward to `far_port`. Returns the port."""
        self._far_port = far_port
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self.cut()
        assert self._listener is not None
        self._listener.close()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    def go_down(self) -> None:
        """Reset all connections, including new ones."""
        self._up = False
        self.cut()

    def come_up(self) -> None:
        self._up = True

    def fall_silent(self) -> None:
        """Hold back all data, in both directions."""
        self._moving.clear()

    def speak(self) -> None:
        """Forward the data that was held back, and new data."""
        self._moving.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self._up:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far_port)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._move(reader, far_writer), self._move(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _move(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._moving.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()


async def _half(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    raise PipeBroken("cut on purpose")


@asynccontextmanager
async def between(
    config: Config, *, tls: SSLContext | None = None, ca: Path | None = None
) -> AsyncIterator[tuple[Config, Line, Gate]]:
    """Access to the same API server as the same user, through a line and a gate.

    With `tls`, the gate has that certificate, which clients with `ca` trust.
    """
    gate, line = Gate(config, tls), Line()
    port = await line.start(await gate.start())
    scheme = "http" if tls is None else "https"
    yield replace(config, server=f"{scheme}://127.0.0.1:{port}", ca=ca), line, gate
    await line.close()
    await gate.close()


def _end_to_end(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}


def failing(
    code: int, reason: str, headers: dict[str, str] | None = None, *, methods: set[str] = READS | WRITES
) -> Callable[[Request], Response | None]:
    """Return an answer for a `Gate`: this failure, for requests with these methods."""
    return lambda request: failure(code, reason, headers=headers) if request.method in methods else None
