"""A port of this machine whose connections lead to one of several addresses, in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from kubewright_controlplane.proxy.relay import Connection, relay

_PATIENCE: Final = 5.0
_PAUSE: Final = 0.1


class Target(NamedTuple):
    """Where a connection may lead."""

    host: str
    port: int


class Forwarder:
    """Listens, and carries each connection to one of its targets.

    A target that refuses is passed over for the next. When all refuse, or there are none, a program may just be
    starting: it is tried for `_PATIENCE` seconds more before the client is cut off. Connections that are there stay
    when the targets change, and when it does not listen any more.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._targets: Sequence[Target] = ()
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises OSError when the port can't be had."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port)

    def lead_to(self, targets: Sequence[Target]) -> None:
        """Where connections lead from now on."""
        self._targets = targets

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def cut(self) -> None:
        """The same, and end the connections that there are."""
        self.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(Connection(reader, writer)), name=f"node port {self._port}")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, client: Connection) -> None:
        try:
            target = await self._reach()
            if target is not None:
                await relay(client, target)
        finally:
            client.cut()

    async def _reach(self) -> Connection | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            found = await self._connect()
            if found is not None or loop.time() >= deadline:
                return found
            await asyncio.sleep(_PAUSE)

    async def _connect(self) -> Connection | None:
        """A connection to the target whose turn it is, or to the next that takes it."""
        first, targets = self._turn, self._targets
        self._turn += 1
        for number in range(len(targets)):
            host, port = targets[(first + number) % len(targets)]
            try:
                return Connection(*await asyncio.open_connection(host, port))
            except OSError:
                continue
        return None
