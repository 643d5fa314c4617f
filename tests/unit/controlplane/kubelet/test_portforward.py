"""Port forwarding: what one client may cost others."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kubewright.http.spdy import DICTIONARY, Connection
from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.kubelet.portforward import PortForward

HOST = "127.0.0.1"


class _Client:
    """A client of SPDY."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)
        self._opened = -1
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.refused = asyncio.Event()

    def connect(self, number: int, port: int) -> None:
        for kind in ("error", "data"):
            self.open(kind, number, port)

    def open(self, kind: str, number: int, port: int) -> None:
        self._opened += 2
        headers = {"streamtype": kind, "port": str(port), "requestid": str(number)}
        words = [word.encode() for pair in headers.items() for word in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(each)) + each for each in words)
        packed = self._pack.compress(block) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIH", self._opened, 0, 0) + packed
        self._sent.put_nowait(struct.pack(">HHI", 0x8003, 1, len(body)) + body)

    def reset(self) -> None:
        """Cancel the stream that was opened last."""
        self._sent.put_nowait(struct.pack(">HHIII", 0x8003, 3, 8, self._opened, 5))

    def leave(self) -> None:
        self._sent.put_nowait(None)

    async def receive(self) -> bytes | None:
        return await self._sent.get()

    async def send(self, message: bytes) -> None:
        if b"too many" in message:
            self.refused.set()


@pytest_asyncio.fixture
async def program() -> AsyncIterator[tuple[int, asyncio.Queue[asyncio.StreamWriter]]]:
    """A program in a Pod: its port, and its connections."""
    connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    kept: list[asyncio.StreamWriter] = []

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.append(writer)
        connections.put_nowait(writer)

    server = await asyncio.start_server(accept, HOST)
    yield server.sockets[0].getsockname()[1], connections
    server.close()
    for each in kept:
        each.close()


async def test_connections_of_all_clients_share_a_budget(
    program: tuple[int, asyncio.Queue[asyncio.StreamWriter]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, connections = program
    monkeypatch.setattr("resource.getrlimit", lambda _: (16, 16))
    budget = SocketBudget("kubewright.test", "Port forwarding is full", 8)
    first, second = _Client(), _Client()
    serving = [asyncio.create_task(PortForward(Connection(each), HOST, budget).serve()) for each in (first, second)]
    for number in range(3):
        first.connect(number, port)
    await first.refused.wait()
    for _ in range(2):
        await connections.get()
    assert connections.empty()
    first.leave()
    await serving[0]
    second.connect(0, port)
    await connections.get()
    assert not second.refused.is_set()
    second.leave()
    await serving[1]


async def test_the_streams_of_a_canceled_pair_can_be_opened_again(
    program: tuple[int, asyncio.Queue[asyncio.StreamWriter]],
) -> None:
    port, connections = program
    client = _Client()
    budget = SocketBudget("kubewright.test", "Port forwarding is full", 8)
    serving = asyncio.create_task(PortForward(Connection(client), HOST, budget).serve())
    client.open("error", 1, port)
    client.reset()
    client.connect(1, port)
    await connections.get()
    client.leave()
    await serving
