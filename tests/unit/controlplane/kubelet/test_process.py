"""Processes: their output reaches the kubelet in pieces, and others are served between them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from kubewright_controlplane.kubelet.process import Command, Process, Reaper

_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


@pytest.mark.parametrize("terminal", [False, True])
async def test_others_are_served_between_pieces_of_output(reaper: Reaper, terminal: bool) -> None:
    loop = asyncio.get_running_loop()
    turns = itertools.count()
    turn = next(turns)
    pieces: list[tuple[int, bytes]] = []

    def other() -> None:
        nonlocal turn
        turn = next(turns)
        loop.call_soon(other)

    other()
    command = Command(["sh", "-c", "head -c 60000 /dev/zero | tr '\\0' '\\n'"], _PATH, "/")
    process = await Process.start(
        command, reaper, lambda fd, data: pieces.append((turn, data)), terminal=terminal
    )  # fmt: skip
    assert await process.wait() == 0
    assert b"".join(data for _, data in pieces).count(b"\n") == 60_000
    assert max(len(data) for _, data in pieces) <= 16 << 10
    assert len({turn for turn, _ in pieces}) == len(pieces)


async def test_paused_output_stays_in_the_process(reaper: Reaper) -> None:
    received: list[bytes] = []
    command = Command(["sh", "-c", "read line; head -c 1000000 /dev/zero"], _PATH, "/")
    process = await Process.start(command, reaper, lambda fd, data: received.append(data), stdin=True)
    process.pause_output()
    await process.write(b"\n")
    for _ in range(100):
        await asyncio.sleep(0)
    assert not received
    process.resume_output()
    assert await process.wait() == 0
    assert sum(map(len, received)) == 1_000_000


@pytest.mark.parametrize(
    "command", [Command(["echo", "a\0b"], _PATH, "/"), Command(["env"], {**_PATH, "A": "\0"}, "/")]
)
async def test_a_command_with_nul_cannot_be_started(reaper: Reaper, command: Command) -> None:
    with pytest.raises(OSError, match="contains NUL"):
        await Process.start(command, reaper, lambda fd, data: None)
