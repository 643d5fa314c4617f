"""A TCP port of this machine whose connections are forwarded to one of several targets."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network
from typing import Final

from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.proxy.gate import Gate
from kubewright_controlplane.proxy.relay import Connection, relay
from kubewright_controlplane.proxy.targets import Choice, Targets

_RETRY_SECONDS: Final = 5.0
_PAUSE: Final = 0.1
_HELD_SECONDS: Final = 30.0
_SOCKETS: Final = 2
"""The sockets of a connection."""


class TCPForwarder:
    """Listens, and forwards each connection to a target.

    A target that refuses the connection is skipped. If all refuse, a program may just be starting: targets are tried
    for `_RETRY_SECONDS` before the client is disconnected. Existing connections stay when the targets change, and after
    the port is closed. A connection beyond the budget is reset. A client that is cut off is connected, and waits; after
    `_HELD_SECONDS` without a target it is disconnected.
    """

    def __init__(self, host: str, port: int, budget: SocketBudget) -> None:
        self._host = host
        self._port = port
        self._budget = budget
        self._choice = Choice()
        self._gate = Gate()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def has_connections(self) -> bool:
        """Whether connections exist, which stay after the port is closed."""
        return bool(self._connections)

    async def open(self) -> None:
        """Listen. Raises OSError if the port can't be opened."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port)

    def set_targets(self, targets: Targets) -> None:
        """Set the targets of new connections."""
        self._choice.set(targets)

    def cut_off(self, networks: tuple[IPv4Network, ...]) -> None:
        """Hold the connections of clients in these networks."""
        self._gate.close_for(networks)

    def close(self) -> None:
        """Stop listening."""
        self._gate.close_for(())
        if self._server is not None:
            self._server.close()

    async def abort(self) -> None:
        """Stop listening, and close all connections."""
        self.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Connection(reader, writer)
        if not self._budget.take(_SOCKETS):
            client.abort()
            return
        task = asyncio.create_task(self._carry(client), name=f"proxy {self._host}:{self._port}")
        self._connections.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._budget.free(_SOCKETS)

    async def _carry(self, client: Connection) -> None:
        try:
            host = _host_of(client)
            async with asyncio.timeout(_HELD_SECONDS):
                await self._gate.passed(host)
            target = await self._reach(host)
            if target is not None:
                await relay(client, target, lambda: self._gate.passed(host))
        except TimeoutError:
            pass  # it is cut off
        finally:
            client.abort()

    async def _reach(self, client: str) -> Connection | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_SECONDS
        while True:
            found = await self._connect(client)
            if found is not None or loop.time() >= deadline:
                return found
            await asyncio.sleep(_PAUSE)

    async def _connect(self, client: str) -> Connection | None:
        """Connect to the first target that accepts."""
        now = asyncio.get_running_loop().time()
        for target in self._choice.order(client, now):
            try:
                connection = Connection(*await asyncio.open_connection(target.host, target.port))
            except OSError:
                continue
            self._choice.connected(client, target, now)
            return connection
        return None


def _host_of(client: Connection) -> str:
    peer = client.writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""
