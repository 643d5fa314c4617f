"""Programs that answer a request to change the protocol in a way that a client could misunderstand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed
from kubewright_controlplane.apiserver.upgrading import Program, upgrade


class _Server:
    """A program that gives one answer to every request."""

    def __init__(self) -> None:
        self.answer = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        await writer.drain()
        writer.close()

    async def ask(self, answer: bytes) -> Response:
        self.answer = answer
        program = Program("x", ("127.0.0.1", self.port), None, None)
        return await upgrade(program, Request("GET", "/"), (), "websocket")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[_Server]:
    found = _Server()
    listening = await asyncio.start_server(found.serve, "127.0.0.1")
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 103 Early Hints",
        b"HTTP/1.1 000 X",
        b"HTTP/1.1 -12 X",
        b"HTTP/1.1 1_0 X",
        b"HTTP/1.1 999 X",
        b"HTTP/1.1 200\0",
        b"HTTP/1.1 2000 X",
        b"HTTP/2 200 X",
        b"SSH-2.0 200",
    ],
)
async def test_a_status_that_is_not_final_is_an_error(server: _Server, first: bytes) -> None:
    with pytest.raises(ConnectionFailed, match="invalid answer"):
        await server.ask(first + b"\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize("line", [b"x: a\0b", b"x: a\rb", b": x", b"x y: 1", b"x : 1", b" folded", b"none", b"\x80: 1"])
async def test_a_malformed_header_is_an_error(server: _Server, line: bytes) -> None:
    with pytest.raises(ConnectionFailed, match="invalid header"):
        await server.ask(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")


async def test_any_other_answer_is_passed_on(server: _Server) -> None:
    response = await server.ask(b"HTTP/1.1 403\r\nX-A: b\xff\r\nx-a:\tc\r\nContent-Length: 2\r\n\r\nno")
    assert (response.status, response.body) == (403, b"no")
    assert response.headers["x-a"].encode("utf-8", "surrogateescape") == b"b\xff, c"
