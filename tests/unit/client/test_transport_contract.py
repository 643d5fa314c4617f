"""The guarantees of every transport: timeouts, errors and retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeAlias, TypeVar

import pytest

from kubewright.client._config import Config
from kubewright.client._transport import TIMEOUT, HandlerTransport, HTTPTransport, Transport
from kubewright.http.message import Handler, Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded
from kubewright.testing import Clock, VirtualClock, VirtualTimeLoop

from .answers import Answers, SkippingClock

T = TypeVar("T")

GET = Request("GET", "/api/v1/pods?limit=5", {"accept": "application/json"})
BUSY = Response(429, {"retry-after": "1"}, b"slow down")

Open: TypeAlias = Callable[[Handler, Clock], Awaitable[Transport]]
"""Returns a transport to a server with the given handler."""


@pytest.fixture(params=["HTTPTransport", "HandlerTransport"])
async def open_transport(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    servers: list[Server] = []
    transports: list[Transport] = []

    async def start(handler: Handler, clock: Clock) -> Transport:
        if request.param == "HandlerTransport":
            transport: Transport = HandlerTransport(handler, clock=clock)
        else:
            server = Server(handler)
            await server.start()
            servers.append(server)
            transport = HTTPTransport(Config(server=f"http://127.0.0.1:{server.port}"), clock=clock)
        transports.append(transport)
        return transport

    yield start
    for transport in transports:
        await transport.close()
    for server in servers:
        await server.close()


class Never:
    """Handler that never answers, or never ends its answer."""

    def __init__(self, *, begins: bool = False) -> None:
        self._begins = begins
        self._waits = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        if self._begins:
            return Response(200, {}, self._body())
        return await self._wait()

    async def _body(self) -> AsyncIterator[bytes]:
        yield b"begun"
        await self._wait()

    async def _wait(self) -> NoReturn:
        self._waits.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def outwaited(self, sending: Coroutine[Any, Any, T]) -> T:
        """Return what `sending` returns, after a minute has passed while this handler waits."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        task = asyncio.create_task(sending)
        await self._waits.wait()
        self._waits.clear()
        await loop.advance(60)
        return await task


async def test_the_server_gets_the_request_and_its_answer_comes_back(open_transport: Open) -> None:
    server = Answers(Response(418, {"x-test": "1"}, b"tea"))
    transport = await open_transport(server, SkippingClock())
    response = await transport.send(Request("POST", "/a?b=c", {"accept": "text/plain"}, b"body"))
    assert (response.status, response.headers["x-test"], response.body) == (418, "1", b"tea")
    (request,) = server.requests
    assert (request.method, request.target, request.headers["accept"], request.body) == (
        "POST",
        "/a?b=c",
        "text/plain",
        b"body",
    )


async def test_a_late_answer_raises_deadline_exceeded(open_transport: Open) -> None:
    server = Never()
    transport = await open_transport(server, SkippingClock())
    with pytest.raises(DeadlineExceeded, match="30 s"):
        await server.outwaited(transport.send(GET, timeout=30))
    with pytest.raises(DeadlineExceeded, match="30 s"):
        await server.outwaited(transport.send(GET, timeout=30, stream=True))


async def test_a_late_body_of_a_whole_answer_raises_deadline_exceeded(open_transport: Open) -> None:
    server = Never(begins=True)
    transport = await open_transport(server, SkippingClock())
    with pytest.raises(DeadlineExceeded):
        await server.outwaited(transport.send(GET, timeout=30))


async def test_a_stream_that_is_silent_for_too_long_raises_deadline_exceeded(open_transport: Open) -> None:
    server = Never(begins=True)
    transport = await open_transport(server, SkippingClock())
    response = await transport.send(GET, timeout=30, stream=True)
    with pytest.raises(DeadlineExceeded, match="silent"):
        await server.outwaited(response.read())


