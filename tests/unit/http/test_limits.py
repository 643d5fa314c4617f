"""What one client may cost a server: bytes of bodies, of heads and trailers, and of requests in a row."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kubewright.http import wire
from kubewright.http.message import Request, Response
from kubewright.http.request_parser import Limits
from kubewright.http.server import Server
from kubewright.testing import eventually

Serve = Callable[..., Awaitable[Server]]

MEGABYTE = 1 << 20
HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


async def count(request: Request) -> Response:
    """Answer with the length of the body."""
    return Response(200, {}, b"%d" % len(request.body))


def refuse(request: Request) -> Response | None:
    return None if request.headers.get("x-user") == "known" else Response(403, {"x-why": "unknown"}, b"who are you?")


async def said(port: int, *pieces: bytes) -> bytes:
    """Send bytes and return what the server says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_large_body_is_not_read_before_the_request_is_admitted(serve: Serve) -> None:
    server = await serve(count, admit=refuse)
    length = b"Content-Length: %d\r\n\r\n" % (10 * MEGABYTE)
    answer = await said(server.port, HEAD + length + b"a" * 1000)  # the rest is never sent
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"x-why: unknown\r\n" in answer
    assert answer.endswith(b"who are you?")
    invited = await said(server.port, HEAD + b"Expect: 100-continue\r\n" + length)
    assert invited.startswith(b"HTTP/1.1 403 ")


async def test_a_large_body_in_chunks_is_not_read_before_the_request_is_admitted(serve: Serve) -> None:
    server = await serve(count, admit=refuse)
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    assert (await said(server.port, CHUNKED + chunk + b"1\r\na\r\n")).startswith(b"HTTP/1.1 403 ")


async def test_admitted_and_small_bodies_are_read(serve: Serve) -> None:
    server = await serve(count, admit=refuse)
    close = b"Connection: close\r\n"
    large = HEAD + close + b"X-User: known\r\nContent-Length: %d\r\n\r\n" % MEGABYTE + b"a" * MEGABYTE
    assert (await said(server.port, large)).endswith(b"\r\n\r\n1048576")
    assert (await said(server.port, HEAD + close + b"Content-Length: 3\r\n\r\nabc")).endswith(b"\r\n\r\n3")


async def test_bodies_of_all_connections_have_a_limit(serve: Serve) -> None:
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def wait(request: Request) -> Response:
        arrived.set()
        await proceed.wait()
        return await count(request)

    server = await serve(wait, Limits(bodies=3 * MEGABYTE))
    whole = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (2 * MEGABYTE) + b"a" * (2 * MEGABYTE)
    first = asyncio.create_task(said(server.port, whole))
    await arrived.wait()
    assert (await said(server.port, whole)).startswith(b"HTTP/1.1 429 ")
    proceed.set()
    assert (await first).endswith(b"2097152")
    assert (await said(server.port, whole)).endswith(b"2097152")  # the memory of the first is free again


async def test_closed_connections_hold_no_memory(serve: Serve) -> None:
    server = await serve(count)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(10):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (4 * MEGABYTE) + b"a" * (3 * MEGABYTE))
            await writer.drain()
            writer.transport.abort()

        async def freed() -> None:
            assert tracemalloc.get_traced_memory()[0] < 8 * MEGABYTE

        await eventually(freed, within=20)
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_requests_behind_a_watch_are_not_read_ahead(serve: Serve) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.Event().wait()

    async def watch(_: Request) -> Response:
        return Response(200, {}, endless())

    server = await serve(watch)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"begun")
    tracemalloc.start()
    try:
        for _ in range(20):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % MEGABYTE + b"a" * MEGABYTE)
        sent = tracemalloc.get_traced_memory()[0]
        await asyncio.sleep(0.3)
        buffered = writer.transport.get_write_buffer_size()
        assert buffered > 10 * MEGABYTE, "the server reads what it can't answer yet"
        assert tracemalloc.get_traced_memory()[0] < sent + 4 * MEGABYTE
    finally:
        tracemalloc.stop()
        writer.transport.abort()


