"""The HTTP client, against valid and invalid servers."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kubewright.http.client import HTTPClient
from kubewright.http.message import Pipe, Request, Response
from kubewright.http.request_parser import Limits
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded

Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., HTTPClient]
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GET = Request("GET", "/path?a=b")


@pytest.fixture
async def scripted() -> AsyncIterator[Callable[[Script], Awaitable[int]]]:
    """A server that runs a script for each connection; returns its port."""
    servers: list[asyncio.Server] = []

    async def start(script: Script) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await script(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                return
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()


def saying(*answers: bytes) -> Script:
    """Return a script that reads a head, sends the next answer, and so on; then it closes."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)

    return script


async def chunks(response: Response, got: list[bytes] | None = None) -> list[bytes]:
    """Collect the chunks of a stream in `got`."""
    got = [] if got is None else got
    assert not isinstance(response.body, bytes)
    async for chunk in response.body:
        got.append(chunk)
    return got


async def connection_port(request: Request) -> Response:
    """Answer with the port of the client: one port is one connection."""
    assert request.peer is not None
    return Response(200, {}, request.peer.address.rpartition(":")[2].encode())


class TestConnections:
    async def test_a_connection_is_reused(self, serve: Serve, connect: Connect) -> None:
        client = connect((await serve(connection_port)).port)
        assert len({(await client.send(GET)).body for _ in range(5)}) == 1

    async def test_a_stream_that_was_read_to_its_end_returns_its_connection(
        self, serve: Serve, connect: Connect
    ) -> None:
        client = connect((await serve(connection_port)).port)
        first = await chunks(await client.send(GET, stream=True))
        assert (await client.send(GET)).body == b"".join(first)

    async def test_a_stream_with_a_late_reader_returns_its_connection(self, serve: Serve, connect: Connect) -> None:
        async def handler(request: Request) -> Response:
            return Response(200, {}, b"x" * 3_000_000 if request.path == "/large" else b"small")

        client = connect((await serve(handler)).port, max_connections=1)
        response = await client.send(Request("GET", "/large"), stream=True)
        await asyncio.sleep(0.05)
        assert sum(map(len, await chunks(response))) == 3_000_000
        assert (await client.send(GET)).body == b"small"

    async def test_requests_wait_when_all_connections_are_busy(self, serve: Serve, connect: Connect) -> None:
        busy, most, full = 0, 0, asyncio.Event()

        async def handler(request: Request) -> Response:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            if busy == 3:
                full.set()
            await full.wait()
            busy -= 1
            return Response(200)

        client = connect((await serve(handler)).port, max_connections=3)
        answers = await asyncio.gather(*(client.send(GET) for _ in range(20)))
        assert [each.status for each in answers] == [200] * 20
        assert most == 3

    async def test_streams_do_not_count_as_requests(self, serve: Serve, connect: Connect) -> None:
        async def handler(request: Request) -> Response:
            return Response(200, {}, Pipe() if request.path == "/watch" else b"")

        client = connect((await serve(handler)).port, max_connections=1)
        for _ in range(3):
            await client.send(Request("GET", "/watch"), stream=True)
        assert (await client.send(GET)).status == 200

    async def test_waiting_for_a_connection_has_a_timeout(self, serve: Serve, connect: Connect) -> None:
        go_on = asyncio.Event()

        async def handler(request: Request) -> Response:
            await go_on.wait()
            return Response(200)

        client = connect((await serve(handler)).port, max_connections=1)
        first = asyncio.create_task(client.send(GET))
        await asyncio.sleep(0.01)
        with pytest.raises(DeadlineExceeded, match=r"all 1 connections to 127.0.0.1:.* were busy for 0.05 s"):
            await client.send(GET, timeout=0.05)
        go_on.set()
        assert (await first).status == 200
        assert (await client.send(GET)).status == 200

    async def test_an_idle_connection_of_the_pool_is_closed(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        closed = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(reader, writer)
            await reader.read()
            closed.set()

        await connect(await scripted(script), idle_timeout=0.02).send(GET)
        await asyncio.wait_for(closed.wait(), 5)

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    async def test_a_request_on_a_connection_that_the_server_closed_is_sent_again(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]], method: str
    ) -> None:
        connections = 0

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % connections)(reader, writer)
            await reader.readuntil(b"\r\n\r\n")  # and closes: the answer to the second request never comes

        client = connect(await scripted(script))
        assert (await client.send(GET)).body == b"1"
        assert (await client.send(Request(method, "/"))).body == b"2"

    async def test_a_post_is_never_sent_twice(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        seen: list[bytes] = []

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(reader, writer)
            seen.append(await reader.readuntil(b"\r\n\r\n"))

        client = connect(await scripted(script))
        await client.send(GET)
        with pytest.raises(ConnectionFailed, match=r"closed the connection before it answered POST /x"):
            await client.send(Request("POST", "/x"))
        assert len(seen) == 1

    async def test_a_new_connection_that_closes_at_once_is_not_retried(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        tried = 0

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal tried
            tried += 1
            await reader.readuntil(b"\r\n\r\n")

        with pytest.raises(ConnectionFailed, match=r"before it answered GET /path"):
            await connect(await scripted(script)).send(GET)
        assert tried == 1

    async def test_a_connection_with_unexpected_data_is_not_reused(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        good = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        client = connect(await scripted(saying(good + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", good)))
        assert (await client.send(GET)).body == b""
        assert (await client.send(GET)).body == b""

    async def test_a_cancelled_caller_closes_its_connection(self, serve: Serve, connect: Connect) -> None:
        began, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(request: Request) -> Response:
            if request.path != "/slow":
                return Response(200, {}, b"mine")
            began.set()
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()
            return Response(200, {}, b"not mine")

        client = connect((await serve(handler)).port, max_connections=1)
        task = asyncio.create_task(client.send(Request("GET", "/slow")))
        await began.wait()
        task.cancel()
        await cancelled.wait()
        assert (await client.send(GET)).body == b"mine"

    async def test_closing_the_client_fails_running_requests(self, serve: Serve, connect: Connect) -> None:
        began = asyncio.Event()

        async def handler(request: Request) -> Response:
            began.set()
            await asyncio.sleep(600)
            return Response(200)

        client = connect((await serve(handler)).port)
        task = asyncio.create_task(client.send(GET))
        await began.wait()
        await client.close()
        with pytest.raises(ConnectionFailed):
            await task
        with pytest.raises(ConnectionFailed, match="is closed"):
            await client.send(GET)


class TestAnswers:
    async def test_a_body_without_a_length_ends_with_the_connection(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        port = await scripted(saying(b"HTTP/1.1 200 OK\r\n\r\nall of it"))
        assert (await connect(port).send(GET)).body == b"all of it"

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_truncated_body_is_an_error(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]], stream: bool
    ) -> None:
        for head in (b"Content-Length: 9", b"Transfer-Encoding: chunked"):
            port = await scripted(saying(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n4\r\npart"))
            with pytest.raises(ConnectionFailed, match=rf"127.0.0.1:{port} closed .* in the middle .* GET /path"):
                await (await connect(port).send(GET, stream=stream)).read()

    async def test_interim_answers_are_ignored(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        port = await scripted(saying(interim + b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"))
        answer = await connect(port).send(GET)
        assert (answer.status, answer.body, "link" in answer.headers) == (201, b"ok", False)

    async def test_the_answer_to_head_has_no_body(self, serve: Serve, connect: Connect) -> None:
        client = connect((await serve(connection_port)).port)
        head = await client.send(Request("HEAD", "/"))
        assert head.body == b""
        assert int(head.headers["content-length"]) > 0
        assert (await client.send(GET)).body != b""

    @pytest.mark.parametrize("status", [204, 304])
    async def test_some_statuses_never_have_a_body(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]], status: int
    ) -> None:
        client = connect(await scripted(saying(b"HTTP/1.1 %d No\r\nContent-Length: 5\r\n\r\n" % status)))
        assert (await client.send(GET, stream=True)).body == b""

    async def test_an_answer_that_is_not_http_is_an_error(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        port = await scripted(saying(b"SSH-2.0-OpenSSH_9.6\r\n"))
        with pytest.raises(ConnectionFailed, match=rf"127.0.0.1:{port} sent an invalid answer to GET /path"):
            await connect(port).send(GET)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_gzip_is_decompressed(self, serve: Serve, connect: Connect, stream: bool) -> None:
        text = b"the same again and again " * 10_000

        async def handler(request: Request) -> Response:
            return Response(200, {"content-encoding": "gzip"}, gzip.compress(text))

        answer = await connect((await serve(handler)).port).send(GET, stream=stream)
        assert await answer.read() == text
        assert "content-encoding" not in answer.headers

    @pytest.mark.parametrize("path", ["/plain", "/gzip", "/endless"])
    async def test_a_body_above_the_limit_is_an_error(self, serve: Serve, connect: Connect, path: str) -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield bytes(100_000)

        async def handler(request: Request) -> Response:
            match request.path:
                case "/gzip":
                    return Response(200, {"content-encoding": "gzip"}, gzip.compress(bytes(5_000_000)))
                case "/endless":
                    return Response(200, {}, endless())
                case "/plain":
                    return Response(200, {}, bytes(1001))
                case _:
                    return Response(200, {"content-encoding": "gzip"}, gzip.compress(bytes(1000)))

        client = connect((await serve(handler)).port, max_body=1000)
        assert await (await client.send(GET)).read() == bytes(1000)
        with pytest.raises(ConnectionFailed, match="its body has more than 1000 bytes"):
            await client.send(Request("GET", path))

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("begin", "piece", "why"),
        [
            (b"HTTP/1.1 200 OK\r\n", b"x-a: " + b"y" * 1000 + b"\r\n", "its head"),
            (b"HTTP/1.1 200 OK\r\nx-a: ", b"y" * 1000, "its head"),
            (b"HTTP/1.1 ", b"200 OK", "its head"),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "its head"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;", b"y" * 1000, "the framing of its body"),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
                b"x-a: " + b"y" * 1000 + b"\r\n",
                "the framing of its body",
            ),
        ],
        ids=["headers", "header", "status", "interim answers", "extension", "trailers"],
    )
    async def test_what_never_becomes_an_answer_is_an_error(
        self,
        scripted: Callable[[Script], Awaitable[int]],
        connect: Connect,
        begin: bytes,
        piece: bytes,
        why: str,
        stream: bool,
    ) -> None:
        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(begin)
            while True:
                writer.write(piece * 60)
                await writer.drain()

        port = await scripted(endless)
        expected = rf"127.0.0.1:{port} sent an invalid answer to GET /path\?a=b: "
        with pytest.raises(ConnectionFailed, match=rf"{expected}({why} has more than 1048576 bytes|)"):
            await (await connect(port).send(GET, stream=stream)).read()

    async def test_a_stream_that_inflates_without_end_is_an_error(self, serve: Serve, connect: Connect) -> None:
        bomb = gzip.compress(bytes(100 << 20))

        async def handler(request: Request) -> Response:
            return Response(200, {"content-encoding": "gzip"}, bomb)

        answer = await connect((await serve(handler)).port).send(GET, stream=True)
        with pytest.raises(ConnectionFailed, match=r"bytes of its compressed body become more than 16777216"):
            await answer.read()

    async def test_the_reader_gets_its_turn_while_tiny_chunks_arrive(
        self, scripted: Callable[[Script], Awaitable[int]], connect: Connect
    ) -> None:
        chunks = b"1\r\na\r\n" * 100_000
        answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        body = (await connect(await scripted(saying(answer))).send(GET, stream=True)).body
        assert not isinstance(body, bytes)
        sizes = [len(piece) async for piece in body]
        assert sum(sizes) == 100_000
        assert max(sizes) < 20_000

    @pytest.mark.parametrize("stream", [False, True])
    async def test_bytes_after_a_compressed_body_are_an_error(
        self, serve: Serve, connect: Connect, stream: bool
    ) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield gzip.compress(b"all")
            while True:
                yield bytes(1000)
                await asyncio.sleep(0)

        async def handler(request: Request) -> Response:
            return Response(200, {"content-encoding": "gzip"}, pieces())

        client = connect((await serve(handler)).port)
        with pytest.raises(ConnectionFailed, match="bytes follow its compressed body"):
            await (await client.send(GET, stream=stream)).read()

    async def test_bytes_outside_of_chunks_do_not_keep_a_silent_stream_open(
        self, scripted: Callable[[Script], Awaitable[int]], connect: Connect
    ) -> None:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;")
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.01)

        answer = await connect(await scripted(drip)).send(GET, stream=True, timeout=0.1)
        with pytest.raises(DeadlineExceeded, match=r"was silent for 0.1 s in the stream of GET /path\?a=b"):
            await answer.read()

    async def test_another_address_can_be_connected_to(self, serve: Serve) -> None:
        async def handler(request: Request) -> Response:
            return Response.plain(200, request.headers["host"])

        address = ("127.0.0.1", (await serve(handler)).port)
        client = HTTPClient("http://web.default.svc:80", address=address)
        assert await (await client.send(GET)).read() == b"web.default.svc:80"
        await client.close()

    async def test_invalid_or_truncated_gzip_is_an_error(self, serve: Serve, connect: Connect) -> None:
        async def handler(request: Request) -> Response:
            body = gzip.compress(b"text" * 100)
            return Response(200, {"content-encoding": "gzip"}, body[:-10] if request.path == "/cut" else b"no" + body)

        client = connect((await serve(handler)).port)
        with pytest.raises(ConnectionFailed, match="truncated its compressed answer"):
            await client.send(Request("GET", "/cut"))
        with pytest.raises(ConnectionFailed, match="invalid answer"):
            await client.send(Request("GET", "/broken"))


class TestTime:
    async def test_a_late_answer_is_an_error(self, serve: Serve, connect: Connect) -> None:
        async def handler(request: Request) -> Response:
            await asyncio.sleep(60)
            return Response(200)

        port = (await serve(handler)).port
        for stream in (False, True):
            with pytest.raises(DeadlineExceeded, match=rf"127.0.0.1:{port} did not answer GET /path.* within 0.5 s"):
                await connect(port).send(GET, timeout=0.5, stream=stream)

    async def test_a_whole_answer_must_arrive_in_time(self, serve: Serve, connect: Connect) -> None:
        async def trickle() -> AsyncIterator[bytes]:
            while True:
                yield b"."
                await asyncio.sleep(0.01)

        async def handler(request: Request) -> Response:
            return Response(200, {}, trickle())

        with pytest.raises(DeadlineExceeded):
            await connect((await serve(handler)).port).send(GET, timeout=0.5)

    async def test_a_stream_may_take_long_but_not_be_silent(self, serve: Serve, connect: Connect) -> None:
        async def slow() -> AsyncIterator[bytes]:
            for _ in range(15):
                yield b"."
                await asyncio.sleep(0.1)
            await asyncio.sleep(60)

        async def handler(request: Request) -> Response:
            return Response(200, {}, slow())

        response = await connect((await serve(handler)).port).send(GET, timeout=1, stream=True)
        got: list[bytes] = []
        with pytest.raises(DeadlineExceeded, match=r"was silent for 1 s in the stream of GET /path"):
            await chunks(response, got)
        assert b"".join(got) == b"." * 15

    async def test_a_slow_reader_does_not_make_the_server_silent(self, serve: Serve, connect: Connect) -> None:
        async def handler(request: Request) -> Response:
            return Response(200, {}, b"x" * 20_000_000)

        response = await connect((await serve(handler)).port).send(GET, timeout=0.5, stream=True)
        await asyncio.sleep(1)
        assert sum(map(len, await chunks(response))) == 20_000_000

    async def test_a_slow_reader_makes_the_server_wait(self, serve: Serve, connect: Connect) -> None:
        written = 0

        async def flood() -> AsyncIterator[bytes]:
            nonlocal written
            while True:
                yield b"x" * 65536
                written += 65536

        async def handler(request: Request) -> Response:
            return Response(200, {}, flood())

        response = await connect((await serve(handler)).port).send(GET, stream=True)
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.05)
        assert written < 64 << 20
        await response.aclose()

    async def test_connecting_has_a_timeout(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = HTTPClient(
                f"https://127.0.0.1:{listener.getsockname()[1]}", ssl=ssl.create_default_context(), connect_timeout=0.05
            )
            with pytest.raises(ConnectionFailed, match=r"cannot connect to 127.0.0.1:\d+: no connection within 0.05 s"):
                await client.send(GET)
            await client.close()


class TestAddressesAndTrust:
    async def test_the_message_for_an_unreachable_server_names_it(
        self, connect: Connect, refusing_address: str
    ) -> None:
        with pytest.raises(ConnectionFailed, match=f"^cannot connect to {refusing_address}: Connection refused$"):
            await connect(int(refusing_address.partition(":")[2])).send(GET)

    async def test_the_message_for_an_unknown_name_says_so(self) -> None:
        with pytest.raises(
            ConnectionFailed, match=r"cannot connect to nowhere.invalid:80: its name cannot be resolved"
        ):
            await HTTPClient("http://nowhere.invalid").send(GET)

    async def test_ipv6(self, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
        hosts: list[str] = []

        async def handler(request: Request) -> Response:
            hosts.append(request.headers["host"])
            return Response(200)

        server = Server(handler, host="::1", ssl=server_tls)
        try:
            await server.start()
        except ConfigError:
            pytest.skip("no IPv6 here")
        client = HTTPClient(f"https://[::1]:{server.port}", ssl=client_tls)
        assert (await client.send(GET)).status == 200
        assert hosts == [f"[::1]:{server.port}"]
        await client.close()
        await server.close()

    async def test_a_certificate_of_an_unknown_authority_is_rejected(
        self, server_tls: ssl.SSLContext, connect: Connect
    ) -> None:
        server = Server(connection_port, ssl=server_tls)
        await server.start()
        with pytest.raises(ConnectionFailed, match="its certificate is not trusted: self-signed certificate in"):
            await connect(server.port, ssl=ssl.create_default_context()).send(GET)
        await server.close()

    async def test_a_certificate_must_have_the_name_of_the_server(
        self, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, connect: Connect
    ) -> None:
        server = Server(connection_port, ssl=server_tls)
        await server.start()
        assert (await connect(server.port, ssl=client_tls, server_name="kubernetes").send(GET)).status == 200
        with pytest.raises(ConnectionFailed, match="not trusted: Hostname mismatch"):
            await connect(server.port, ssl=client_tls, server_name="other").send(GET)
        await server.close()

    @pytest.mark.parametrize("url", ["127.0.0.1:6443", "ftp://x", "https://", ""])
    def test_an_invalid_url_is_rejected(self, url: str) -> None:
        with pytest.raises(ConfigError, match="not a URL; write https://host:port"):
            HTTPClient(url)


class TestRequests:
    async def test_the_clients_headers_are_sent_with_each_request(
        self, connect: Connect, scripted: Callable[[Script], Awaitable[int]]
    ) -> None:
        heads: list[bytes] = []

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        client = connect(await scripted(script), headers=[("impersonate-group", "a, b"), ("impersonate-group", "ü")])
        await client.send(Request("POST", "/", {"accept": "x"}))
        assert b"impersonate-group: a, b\r\nimpersonate-group: \xc3\xbc\r\naccept: x\r\n" in heads[0]
        assert b"content-length: 0\r\n" in heads[0]

    @pytest.mark.parametrize(
        "request_",
        [
            Request("GET", "/a b"),
            Request("GET", "/a\r\nx: y"),
            Request("GET", "/ü"),
            Request("GET /", "/"),
            Request("GET", "/", {"x": "a\r\ny: b"}),
            Request("GET", "/", {"x\n": "a"}),
        ],
    )
    async def test_headers_and_targets_with_line_breaks_are_not_sent(self, connect: Connect, request_: Request) -> None:
        with pytest.raises(ValueError, match="line"):
            await connect(1).send(request_)

    async def test_an_early_answer_to_a_large_body_is_read(self, serve: Serve, connect: Connect) -> None:
        client = connect((await serve(connection_port, Limits(body=1000))).port)
        answer = await client.send(Request("PUT", "/", {}, b"x" * 5_000_000))
        assert answer.status == 413