async def test_a_fence_keeps_a_request_from_being_sent(open_transport: Open) -> None:
    def closed() -> None:
        raise ConnectionFailed("the fence is closed")

    server = Answers(Response(200))
    transport = await open_transport(server, SkippingClock())
    with pytest.raises(ConnectionFailed, match="the fence is closed"):
        await transport.send(Request("POST", "/", {}, b"", None, closed))
    assert server.requests == []


async def test_any_request_is_sent_again_after_429_with_retry_after(open_transport: Open) -> None:
    server, clock = Answers(BUSY, BUSY, Response(201, {}, b"made")), SkippingClock()
    transport = await open_transport(server, clock)
    answer = await transport.send(Request("POST", "/", {}, b"body"))
    assert (answer.status, answer.body) == (201, b"made")
    assert [each.body for each in server.requests] == [b"body"] * 3
    assert all(1 <= each <= 1.25 for each in clock.slept)


@pytest.mark.parametrize(("method", "sent"), [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1)])
async def test_only_idempotent_requests_are_sent_again_after_503(open_transport: Open, method: str, sent: int) -> None:
    server = Answers(Response(503, {"retry-after": "1"}), Response(200))
    transport = await open_transport(server, SkippingClock())
    answer = await transport.send(Request(method, "/"))
    assert answer.status == (200 if sent == 2 else 503)
    assert len(server.requests) == sent


@pytest.mark.parametrize(
    "answer", [Response(429), Response(503), Response(500), Response(429, {"retry-after": "3600"}), Response(404)]
)
async def test_other_answers_are_returned_at_once(open_transport: Open, answer: Response) -> None:
    server = Answers(answer)
    transport = await open_transport(server, SkippingClock())
    assert (await transport.send(GET)).status == answer.status
    assert len(server.requests) == 1


async def test_a_request_is_sent_again_ten_times_at_most(open_transport: Open) -> None:
    server = Answers(BUSY)
    transport = await open_transport(server, SkippingClock())
    answer = await transport.send(GET)
    assert (answer.status, answer.body) == (429, b"slow down")
    assert len(server.requests) == 11


async def test_no_request_is_sent_again_after_its_timeout(open_transport: Open) -> None:
    server, clock = Answers(BUSY), SkippingClock()
    transport = await open_transport(server, clock)
    assert (await transport.send(GET, timeout=3)).status == 429
    assert sum(clock.slept) < 3


async def test_all_attempts_share_the_timeout(open_transport: Open) -> None:
    clock, attempts = VirtualClock(), asyncio.Queue[asyncio.Future[Response]]()

    async def handler(request: Request) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        attempts.put_nowait(answer)
        return await answer

    transport = await open_transport(handler, clock)
    sending = asyncio.create_task(transport.send(GET))
    first = await attempts.get()
    await clock.advance(59.95)
    first.set_result(Response(429, {"retry-after": "0"}))
    await attempts.get()  # the second attempt has the rest of the timeout: 0.05 s
    with pytest.raises(DeadlineExceeded):
        await sending


async def test_a_stream_is_sent_again_before_its_head_and_not_after(open_transport: Open) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"begun"
        raise ConnectionFailed("broken on purpose")

    server = Answers(BUSY, Response(200, {}, broken()))
    transport = await open_transport(server, SkippingClock())
    response = await transport.send(GET, stream=True)
    with pytest.raises(ConnectionFailed):
        await response.read()
    assert len(server.requests) == 2


async def test_a_timeout_error_of_a_handler_is_a_connection_error() -> None:
    async def handler(request: Request) -> Response:
        raise TimeoutError("the database is slow")

    transport = HandlerTransport(handler, clock=SkippingClock())
    with pytest.raises(ConnectionFailed, match="the database is slow"):
        await transport.send(Request("POST", "/"))
    with pytest.raises(ConnectionFailed, match="the database is slow"):
        await transport.send(Request("POST", "/"), timeout=5)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_without_a_timeout_has_the_default_one(open_transport: Open, stream: bool) -> None:
    assert TIMEOUT == 60
    server = Never()
    transport = await open_transport(server, SkippingClock())
    with pytest.raises(DeadlineExceeded, match="60 s"):
        await server.outwaited(transport.send(GET, stream=stream))