async def test_trailers_have_the_limit_of_heads(serve: Serve) -> None:
    server = await serve(count, Limits(head=10_000))
    body = CHUNKED + b"1\r\na\r\n0\r\n"
    lines = b"".join(b"X-%d: a\r\n" % number for number in range(2000))
    assert (await said(server.port, body + lines + b"\r\n")).startswith(b"HTTP/1.1 431 ")
    endless = [b"a" * MEGABYTE] * 4
    assert (await said(server.port, body + b"X-A: ", *endless)).startswith(b"HTTP/1.1 431 ")


async def test_many_small_requests_in_a_row_are_all_answered(serve: Serve) -> None:
    server = await serve(count, Limits(head=1000))
    request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await said(server.port, request * 2000 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 2001


def test_a_header_that_cannot_be_sent_is_named_without_its_value() -> None:
    with pytest.raises(ValueError, match="the header 'authorization' contains a line break or NUL") as caught:
        wire.lines([("accept", "a"), ("authorization", "Bearer secret\nmore")])
    assert "secret" not in str(caught.value)


GET = b"GET /x HTTP/1.1\r\nHost: x\r\n"
LAST = GET + b"Connection: close\r\n\r\n"


async def silent(port: int, number: int) -> list[asyncio.StreamReader]:
    """Open connections one after the other, and send nothing."""
    return [(await asyncio.open_connection("127.0.0.1", port))[0] for _ in range(number)]


async def test_silent_connections_do_not_keep_other_clients_out(serve: Serve) -> None:
    server = await serve(count, Limits(connections=4))
    readers = await silent(server.port, 20)
    assert (await said(server.port, LAST)).startswith(b"HTTP/1.1 200 ")
    assert await readers[0].read() == b"", "the oldest is closed"


async def test_clients_that_never_finish_their_handshake_do_not_keep_others_out(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    server = Server(count, ssl=server_tls, limits=Limits(connections=4))
    await server.start()
    try:
        readers = await silent(server.port, 20)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=client_tls)
        writer.write(LAST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        assert await readers[0].read() == b""
        writer.close()
    finally:
        await server.close()


async def test_a_handshake_and_a_first_request_have_a_time_limit(serve: Serve, server_tls: ssl.SSLContext) -> None:
    limits = Limits(greeting_timeout=0.3)
    server = Server(count, ssl=server_tls, limits=limits)
    await server.start()
    try:
        assert await said(server.port, b"") == b""
    finally:
        await server.close()
    plain = await serve(count, limits)
    assert await said(plain.port, b"") == b""
    assert (await said(plain.port, b"GET /x")).startswith(b"HTTP/1.1 408 ")


async def test_clients_that_have_authenticated_and_watches_survive_a_flood_of_connections(serve: Serve) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.Event().wait()

    async def handler(request: Request) -> Response:
        request.authenticated = request.headers.get("x-user") == "known"
        return Response(200, {}, endless() if request.path == "/watch" else b"done")

    server = await serve(handler, Limits(connections=8))
    watch, watcher = await asyncio.open_connection("127.0.0.1", server.port)
    watcher.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    await watch.readuntil(b"begun")
    known, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(3):
        writer.write(GET + b"X-User: known\r\n\r\n")
        await known.readuntil(b"done")
        await silent(server.port, 20)
    assert not watch.at_eof()
    for each in (watcher, writer):
        each.transport.abort()


async def test_busy_connections_are_not_closed_for_new_ones(serve: Serve) -> None:
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def wait(request: Request) -> Response:
        arrived.set()
        await proceed.wait()
        return await count(request)

    server = await serve(wait, Limits(connections=1))
    first = asyncio.create_task(said(server.port, LAST))
    await arrived.wait()
    assert await said(server.port, LAST) == b""
    proceed.set()
    assert (await first).startswith(b"HTTP/1.1 200 ")
    assert (await said(server.port, LAST)).startswith(b"HTTP/1.1 200 ")


async def test_a_server_without_file_descriptors_continues_to_accept(serve: Serve) -> None:
    server = await serve(count)
    await silent(server.port, 1)
    sockets = [socket.socket() for _ in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sockets[-1].fileno() + 1, hard))
    try:
        for each in sockets:
            each.setblocking(False)
            await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", server.port))
        sockets[-1].sendall(LAST)
        answer = await asyncio.get_running_loop().sock_recv(sockets[-1], 1000)
        assert answer.startswith(b"HTTP/1.1 200 ")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in sockets:
            each.close()


async def test_other_work_gets_its_turn_between_pipelined_requests(serve: Serve) -> None:
    served = 0
    others: list[int] = []

    async def handler(_: Request) -> Response:
        nonlocal served
        if served == 0:
            asyncio.get_running_loop().call_soon(lambda: others.append(served))
        served += 1
        return Response(200)

    server = await serve(handler)
    last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = await said(server.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500 + last)
    assert answers.count(b"HTTP/1.1 200 OK") == 501
    assert others == [1]


async def test_pipelined_requests_wait_as_bytes(serve: Serve) -> None:
    proceed = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.path != "/other":
            await proceed.wait()
        return Response(200)

    server = await serve(handler)
    one = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    begun = [asyncio.create_task(said(server.port, one * 5000 + last)) for _ in range(3)]
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(100):  # each answer takes a turn of the event loop, in which every connection is read
        writer.write(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
    writer.close()
    waiting = sum(isinstance(each, Request) and each.path == "/" for each in gc.get_objects())
    assert 3 * 16 <= waiting < 3 * 500
    proceed.set()
    for answers in await asyncio.gather(*begun):
        assert answers.count(b"HTTP/1.1 200 OK") == 5001


async def test_clients_that_do_not_read_share_a_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubewright.http.server_connection._PATIENCE", 0.0)
    body = b"a" * (20 * MEGABYTE)

    async def stream() -> AsyncIterator[bytes]:
        yield body

    async def handler(request: Request) -> Response:
        return Response(200, {}, stream() if request.path == "/stream" else body)

    server = await serve(handler, Limits(unread=50 * MEGABYTE))
    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for path in (b"/whole", b"/stream", b"/whole"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path)
        await reader.readuntil(b"\r\n\r\n")
        clients.append((reader, writer))
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await clients[0][0].readexactly(len(body))
    assert (await clients[1][0].read()).count(b"a") == len(body)
    assert len(await clients[2][0].read()) == len(body)
    for _, writer in clients:
        writer.close()


async def test_a_body_in_tiny_chunks_needs_no_more_memory_than_its_bytes(serve: Serve) -> None:
    server = await serve(count)
    chunks = b"2\r\nab\r\n" * 300_000
    tracemalloc.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(CHUNKED + chunks)
        await writer.drain()
        tracemalloc.reset_peak()
        writer.write(b"0\r\n\r\n")
        assert (await reader.readuntil(b"600000")).startswith(b"HTTP/1.1 200 ")
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
        writer.close()
    finally:
        tracemalloc.stop()


async def test_other_work_gets_its_turn_while_a_long_answer_is_written(serve: Serve) -> None:
    body = b"a" * (20 * MEGABYTE)
    others: list[str] = []

    async def handler(request: Request) -> Response:
        others.append(request.path)
        return Response(200, {}, body if request.path == "/long" else b"")

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=MEGABYTE)
    writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in await said(server.port, b"GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert len(await reader.read()) == len(body)
    assert others == ["/long", "/other"]
    writer.close()


async def test_a_client_has_to_read_a_long_answer_in_time(serve: Serve) -> None:
    async def handler(_: Request) -> Response:
        return Response(200, {}, b"a" * (40 * MEGABYTE))

    server = await serve(handler, Limits(write_timeout=0.2))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    async def read_slowly() -> None:
        while True:
            await reader.readexactly(MEGABYTE)
            await asyncio.sleep(0.05)

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await read_slowly()
    writer.close()
