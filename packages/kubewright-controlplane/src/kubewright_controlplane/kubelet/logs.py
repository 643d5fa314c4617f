"""Container logs: a folder of segments for each run of a container, in the format of the CRI.

A line of a segment consists of the time, the stream, `F` for a whole line or `P` for a part of one, and the text. After
`SEGMENT` bytes a new segment starts, and the last `SEGMENTS` are kept. These are a kubelet's limits.

Source: https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from kubewright._runtime.clock import Clock
from kubewright.machinery import time

SEGMENT: Final = 10 << 20
SEGMENTS: Final = 5
LONGEST: Final = 16 << 10
"""Longer lines are stored in parts."""
_CHUNK: Final = 64 << 10
_ENDING: Final = 4096
_TOGETHER: Final = 1000
"""Lines that are read before others are served."""
_STEP: Final = timedelta(microseconds=1)
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


class Part(NamedTuple):
    """A line, or a part of one, without a newline."""

    text: bytes
    is_end: bool
    """Whether the line ends with it."""


class Lines:
    """Splits output into lines. `write` gets the stream, and the lines that have arrived together."""

    def __init__(self, write: Callable[[str, Sequence[Part]], None]) -> None:
        self._write = write
        self._unfinished = dict.fromkeys(_STREAMS, b"")

    def __call__(self, fd: int, data: bytes) -> None:
        """Take output of a file descriptor. Empty output is the end."""
        *lines, rest = (self._unfinished[fd] + data).split(b"\n")
        parts: list[Part] = []
        for line in lines:
            parts.append(Part(_cut(line, parts), is_end=True))
        rest = _cut(rest, parts)
        if rest and not data:
            parts.append(Part(rest, is_end=False))
            rest = b""
        self._unfinished[fd] = rest
        if parts:
            self._write(_STREAMS[fd], parts)


def _cut(line: bytes, parts: list[Part]) -> bytes:
    """Add the parts of a line that is too long. Returns the rest."""
    while len(line) > LONGEST:
        parts.append(Part(line[:LONGEST], is_end=False))
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
        self._next_time = datetime.min.replace(tzinfo=UTC)
        """No line has this time, or a later one."""
        self._written = asyncio.Event()
        """Set after the next write. Each write has an event of its own, so no reader misses one."""
        self._closed = False

    def write(self, stream: str, text: bytes, *, whole: bool) -> None:
        """Add a line, or a part of a line. `text` has no newline."""
        self.write_parts(stream, (Part(text, whole),))

    def write_parts(self, stream: str, parts: Iterable[Part]) -> None:
        """Add lines that have arrived together. Each gets a later time; from `_TOGETHER` on, they share one."""
        time_of_line, name = max(self._clock.now(), self._next_time), stream.encode()
        waiting: list[bytes] = []
        stamp = b""
        for index, (text, is_end) in enumerate(parts):
            if index < _TOGETHER:
                stamp = _stamp(time_of_line)
                time_of_line += _STEP
            line = b"%s %s %s %s\n" % (stamp, name, b"F" if is_end else b"P", text)
            if self._file is None or self._size + len(line) > SEGMENT:
                self._append(waiting)
                waiting = []
                self._next_segment()
            waiting.append(line)
            self._size += len(line)
        self._next_time = time_of_line
        self._append(waiting)
        self._notify()

    def _append(self, lines: Iterable[bytes]) -> None:
        if self._file is not None:
            self._file.write(b"".join(lines))
            self._file.flush()

    def _notify(self) -> None:
        """Wake the readers that wait."""
        self._written.set()
        self._written = asyncio.Event()

    def close(self) -> None:
        """End the log. Readers that follow it get the rest and stop."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._closed = True
        self._notify()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def tail(self, lines: int, size: int) -> bytes:
        """Return the last lines, and of these the last `size` bytes. Reads no more than these from the files."""
        kept: deque[bytes] = deque()
        length = 0
        for place in _last(self._folder, lines):
            kept.appendleft(_output_line(place.line, timestamps=False))
            length += len(kept[0])
            if length >= size:
                break
        return b"".join(kept)[-size:]

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
        async for lines in self._lines(options):
            text = b"".join([_output_line(line, timestamps=options.timestamps) for line in lines])
            if left is not None:
                text = text[:left]
                left -= len(text)
            yield text
            if left == 0:
                return

    async def _lines(self, options: LogOptions) -> AsyncGenerator[list[bytes]]:
        """Yield the selected lines, some at a time. Others are served between them."""
        reader = _Reader(self._folder)
        since = _stamp(options.since) if options.since is not None else None
        if options.tail is not None:
            await reader.skip_to_last(options.tail)
        while True:
            written, is_last = self._written, self._closed or not options.follow
            for lines in _together(reader.lines()):
                yield lines if since is None else [line for line in lines if line[: len(since)] >= since]
                await asyncio.sleep(0)
            if is_last:
                return
            await written.wait()

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

    async def skip_to_last(self, count: int) -> None:
        """Continue with the last `count` lines. The parts of a line count as one."""
        end = next(_backwards(self._folder), None)
        if end is None:
            return
        self._number, self._offset = end.segment, end.start + len(end.line)
        for number, place in enumerate(_last(self._folder, count)):
            if number % _TOGETHER == _TOGETHER - 1:
                await asyncio.sleep(0)
            self._number, self._offset = place.segment, place.start

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


def _together(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lines in lists of at most `_TOGETHER` lines, which end after `_CHUNK` bytes."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if len(found) >= _TOGETHER or size >= _CHUNK:
            yield found
            found, size = [], 0
    if found:
        yield found


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"), key=lambda path: int(path.stem))


class _Place(NamedTuple):
    """A line, or a part of one, and where it begins."""

    segment: int
    start: int
    line: bytes


def _last(folder: Path, count: int) -> Iterator[_Place]:
    """Yield the last `count` lines, the last one first. The parts of a line count as one."""
    whole = 0
    for place in _backwards(folder):
        if not whole or place.line.split(b" ", 3)[2] == b"F":
            whole += 1
        if whole > count:
            return
        yield place


def _backwards(folder: Path) -> Iterator[_Place]:
    """Yield the lines of a log from its end on."""
    for path in reversed(_segments(folder)):
        with suppress(FileNotFoundError), path.open("rb") as file:  # it may have been rotated away
            for start, line in _lines_backwards(file):
                yield _Place(int(path.stem), start, line)


def _lines_backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines of a file from its end on, and where each begins."""
    start = file.seek(0, os.SEEK_END)
    begun = b""
    while start:
        size = min(_CHUNK, start)
        start = file.seek(start - size)
        data = file.read(size) + begun
        cut = data.find(b"\n") + 1 if start else 0
        if start and not cut:
            begun = data
            continue
        begun = data[:cut]
        *lines, unfinished = data[cut:].split(b"\n")
        at = start + len(data) - len(unfinished)
        for line in reversed(lines):
            at -= len(line) + 1
            yield at, line + b"\n"


def _stamp(at: datetime) -> bytes:
    """Return a time as lines have it. Times in this form are ordered as texts are."""
    return f"{time.format_micro(at)[:-1]}000Z".encode()


def _output_line(line: bytes, *, timestamps: bool) -> bytes:
    at, _, tag, text = line.split(b" ", 3)
    if tag == b"P":
        text = text[:-1]
    return b"%s %s" % (at, text) if timestamps else text
