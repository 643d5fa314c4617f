"""The HTTP server, as clients see it over a socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from email.utils import formatdate, parsedate_to_datetime

import pytest
import trustme

from kubewright.http.client import HTTPClient
from kubewright.http.message import Handler, Peer, Pipe, Request, Response, Tunnel
from kubewright.http.request_parser import Limits
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError, ConnectionFailed

Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., HTTPClient]

HOST = b"Host: x\r\n"


async def echo(request: Request) -> Response:
    """Answer with the request."""
    return Response(200, {"x-method": request.method}, request.target.encode() + b" " + request.body)


async def talk(port: int, *said: bytes) -> bytes:
    """Send bytes, in pieces, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in said:
        writer.write(piece)
        await asyncio.sleep(0.01)
    try:
        return await reader.read()
    finally:
        writer.close()


def last(request: bytes) -> bytes:
    """Return the request, as the last one of its connection."""
    return request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


async def test_a_request_arrives_with_its_body_and_its_headers_in_lower_case(serve: Serve) -> None:
    arrived: list[Request] = []

    async def handler(request: Request) -> Response:
        arrived.append(request)
        return Response(201, {"content-type": "text/plain"}, b"made")

    server = await serve(handler)
    said = await talk(
        server.port,
        last(b"POST /a%20b?c=d HTTP/1.1\r\n" + HOST + b"X-Two: a\r\nx-two: b\r\nContent-Length: 3\r\n\r\nabc"),
    )
    assert said.startswith(b"HTTP/1.1 201 Created\r\n")
    assert said.endswith(b"\r\n\r\nmade")
    assert b"content-length: 4\r\n" in said
    (request,) = arrived
    assert (request.method, request.path, request.query, request.body) == ("POST", "/a%20b", "c=d", b"abc")
    assert request.headers["x-two"] == "a, b"


