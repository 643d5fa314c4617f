"""Sessions with processes: what a client that does not read costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kubewright.http.spdy import Connection
from kubewright_controlplane.kubelet.exec import Channels
from kubewright_controlplane.kubelet.process import Command, Process, Reaper
from kubewright_controlplane.kubelet.remotecommand import ExecOptions, SPDYTransport

_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
_TALKATIVE = Command(["head", "-c", "20000000", "/dev/zero"], _PATH, "/")
_WAITS = 0.5
"""Seconds in which the process would end if it did not have to wait."""


class _SilentLink:
    """A client that sends nothing and reads nothing."""

    async def receive(self) -> bytes | None:
        return await asyncio.get_running_loop().create_future()

    async def send(self, message: bytes) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


def channels() -> Channels:
    options = ExecOptions(stdin=False, stdout=True, stderr=True, terminal=False)
    return Channels(SPDYTransport(Connection(_SilentLink()), "v4.channel.k8s.io", options), options)


async def _ends(process: Process) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(_WAITS):
            await process.ended()
            return True
    return False


async def test_a_process_waits_for_a_client_that_opens_no_streams(reaper: Reaper) -> None:
    session = channels()
    process = await Process.start(_TALKATIVE, reaper, session.output)
    opening = asyncio.create_task(session.open(process))
    assert not await _ends(process)
    opening.cancel()
    session.release()
    assert await process.wait() == 0


async def test_output_after_the_end_of_a_session_is_dropped(reaper: Reaper) -> None:
    session = channels()
    session.release()
    process = await Process.start(_TALKATIVE, reaper, session.output)
    assert await process.wait() == 0
    assert session.unsent == 0


async def test_a_process_waits_for_the_slowest_of_its_clients(reaper: Reaper) -> None:
    process = await Process.start(_TALKATIVE, reaper, lambda fd, data: None)
    process.pause_output()
    process.pause_output()
    process.resume_output()
    assert not await _ends(process)
    process.resume_output()
    assert await process.wait() == 0
