"""Servers that send too much, too little or something else: each cost has a limit, and the error names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.apis.core.v1 import ConfigMap
from kubewright.client import Client
from kubewright.client._config import Config
from kubewright.client._logs import LINE_LIMIT, lines_of
from kubewright.client._rest import EventDecoder
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import APIError, ConnectionFailed, DecodeError, TooManyRequests

Answer = Callable[[Request], Response]
DEEP = b"[" * 100_000


@asynccontextmanager
async def client_of(answer: Answer, max_answer: int = 1_000_000) -> AsyncGenerator[Client]:
    """Serve with `answer`, and connect."""

    async def handle(request: Request) -> Response:
        return answer(request)

    server = Server(handle)
    await server.start()
    config = Config(server=f"http://127.0.0.1:{server.port}")
    client = Client(transport=HTTPTransport(config, max_answer=max_answer))
    try:
        yield client
    finally:
        await client.close()
        await server.close()


async def endless(piece: bytes) -> AsyncIterator[bytes]:
    while True:
        yield piece
        await asyncio.sleep(0)


def document(**fields: Any) -> Response:
    return Response(200, {"content-type": "application/json"}, json.dumps(fields).encode())


async def test_an_endless_answer_is_an_error() -> None:
    async with client_of(lambda _: Response(200, {}, endless(b'{"a":"' + b"x" * 10_000))) as client:
        path = "GET /api/v1/namespaces/b/configmaps/a: its body has more than 1000000 bytes"
        with pytest.raises(ConnectionFailed, match=path):
            await client.get(ConfigMap, "a", namespace="b")


async def test_an_event_without_end_is_an_error() -> None:
    decoder = EventDecoder("GET /pods", limit=1000)
    for _ in range(10):
        assert decoder.feed(b"x" * 100) == []
    with pytest.raises(DecodeError, match="GET /pods: the watch sent an event of more than 1000 bytes"):
        decoder.feed(b"x")


async def test_an_endless_error_is_cut() -> None:
    async with client_of(lambda _: Response(500, {}, endless(b"no " * 10_000))) as client:
        with pytest.raises(APIError, match=r"GET /api/v1/configmaps: 500 no no no .*\.\.\.") as caught:
            async for _ in client.watch(ConfigMap):
                pass
    assert len(str(caught.value)) < 1000


async def test_a_list_whose_pages_repeat_is_an_error() -> None:
    item = {"metadata": {"name": "a", "namespace": "b"}}
    page = document(metadata={"continue": "again", "resourceVersion": "1"}, items=[item])
    async with client_of(lambda _: page) as client:
        with pytest.raises(DecodeError, match="GET /api/v1/configmaps: the list does not end"):
            await client.list(ConfigMap)


async def test_a_list_of_empty_pages_is_an_error() -> None:
    pages = 0

    def answer(_: Request) -> Response:
        nonlocal pages
        pages += 1
        return document(metadata={"continue": f"page-{pages}", "resourceVersion": "1"}, items=[])

    async with client_of(answer) as client:
        with pytest.raises(DecodeError, match="GET /api/v1/configmaps: the list does not end"):
            await client.list(ConfigMap)
    assert pages < 200


@pytest.mark.parametrize(
    "body", [DEEP, b'{"metadata":' + DEEP, b'{"metadata":{"name":"a"', b"null", b"[]", b"5"], ids=lambda each: each[:15]
)
async def test_documents_that_are_not_objects_are_decode_errors(body: bytes) -> None:
    async with client_of(lambda _: Response(200, {}, body + b"\n")) as client:
        with pytest.raises(DecodeError):
            await client.get(ConfigMap, "a", namespace="b")
        with pytest.raises(DecodeError, match="GET /api/v1/configmaps: the answer is not a list"):
            await client.list(ConfigMap)
        with pytest.raises(DecodeError):
            async for _ in client.watch(ConfigMap):
                pass


@pytest.mark.parametrize(
    "body",
    [
        {"details": []},
        {"details": {"causes": {}}},
        {"details": {"causes": [5]}},
        {"details": {"retryAfterSeconds": "x"}},
        {"code": "x"},
        {"message": 5},
        {"metadata": []},
        [],
        5,
        DEEP.decode(),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_a_malformed_status_is_shown_as_text(body: Any) -> None:
    document = {"kind": "Status", **body} if isinstance(body, dict) else body
    data = body.encode() if isinstance(body, str) else json.dumps(document).encode()
    async with client_of(lambda _: Response(409, {}, data)) as client:
        with pytest.raises(APIError, match="GET /api/v1/namespaces/b/configmaps/a: 409 "):
            await client.get(ConfigMap, "a", namespace="b")


async def test_an_error_event_that_is_not_a_status_is_a_decode_error() -> None:
    event = b'{"type":"ERROR","object":{"kind":"Status","details":[]}}\n'
    async with client_of(lambda _: Response(200, {}, event)) as client:
        with pytest.raises(DecodeError, match="an error that is not a Status"):
            async for _ in client.watch(ConfigMap):
                pass


@pytest.mark.parametrize("delay", ["9" * 5000, "\u00b2", "-1", "1e3", "soon"])
async def test_a_delay_that_is_not_a_number_of_seconds_is_ignored(delay: str) -> None:
    async with client_of(lambda _: Response(429, {"retry-after": delay}, b"no")) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.get(ConfigMap, "a", namespace="b")
    assert not caught.value.retry_after


async def test_redirects_are_not_followed() -> None:
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.path)
        return Response(302, {"location": "http://127.0.0.1:1/elsewhere"}, b"elsewhere")

    async with client_of(answer) as client:
        with pytest.raises(APIError, match="GET /api/v1/namespaces/b/configmaps/a: 302 elsewhere"):
            await client.get(ConfigMap, "a", namespace="b")
    assert asked == ["/api/v1/namespaces/b/configmaps/a"]


async def test_a_log_line_without_end_is_yielded_in_parts() -> None:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for _ in range(20):
            yield b"x" * (1 << 20)
        yield b"end\nlast"

    lines = [line async for line in lines_of(chunks())]
    assert "".join(lines) == "x" * (20 << 20) + "endlast"
    assert max(map(len, lines)) <= LINE_LIMIT + (1 << 20)
    assert lines[-1] == "last"
