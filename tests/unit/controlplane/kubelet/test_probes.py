"""Probes of programs that answer without end, and of addresses that no program can have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kubewright.apis.core.v1 import Container, ExecAction, HTTPGetAction, Probe, TCPSocketAction
from kubewright.testing import VirtualClock
from kubewright_controlplane.kubelet.probes import ProbeFailed, Target, perform
from kubewright_controlplane.kubelet.process import Command, Reaper

HOST = "127.0.0.1"
_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def target() -> Iterator[Target]:
    reaper = Reaper()
    yield Target(Container(name="c"), HOST, Command([], _PATH, "/"), reaper, VirtualClock())
    reaper.close()


@pytest_asyncio.fixture
async def endless() -> AsyncIterator[int]:
    """The port of a program whose answers have no end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except OSError:
            writer.close()

    server = await asyncio.start_server(serve, HOST)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_the_beginning_of_an_endless_answer_is_enough(target: Target, endless: int) -> None:
    await perform(target, Probe(http_get=HTTPGetAction(port=endless)))


@pytest.mark.parametrize("host", ["[::1", "a..b", "a" * 300, "a b"])
async def test_an_invalid_host_is_a_failure(target: Target, host: str) -> None:
    with pytest.raises(ProbeFailed):
        await perform(target, Probe(http_get=HTTPGetAction(port=80, host=host)))
    with pytest.raises(ProbeFailed):
        await perform(target, Probe(tcp_socket=TCPSocketAction(port=80, host=host)))


async def test_a_command_that_takes_too_long_is_reaped(target: Target) -> None:
    with pytest.raises(ProbeFailed, match="timed out"):
        await perform(target, Probe(exec=ExecAction(command=["sleep", "100"])), 0.2)
    async with asyncio.timeout(30):
        while rest := [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]:
            await asyncio.wait(rest)
    assert not target.reaper.has_groups
