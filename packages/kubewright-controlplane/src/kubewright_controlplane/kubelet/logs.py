"""Container logs: a folder of segments for each run of a container, in the format of the CRI.

A line of a segment consists of the time, the stream, `F` for a whole line or `P` for a part of one, and the text. After
`SEGMENT` bytes a new segment starts, and the last `SEGMENTS` are kept. These are a kubelet's limits.

Source: https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import time

SEGMENT: Final = 10 << 20
SEGMENTS: Final = 5
LONGEST: Final = 16 << 10
"""Longer lines are stored in parts."""
_CHUNK: Final = 64 << 10
_ENDING: Final = 4096
_STREAMS: Final = {1: "stdout", 2: "stderr"}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of `pods/log`."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None
    """The maximum number of bytes to return."""


class Lines:
    """Splits output into lines. `write` gets the stream, the text, and whether the text ends a line."""

    def __init__(self, write: Callable[[str, bytes, bool], None]) -> None:
        self._write = write
        self._unfinished = dict.fromkeys(_STREAMS, b"")

    def __call__(self, fd: int, data: bytes) -> None:
        """Take output of a file descriptor. Empty output is the end."""
        stream = _STREAMS[fd]
        *lines, rest = (self._unfinished[fd] + data).split(b"\n")
        for line in lines:
            self._write(stream, self._cut(stream, line), True)
        rest = self._cut(stream, rest)
        if rest and not data:
            self._write(stream, rest, False)
            rest = b""
        self._unfinished[fd] = rest

    def _cut(self, stream: str, line: bytes) -> bytes:
        """Write the parts of a line that is too long. Returns the rest."""
        while len(line) > LONGEST:
            self._write(stream, line[:LONGEST], False)
            line = line[LONGEST:]
        return line


class ContainerLog:
    """The log of one run of a container, with one writer and any number of readers."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Files that are already in the folder are the beginning of the log."""
        self._folder = folder
        self._clock = clock
        self._file: BinaryIO | None = None
        self._size = 0
        self._written = asyncio.Event()
        self._closed = False

    def write(self, stream: str, text: bytes, *, whole: bool) -> None:
        """Add a line, or a part of a line. `text` has no newline."""
        at = f"{time.format_micro(self._clock.now())[:-1]}000Z"
        line = b"%s %s %s %s\n" % (at.encode(), stream.encode(), b"F" if whole else b"P", text)
        if self._file is None or self._size + len(line) > SEGMENT:
            self._next_segment()
        assert self._file is not None
        self._file.write(line)
        self._file.flush()
        self._size += len(line)
        self._written.set()

    def close(self) -> None:
        """End the log. Readers that follow it get the rest and stop."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._closed = True
        self._written.set()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def tail(self, lines: int, size: int) -> bytes:
        """Return the last lines, and of these the last `size` bytes."""
        kept = _last(_Reader(self._folder).lines(), lines)
        return b"".join(_output_line(line, timestamps=False) for line in kept)[-size:]

    def ending(self) -> bytes:
        """Return the end of the log's file, at most `_ENDING` bytes, with the time of each line."""
        segments = _segments(self._folder)
        if not segments:
            return b""
        with segments[-1].open("rb") as file:
            file.seek(max(0, segments[-1].stat().st_size - _ENDING))
            return file.read(_ENDING)

    async def read(self, options: LogOptions) -> AsyncGenerator[bytes]:
        """Yield the selected text in chunks."""
        left = options.limit
        async for line in self._lines(options):
            text = _output_line(line, timestamps=options.timestamps)
            if left is not None:
                text = text[:left]
                left -= len(text)
            yield text
            if left == 0:
                return

    async def _lines(self, options: LogOptions) -> AsyncGenerator[bytes]:
        reader = _Reader(self._folder)
        begun: Iterator[bytes] = (line for line in reader.lines() if _is_since(line, options.since))
        for number, line in enumerate(begun if options.tail is None else _last(begun, options.tail)):
            if number % 1000 == 999:
                await asyncio.sleep(0)
            yield line
        while options.follow and not self._closed:
            self._written.clear()
            for line in reader.lines():
                yield line
            await self._written.wait()
        if options.follow:
            for line in reader.lines():
                yield line

    def _next_segment(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        present = _segments(self._folder)
        if self._file is not None:
            self._file.close()
        number = int(present[-1].stem) + 1 if present else 0
        self._file = (self._folder / f"{number}.log").open("ab")
        self._size = 0
        for old in present[: max(0, len(present) - SEGMENTS + 1)]:
            old.unlink(missing_ok=True)


class _Reader:
    """Reads segments in order, and continues later where it stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self._offset = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the lines between the end of the last call and the current end."""
        for path in _segments(self._folder):
            number = int(path.stem)
            if number < self._number:
                continue
            if number > self._number:
                self._number, self._offset = number, 0
            with suppress(FileNotFoundError), path.open("rb") as file:  # it may have been rotated away
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    yield line


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"), key=lambda path: int(path.stem))


def _last(lines: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Return the last `count` lines. The parts of a line count as one."""
    kept: deque[list[bytes]] = deque(maxlen=count)
    parts: list[bytes] = []
    for line in lines:
        parts.append(line)
        if line.split(b" ", 3)[2] == b"F":
            kept.append(parts)
            parts = []
    if parts:
        kept.append(parts)
    return (line for whole in kept for line in whole)


def _is_since(line: bytes, since: datetime | None) -> bool:
    return since is None or time.parse(line.split(b" ", 1)[0].decode()) >= since


def _output_line(line: bytes, *, timestamps: bool) -> bytes:
    at, _, tag, text = line.split(b" ", 3)
    if tag == b"P":
        text = text[:-1]
    return b"%s %s" % (at, text) if timestamps else text
