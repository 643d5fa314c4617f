"""Container logs: stored, split, followed and rotated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from pathlib import Path

import pytest

from kubewright.machinery import time
from kubewright.testing import VirtualClock
from kubewright_controlplane.kubelet import logs
from kubewright_controlplane.kubelet.logs import ContainerLog, Lines, LogOptions


async def read(log: ContainerLog, **options: object) -> bytes:
    return b"".join([chunk async for chunk in log.read(LogOptions(**options))])  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> ContainerLog:
    return ContainerLog(tmp_path / "log", VirtualClock())


async def test_the_parts_of_a_long_line_are_one_line_again(log: ContainerLog) -> None:
    log.write("stdout", b"before", whole=True)
    log.write("stdout", b"a" * 10, whole=False)
    log.write("stdout", b"b" * 10, whole=True)
    assert await read(log) == b"before\n" + b"a" * 10 + b"b" * 10 + b"\n"
    assert await read(log, tail=1) == b"a" * 10 + b"b" * 10 + b"\n"


async def test_a_last_line_without_an_end_stays_without_one(log: ContainerLog) -> None:
    log.write("stderr", b"no newline", whole=False)
    assert await read(log) == b"no newline"


async def test_old_segments_are_removed(log: ContainerLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 100)
    for number in range(40):
        log.write("stdout", b"line %02d" % number, whole=True)
    kept = (await read(log)).splitlines()
    assert len(list((tmp_path / "log").iterdir())) == logs.SEGMENTS
    assert kept == [b"line %02d" % number for number in range(40)][-len(kept) :]
    assert len(kept) < 40


async def test_a_follower_reads_across_segments_until_the_end(
    log: ContainerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 100)
    log.write("stdout", b"first", whole=True)
    following = asyncio.create_task(read(log, follow=True))
    for number in range(6):
        await asyncio.sleep(0)
        log.write("stdout", b"%d" % number, whole=True)
    log.close()
    assert await following == b"first\n0\n1\n2\n3\n4\n5\n"


@pytest.mark.parametrize("chunk", [1, 30, 64 << 10])
async def test_any_number_of_last_lines_is_read_from_the_end(
    log: ContainerLog, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 300)
    monkeypatch.setattr(logs, "_CHUNK", chunk)
    for number in range(9):
        log.write("stdout", b"part %d, " % number, whole=False)
        log.write("stderr", b"line %d\r" % number, whole=True)
    log.write("stdout", b"unfinished", whole=False)
    lines = (await read(log)).split(b"\n")
    assert lines == [b"part %d, line %d\r" % (number, number) for number in range(9)] + [b"unfinished"]
    for count in range(12):
        last = b"\n".join(lines[-count:]) if count else b""
        assert await read(log, tail=count) == last
        assert log.tail(count, 10_000) == last
    assert log.tail(12, 13) == b"8\r\nunfinished"


async def test_lines_that_arrive_together_are_stamped_and_read_at_once(tmp_path: Path) -> None:
    clock = _CountingClock()
    log = ContainerLog(tmp_path / "log", clock)
    lines = Lines(log.write_parts)
    lines(1, b"\n" * 20_000 + b"unfinished")
    lines(1, b"")
    assert clock.asked == 2
    chunks = [chunk async for chunk in log.read(LogOptions())]
    assert b"".join(chunks) == b"\n" * 20_000 + b"unfinished"
    assert len(chunks) < 100


async def test_a_limit_cuts_lines_that_are_read_together(log: ContainerLog) -> None:
    for _ in range(3):
        log.write("stdout", b"line", whole=True)
    assert await read(log, limit=7) == b"line\nli"


async def test_lines_that_arrive_together_fill_several_segments(
    log: ContainerLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 100)
    Lines(log.write_parts)(1, b"".join(b"line %02d\n" % number for number in range(9)))
    assert await read(log) == b"".join(b"line %02d\n" % number for number in range(9))
    assert all(path.stat().st_size <= 100 for path in (tmp_path / "log").iterdir())


async def test_every_follower_gets_the_end(log: ContainerLog) -> None:
    log.write("stdout", b"first", whole=True)
    followers = [log.read(LogOptions(follow=True)) for _ in range(2)]
    assert [await anext(each) for each in followers] == [b"first\n"] * 2
    slow, quick = followers
    rest = asyncio.create_task(_rest(quick))
    await asyncio.sleep(0)
    log.write("stdout", b"second", whole=True)
    log.close()
    assert await rest == b"second\n"
    assert await _rest(slow) == b"second\n"


async def _rest(chunks: AsyncGenerator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


class _CountingClock(VirtualClock):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return super().now()


async def test_lines_that_arrive_together_have_times_in_order(log: ContainerLog) -> None:
    lines = Lines(log.write_parts)
    lines(1, b"a\nb\n")
    lines(2, b"c\n")
    stamped = [line.split() for line in (await read(log, timestamps=True)).splitlines()]
    assert [text for _, text in stamped] == [b"a", b"b", b"c"]
    assert len({at for at, _ in stamped}) == 3
    assert stamped == sorted(stamped)
    assert await read(log, since=time.parse(stamped[1][0].decode())) == b"b\nc\n"
