"""Copies bytes between two connections until both have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

_CHUNK: Final = 64 << 10


class Connection(NamedTuple):
    """A TCP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        self.writer.transport.abort()


async def relay(one: Connection, other: Connection, passed: Callable[[], Awaitable[None]]) -> None:
    """Copy in both directions until both sides have ended. Closes both; an aborted connection aborts the other.

    `passed` is awaited before data is copied.
    """
    directions = [asyncio.ensure_future(_copy(*each, passed)) for each in ((one, other), (other, one))]
    try:
        await asyncio.gather(*directions)
        one.writer.close()
        other.writer.close()
    except OSError:
        pass  # the other side is closed below
    finally:
        for direction in directions:
            direction.cancel()
        for each in (one, other):
            if not each.writer.is_closing():
                each.abort()


async def _copy(source: Connection, target: Connection, passed: Callable[[], Awaitable[None]]) -> None:
    while data := await source.reader.read(_CHUNK):
        await passed()
        target.writer.write(data)
        await target.writer.drain()
    await passed()
    if target.writer.can_write_eof():
        target.writer.write_eof()
