"""A port of this machine whose connections are forwarded to several targets in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from kubewright_controlplane.proxy.relay import Connection, relay

_RETRY_SECONDS: Final = 5.0
_PAUSE: Final = 0.1


class Target(NamedTuple):
    """The address of a target."""

    host: str
    port: int


class Forwarder:
    """Listens, and forwards each connection to one of its targets.

    A target that refuses the connection is skipped. If all refuse, or there are none, a program may just be starting:
    targets are tried for `_RETRY_SECONDS` before the client is disconnected. Existing connections stay when the targets
    change, and after the port is closed.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._targets: Sequence[Target] = ()
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises OSError if the port can't be opened."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port)

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Set the targets of new connections."""
        self._targets = targets

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def abort(self) -> None:
        """Stop listening, and close all connections."""
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
            client.abort()

    async def _reach(self) -> Connection | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_SECONDS
        while True:
            found = await self._connect()
            if found is not None or loop.time() >= deadline:
                return found
            await asyncio.sleep(_PAUSE)

    async def _connect(self) -> Connection | None:
        """Connect to the next target in turn that accepts."""
        first, targets = self._turn, self._targets
        self._turn += 1
        for number in range(len(targets)):
            host, port = targets[(first + number) % len(targets)]
            try:
                return Connection(*await asyncio.open_connection(host, port))
            except OSError:
                continue
        return None
