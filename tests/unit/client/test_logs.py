"""Logs of containers as streams of lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest

from kubewright.client import Client, Config
from kubewright.http.message import Pipe, Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import BadRequest, ConnectionFailed


class Kubelet:
    """Serves the log of a container."""

    def __init__(self) -> None:
        self.written = Pipe(on_abandon=self._abandon)
        self.abandoned = asyncio.Event()
        self.requests: list[Request] = []

    def _abandon(self) -> None:
        self.abandoned.set()

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, {"content-type": "text/plain"}, self.written)


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def client(kubelet: Kubelet) -> AsyncIterator[Client]:
    server = Server(kubelet.handle)
    await server.start()
    client = Client(Config(f"http://127.0.0.1:{server.port}"))
    yield client
    await client.close()
    await server.close()


async def test_lines_arrive_whole_however_the_stream_is_split(client: Client, kubelet: Kubelet) -> None:
    async with aclosing(client.logs("web-0", namespace="d", follow=True)) as lines:
        kubelet.written.write(b"one\ntwo\nthr")
        assert [await anext(lines), await anext(lines)] == ["one", "two"]
        half = "ée".encode()
        kubelet.written.write(half[:1])
        kubelet.written.write(half[1:] + b"\n\n\xff last")
        assert [await anext(lines), await anext(lines)] == ["thrée", ""]
        kubelet.written.close()
        assert [each async for each in lines] == ["� last"]


async def test_every_option_is_sent_as_a_parameter(client: Client, kubelet: Kubelet) -> None:
    kubelet.written.close()
    everything = client.logs(
        "w", namespace="d", container="c", previous=True, follow=True, since=timedelta(minutes=1), tail_lines=0,
        limit_bytes=9, timestamps=True,
    )  # fmt: skip
    assert [each async for each in everything] == []
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    kubelet.written = Pipe()
    kubelet.written.close()
    assert [each async for each in client.logs("w", namespace="d", since=moment)] == []
    first, second = kubelet.requests
    assert first.path == "/api/v1/namespaces/d/pods/w/log"
    assert {key: value for key, [value] in parse_qs(first.query).items()} == {
        "container": "c", "previous": "true", "follow": "true", "sinceSeconds": "60", "tailLines": "0",
        "limitBytes": "9", "timestamps": "true",
    }  # fmt: skip
    assert parse_qs(second.query) == {"sinceTime": ["2026-01-02T03:04:05Z"]}


async def test_leaving_the_iteration_ends_the_stream(client: Client, kubelet: Kubelet) -> None:
    async with aclosing(client.logs("w", namespace="d", follow=True)) as lines:
        kubelet.written.write(b"one\n")
        await anext(lines)
    await asyncio.wait_for(kubelet.abandoned.wait(), 10)


async def test_a_broken_log_stream_raises_an_error(client: Client, kubelet: Kubelet) -> None:
    kubelet.written.write(b"one\ntw")
    kubelet.written.close(RuntimeError("the node is gone"))
    async with aclosing(client.logs("w", namespace="d", follow=True)) as lines:
        assert await anext(lines) == "one"
        with pytest.raises(ConnectionFailed, match="in the middle of its answer"):
            await anext(lines)


async def test_a_rejected_log_request_raises_the_status() -> None:
    async def refuse(request: Request) -> Response:
        body = b'{"kind":"Status","status":"Failure","reason":"BadRequest","code":400,"message":"container is waiting"}'
        return Response(400, {"content-type": "application/json"}, body)

    server = Server(refuse)
    await server.start()
    client = Client(Config(f"http://127.0.0.1:{server.port}"))
    with pytest.raises(BadRequest, match="container is waiting"):
        await anext(client.logs("w", namespace="d"))
    await client.close()
    await server.close()
