"""A pseudo-terminal: the side that sees what a process shows there, and types."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Final

_CHUNK: Final = 64 << 10


class Terminal:
    """A terminal for one process. `hear` gets what is shown; nothing when nobody holds the other side any more."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._master, self.slave = os.openpty()
        os.set_blocking(self._master, False)
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._open = True

    def begin(self) -> None:
        """The process holds the other side now."""
        os.close(self.slave)
        self.go_on()

    def pause(self) -> None:
        """Hear nothing for a while; the process waits when it has much to show."""
        self._loop.remove_reader(self._master)

    def go_on(self) -> None:
        if self._open:
            self._loop.add_reader(self._master, self._read)

    async def write(self, data: bytes) -> None:
        """Type, and wait for a process that does not read."""
        while data and self._open:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                await self._writable()
            except OSError:  # the process has gone
                return

    def resize(self, columns: int, rows: int) -> None:
        if self._open:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._master)
            os.close(self._master)

    def _read(self) -> None:
        try:
            data = os.read(self._master, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # Linux: the last who held the other side has closed it
            data = b""
        if not data:
            self._loop.remove_reader(self._master)
        self._hear(data)

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._master, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._master)
