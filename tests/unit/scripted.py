"""A scripted API server: the test receives each request, checks it and answers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, Object, Struct, field
from kubewright.testing import VirtualTimeLoop


class WidgetSpec(Struct):
    size: int = 0
    node: str = ""


class Widget(Object):
    __api__ = APIResource("example.com", "v1", "Widget", "widgets", "widget")

    spec: WidgetSpec = field(default_factory=WidgetSpec)


class Stream:
    """The body of a watch, written by the test."""

    def __init__(self, silence: float | None) -> None:
        self._silence = silence
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = False

    def send(self, *events: JSONObject) -> None:
        """Send these events in one chunk."""
        self.send_bytes(self.encode(*events))

    @staticmethod
    def encode(*events: JSONObject) -> bytes:
        return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)

    def send_bytes(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def end(self) -> None:
        """Close the stream, as a server does at its timeout."""
        self._chunks.put_nowait(None)

    def reset(self) -> None:
        """Break the connection."""
        self._chunks.put_nowait(ConnectionFailed("connection reset by peer"))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                chunk = await self._chunks.get()
        except TimeoutError:
            raise DeadlineExceeded(f"the stream was silent for {self._silence:g} s") from None
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    async def aclose(self) -> None:
        self.closed = True


class Call:
    """A request that waits for its answer."""

    def __init__(self, request: Request, silence: float | None) -> None:
        self.request = request
        self.method = request.method
        self.path = request.path
        self.query = dict(parse_qsl(request.query))
        self._silence = silence
        self.answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def streams_list(self) -> bool:
        return self.query.get("sendInitialEvents") == "true"

    def answer(self, document: JSONObject, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.answer_bytes(json.dumps(document).encode(), status=status, headers=headers)

    def answer_bytes(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.answered.set_result(Response(status, headers or {}, body))

    def fail(self, code: int, reason: str, message: str = "", *, retry_after: int = 0) -> None:
        document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
        self.answer(document, status=code, headers={"retry-after": str(retry_after)} if retry_after else None)

    def lose(self) -> None:
        """Reject the connection."""
        self.answered.set_exception(ConnectionFailed("connection refused"))

    def stream(self) -> Stream:
        body = Stream(self._silence)
        self.answered.set_result(Response(200, {}, body))
        return body


class Server:
    """A transport whose requests the test answers."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self.received = 0

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        call = Call(request, timeout if stream else None)
        self.received += 1
        self._calls.put_nowait(call)
        return await call.answered

    async def close(self) -> None: ...

    async def call(self) -> Call:
        """Return the next request. Fails if the client waits for something else."""
        await settle()
        assert not self._calls.empty(), "no request arrived"
        return self._calls.get_nowait()

    @property
    def idle(self) -> bool:
        """Whether no request waits for an answer."""
        return self._calls.empty()


async def settle() -> None:
    """Wait until every task waits. No time passes."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    await loop.settle()


def widget(name: str, version: int, *, size: int = 0, uid: str = "", **metadata: object) -> JSONObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
        "spec": {"size": size},
    }


def added(document: JSONObject) -> JSONObject:
    return {"type": "ADDED", "object": document}


def modified(document: JSONObject) -> JSONObject:
    return {"type": "MODIFIED", "object": document}


def deleted(document: JSONObject) -> JSONObject:
    return {"type": "DELETED", "object": document}


def bookmark(version: int, *, ends_list: bool = False) -> JSONObject:
    metadata: JSONObject = {"resourceVersion": str(version)}
    if ends_list:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}}


def error(code: int, reason: str, message: str = "") -> JSONObject:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return {"type": "ERROR", "object": status}
