"""The sockets of a DNS server, for UDP and TCP.

What answers queries is imported with the first one, because few clusters ever get a query.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Service
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.cache._store import Lister

if TYPE_CHECKING:
    from kubewright_controlplane.dns.answers import Answers

Client: TypeAlias = tuple[str, int]

_PENDING: Final = 1_000
"""The queries that are answered at the same time. Further ones are dropped, and clients repeat them."""
_CONNECTIONS: Final = 32
"""Connections over TCP. A further one replaces the oldest."""
_IDLE_SECONDS: Final = 10.0
_log = get_logger("kubewright.dns")


class NameServer:
    """Answers queries at one address, from cached Services and EndpointSlices."""

    def __init__(
        self,
        host: str,
        port: int,
        services: Lister[Service],
        slices: Lister[EndpointSlice],
        *,
        resolvers: Path = Path("/etc/resolv.conf"),
    ) -> None:
        self.host = host
        self.port = port
        self._services = services
        self._slices = slices
        self._resolvers = resolvers
        self._answers: Answers | None = None
        self._loading: asyncio.Task[Answers] | None = None
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[asyncio.Task[None], None] = {}
        """The oldest is the first."""
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Listen. Raises OSError if the port can't be opened."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), local_addr=(self.host, self.port)
        )
        try:
            self._server = await asyncio.start_server(self._accept, self.host, self.port)
        except OSError:
            self._transport.close()
            raise

    async def close(self) -> None:
        """Stop listening, and end all queries."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        if self._loading is not None:
            self._loading.cancel()
        tasks = [*self._tasks, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def received(self, query: bytes, client: Client) -> None:
        """Answer a datagram."""
        transport = self._transport
        if transport is None or len(self._tasks) >= _PENDING:
            return
        task = asyncio.create_task(self._answer_datagram(query, client, transport), name="DNS query")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_datagram(self, query: bytes, client: Client, transport: asyncio.DatagramTransport) -> None:
        answer = await self._answer(query, is_tcp=False)
        if answer and not transport.is_closing():
            transport.sendto(answer, client)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        task = asyncio.create_task(self._serve(reader, writer), name="DNS connection")
        self._connections[task] = None
        task.add_done_callback(lambda ended: self._connections.pop(ended, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                async with asyncio.timeout(_IDLE_SECONDS):
                    size = int.from_bytes(await reader.readexactly(2))
                    query = await reader.readexactly(size)
                answer = await self._answer(query, is_tcp=True)
                if not answer:
                    return
                writer.write(len(answer).to_bytes(2) + answer)
                async with asyncio.timeout(_IDLE_SECONDS):
                    await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass  # the client has gone, or is silent
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _answer(self, query: bytes, *, is_tcp: bool) -> bytes:
        """Return the answer to a query; nothing if it can't be understood."""
        async with self._turn:  # others are served between two queries, however many have arrived together
            await asyncio.sleep(0)
        if self._answers is None:
            self._answers = await self._load()
        try:
            return await self._answers.answer(query, is_tcp=is_tcp)
        except Exception:  # noqa: BLE001 -- a defect in one query must not affect others
            _log.exception("DNS query failed")
            return b""

    async def _load(self) -> Answers:
        if self._loading is None:
            self._loading = asyncio.create_task(self._create_answers(), name="DNS import")
        return await asyncio.shield(self._loading)

    async def _create_answers(self) -> Answers:
        answers = await asyncio.to_thread(_import_answers)
        return answers(self._services, self._slices, self.host, self._resolvers)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: Client) -> None:
        self._server.received(data, addr)


def _import_answers() -> type[Answers]:
    from kubewright_controlplane.dns.answers import Answers

    return Answers