async def test_a_chunked_body_is_joined(serve: Serve) -> None:
    server = await serve(echo)
    head = last(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
    said = await talk(server.port, head, b"3\r\nab", b"c\r\n2;ext=1\r\nde\r\n0\r\n", b"X-Trailer: ignored\r\n\r\n")
    assert said.endswith(b"/ abcde")


async def test_pipelined_requests_are_answered_in_their_order(serve: Serve) -> None:
    async def slow_first(request: Request) -> Response:
        await asyncio.sleep(0.05 if request.path == "/0" else 0)
        return Response(200, {}, request.target.encode())

    server = await serve(slow_first)
    requests = [b"GET /%d HTTP/1.1\r\n" % index + HOST + b"\r\n" for index in range(40)]
    said = await talk(server.port, b"".join(requests) + last(b"GET /end HTTP/1.1\r\n" + HOST + b"\r\n"))
    assert said.count(b"HTTP/1.1 200 OK") == 41
    places = [said.index(b"\r\n\r\n/%d" % index) for index in range(40)]
    assert places == sorted(places)
    assert said.endswith(b"/end")


async def test_a_client_that_waits_gets_100_continue(serve: Serve) -> None:
    server = await serve(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"abc")
    assert b"content-length: 5\r\n" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(5) == b"/ abc"
    writer.close()


async def test_the_answer_to_head_has_a_length_and_no_body(serve: Serve) -> None:
    server = await serve(echo)
    said = await talk(server.port, last(b"HEAD /abc HTTP/1.1\r\n" + HOST + b"\r\n"))
    assert said.endswith(b"\r\n\r\n")
    assert b"content-length: 5\r\n" in said


async def test_an_answer_without_a_body_has_no_length(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(204)

    server = await serve(handler)
    said = await talk(server.port, last(b"DELETE / HTTP/1.1\r\n" + HOST + b"\r\n"))
    assert said.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"content-length" not in said


async def test_a_client_of_http_1_0_gets_a_stream_without_chunks(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {}, numbers(3))

    server = await serve(handler)
    said = await talk(server.port, b"GET / HTTP/1.0\r\n\r\n")
    assert said.endswith(b"\r\n\r\n012")
    assert b"chunked" not in said


async def numbers(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d" % number


async def test_an_upgrade_that_is_not_supported_is_ignored(serve: Serve) -> None:
    server = await serve(echo)
    upgrade = b"GET /one HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    said = await talk(server.port, upgrade + last(b"GET /two HTTP/1.1\r\n" + HOST + b"\r\n"))
    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert said.endswith(b"/two ")


async def shout(request: Request) -> Response:
    """Change to a protocol that answers in capitals, until the client sends the end."""

    async def speak(tunnel: Tunnel) -> None:
        while (said := await tunnel.read()) and said != b"stop":
            await tunnel.write(said.upper())

    return Response(101, {"upgrade": "shouting"}, tunnel=speak)


UPGRADE = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: shouting\r\n\r\n"


async def test_a_handler_that_accepts_an_upgrade_gets_the_connection(serve: Serve) -> None:
    server = await serve(shout)
    said = await talk(server.port, UPGRADE + b"first", b"second", b"stop")
    head, _, rest = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"upgrade: shouting\r\n" in head
    assert b"connection: Upgrade" in head
    assert rest == b"FIRSTSECOND"


async def test_a_tunnel_ends_when_its_client_or_the_server_closes(serve: Serve) -> None:
    ended: list[str] = []

    async def handler(request: Request) -> Response:
        async def speak(tunnel: Tunnel) -> None:
            try:
                await tunnel.read()
            finally:
                ended.append(request.target)

        return Response(101, {"upgrade": "x"}, tunnel=speak)

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    await server.close()
    assert await reader.read() == b""
    assert ended == ["/", "/"]
    writer.close()


async def test_a_tunnel_waits_for_a_client_that_does_not_read(serve: Serve) -> None:
    written = 0

    async def handler(request: Request) -> Response:
        async def speak(tunnel: Tunnel) -> None:
            nonlocal written
            for _ in range(1000):
                await tunnel.write(bytes(64 << 10))
                written += 1

        return Response(101, {"upgrade": "x"}, tunnel=speak)

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(0.2)
    assert written < 1000
    assert len(await reader.read()) == 1000 * (64 << 10)
    writer.close()


async def test_a_tunnel_cannot_be_written_after_its_client_has_left(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()

    async def handler(request: Request) -> Response:
        async def write_on(tunnel: Tunnel) -> None:
            try:
                while True:
                    await tunnel.write(b"x")
                    await asyncio.sleep(0)
            except ConnectionFailed:
                failed.set()

        async def speak(tunnel: Tunnel) -> None:
            writing = asyncio.create_task(write_on(tunnel))
            try:
                await tunnel.read()
            finally:
                await writing

        return Response(101, {"upgrade": "x"}, tunnel=speak)

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    async with asyncio.timeout(20):
        await failed.wait()
    assert not caplog.records


REFUSED = {
    "length and chunks": (
        400,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    "chunks and length": (
        400,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    ),
    "two lengths": (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n"),
    "a list of lengths": (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\n"),
    "a signed length": (400, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\n"),
    "a space before the colon": (400, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n"),
    "another coding": (501, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    "chunks not last": (400, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"),
    "chunks in HTTP/1.0": (501, b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "bare line feeds": (400, b"GET / HTTP/1.1\nHost: x\n\n"),
    "a folded line": (400, b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
    "HTTP/2 without asking": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "an unknown version": (505, b"GET / HTTP/2.0\r\nHost: x\r\n\r\n"),
    "not HTTP": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "a proxy's method": (405, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "an upgrade with a body": (
        400,
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: y\r\nContent-Length: 26\r\n\r\n",
    ),
    "an unknown expectation": (417, b"POST / HTTP/1.1\r\nHost: x\r\nExpect: coffee\r\nContent-Length: 1\r\n\r\n"),
    "a body over the limit": (413, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"),
    "chunks over the limit": (
        413,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"a" * 1001 + b"\r\n0\r\n\r\n",
    ),
    "a head over the limit": (431, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2000 + b"\r\n\r\n"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_ambiguous_and_oversized_requests_are_rejected(serve: Serve, case: str) -> None:
    """The connection is also closed, so that the following bytes are never read as a request."""
    called: list[Request] = []

    async def handler(request: Request) -> Response:
        called.append(request)
        return Response(200)

    status, request = REFUSED[case]
    server = await serve(handler, Limits(head=1000, body=1000))
    said = await talk(server.port, request + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    assert said.count(b"date: ") == 1
    assert b"connection: close\r\n" in said
    assert not called


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"GET /", b""])
async def test_an_endless_line_is_rejected(serve: Serve, begun: bytes) -> None:
    server = await serve(echo, Limits(head=1000))
    said = await talk(server.port, begun + b"A" * 600, b"A" * 600)
    assert said.startswith(b"HTTP/1.1 431 " if begun else b"HTTP/1.1 400 ")


async def test_a_rejection_follows_the_answers_before_it(serve: Serve) -> None:
    server = await serve(echo)
    said = await talk(server.port, b"GET /good HTTP/1.1\r\n" + HOST + b"\r\n" + b"rubbish\r\n\r\n")
    assert said.index(b"/good") < said.index(b"HTTP/1.1 400")


async def test_an_incomplete_request_times_out(serve: Serve) -> None:
    server = await serve(echo, Limits(read_timeout=0.5))
    said = await talk(server.port, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nabc")
    assert said.startswith(b"HTTP/1.1 408 ")


async def test_an_idle_connection_is_closed(serve: Serve) -> None:
    server = await serve(echo, Limits(idle_timeout=0.5))
    said = await talk(server.port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")


async def test_any_port_on_all_interfaces_is_one_port() -> None:
    server = Server(echo, host="", port=0)
    await server.start()
    try:
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            _, writer = await asyncio.open_connection(host, server.port)
            writer.close()
    finally:
        await server.close()


async def test_an_exception_in_the_handler_is_a_500_and_logged(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/cancelled":
            raise asyncio.CancelledError
        raise RuntimeError("the secret reason")

    client = connect((await serve(handler)).port)
    for path in ("/broken", "/cancelled"):
        response = await client.send(Request("GET", path))
        assert (response.status, response.body) == (500, b"internal server error\n")
        assert path in caplog.text
    assert "the secret reason" in caplog.text


async def test_a_header_with_a_line_break_is_never_sent(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {"warning": "a\r\nset-cookie: b"})

    client = connect((await serve(handler)).port)
    response = await client.send(Request("GET", "/"))
    assert response.status == 500
    assert "set-cookie" not in response.headers
    assert "line break" in caplog.text


async def test_a_handler_is_cancelled_when_its_client_disconnects(serve: Serve) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        began.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Response(200)

    server = await serve(handler)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    await began.wait()
    writer.close()
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_a_stream_is_closed_when_its_client_disconnects(serve: Serve, connect: Connect) -> None:
    abandoned = asyncio.Event()
    pipe = Pipe(on_abandon=abandoned.set)
    generator_closed = asyncio.Event()

    async def forever() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"tick"
                await asyncio.sleep(0.01)
        finally:
            generator_closed.set()

    async def handler(request: Request) -> Response:
        return Response(200, {}, pipe if request.path == "/pipe" else forever())

    client = connect((await serve(handler)).port)
    for path, closed in (("/pipe", abandoned), ("/generator", generator_closed)):
        response = await client.send(Request("GET", path), stream=True)
        await response.aclose()
        await asyncio.wait_for(closed.wait(), 60)


async def test_a_client_that_does_not_read_is_disconnected(serve: Serve) -> None:
    written = 0
    closed = asyncio.Event()

    async def flood() -> AsyncIterator[bytes]:
        nonlocal written
        try:
            while True:
                yield b"x" * 65536
                written += 65536
        finally:
            closed.set()

    async def handler(request: Request) -> Response:
        return Response(200, {}, flood())

    server = await serve(handler, Limits(write_timeout=0.1))
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    await asyncio.wait_for(closed.wait(), 60)
    assert written < 100 << 20, "more was written than sockets hold: nobody waited for the client"
    writer.close()


async def test_a_stream_that_exceeds_its_limit_never_looks_complete(serve: Serve) -> None:
    pipe = Pipe(limit=10)
    pipe.write(b"first")

    async def handler(request: Request) -> Response:
        return Response(200, {}, pipe)

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert await reader.readuntil(b"first\r\n")
    assert not pipe.write(b"more than ten bytes")
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readuntil(b"0\r\n\r\n")
    writer.close()


async def test_a_stream_that_fails_is_incomplete_and_logged(
    serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"so far"
        raise RuntimeError("no further")

    async def handler(request: Request) -> Response:
        return Response(200, {}, broken())

    client = connect((await serve(handler)).port)
    with pytest.raises(ConnectionError, match="in the middle of its answer"):
        await client.send(Request("GET", "/"))
    assert "no further" in caplog.text


async def test_the_clients_certificate_identifies_it(
    ca: trustme.CA, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, connect: Connect
) -> None:
    peers: list[Peer | None] = []

    async def handler(request: Request) -> Response:
        peers.append(request.peer)
        return Response(200)

    server = Server(handler, ssl=server_tls)
    await server.start()
    await connect(server.port, ssl=client_tls).send(Request("GET", "/"))
    ca.issue_cert("x", common_name="alice", organization_name="system:masters").configure_cert(client_tls)
    await connect(server.port, ssl=client_tls).send(Request("GET", "/"))
    await server.close()
    anonymous, alice = peers
    assert anonymous is not None
    assert (anonymous.common_name, anonymous.organizations) == ("", ())
    assert anonymous.address.startswith("127.0.0.1:")
    assert alice is not None
    assert (alice.common_name, alice.organizations) == ("alice", ("system:masters",))


@pytest.mark.asyncio(loop_factories=["asyncio"])  # uvloop's buffers are never touched, so they cost addresses only
async def test_a_watch_over_tls_holds_no_large_buffers(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, connect: Connect
) -> None:
    async def handler(request: Request) -> Response:
        return Response(200, {}, Pipe())

    server = Server(handler, ssl=server_tls)
    await server.start()
    client = connect(server.port, ssl=client_tls)
    await client.send(Request("GET", "/"), stream=True)
    tracemalloc.start()
    for _ in range(10):
        await client.send(Request("GET", "/"), stream=True)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10 * 128 * 1024, "both ends together; the standard event loop's own buffers are 512 KiB"
    await server.close()


class TestClosing:
    async def test_closing_answers_running_requests_and_accepts_no_others(self, serve: Serve, connect: Connect) -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> Response:
            began.set()
            await go_on.wait()
            return Response(200, {}, b"done")

        server = await serve(handler)
        client = connect(server.port)
        under_way = asyncio.create_task(client.send(Request("GET", "/")))
        await began.wait()
        closing = asyncio.create_task(server.close(grace=600))
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionError, match="refused"):
            await client.send(Request("GET", "/late"))
        go_on.set()
        assert (await under_way).body == b"done"
        await asyncio.wait_for(closing, 60)

    async def test_closing_ends_streams_properly(self, serve: Serve, connect: Connect) -> None:
        pipe = Pipe()
        pipe.write(b"event")

        async def handler(request: Request) -> Response:
            return Response(200, {}, pipe)

        server = await serve(handler)
        response = await connect(server.port).send(Request("GET", "/"), stream=True)
        assert not isinstance(response.body, bytes)
        assert await anext(response.body) == b"event"
        closing = asyncio.create_task(server.close(grace=600))
        assert [chunk async for chunk in response.body] == []
        await asyncio.wait_for(closing, 60)
        assert pipe.closed

    async def test_handlers_that_exceed_the_grace_period_are_cancelled(self, serve: Serve, connect: Connect) -> None:
        began, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> Response:
            began.set()
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()
            return Response(200)

        server = await serve(handler)
        under_way = asyncio.create_task(connect(server.port).send(Request("GET", "/")))
        await began.wait()
        await server.close(grace=0.01)
        assert cancelled.is_set()
        with pytest.raises(ConnectionError):
            await under_way

    async def test_a_client_that_never_completes_its_handshake_does_not_delay_closing(
        self, server_tls: ssl.SSLContext
    ) -> None:
        server = Server(echo, ssl=server_tls)
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.sleep(0.01)
        await asyncio.wait_for(server.close(), 60)
        writer.close()

    async def test_idle_connections_are_closed_at_once(self, serve: Serve, connect: Connect) -> None:
        server = await serve(echo)
        await connect(server.port).send(Request("GET", "/"))
        await asyncio.wait_for(server.close(grace=600), 60)


async def test_a_port_in_use_is_reported(serve: Serve) -> None:
    server = await serve(echo)
    with pytest.raises(ConfigError, match=rf"127.0.0.1:{server.port} is in use by another process; .*choose another"):
        await Server(echo, port=server.port).start()


async def test_answers_have_the_date(serve: Serve, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    response = await connect((await serve(echo)).port).send(Request("GET", "/"))
    date = response.headers["date"]
    assert date == formatdate(parsedate_to_datetime(date).timestamp(), usegmt=True)


def test_the_send_method_of_a_client_is_a_handler() -> None:
    """Types: either side of a connection is a Handler."""
    handlers: list[Handler] = [echo, HTTPClient("http://127.0.0.1:1").send]
    assert len(handlers) == 2
