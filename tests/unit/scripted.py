"""An API server whose every answer the test gives by hand: what arrives is taken, looked at, and answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConnectionFailed, DeadlineExceeded
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, Object, Struct, field
from kubewright.testing import VirtualClock


class WidgetSpec(Struct):
    size: int = 0
    node: str = ""


class Widget(Object):
    __api__ = APIResource("example.com", "v1", "Widget", "widgets", "widget")

    spec: WidgetSpec = field(default_factory=WidgetSpec)


class Stream:
    """The body of a watch that the test feeds."""

    def __init__(self, clock: VirtualClock, silence: float | None) -> None:
        self._clock = clock
        self._silence = silence
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = False

    def send(self, *events: JSONObject) -> None:
        """These, in one chunk."""
        self.send_bytes(self.encode(*events))

    @staticmethod
    def encode(*events: JSONObject) -> bytes:
        return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)

    def send_bytes(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)

    def end(self) -> None:
        """The server has closed the stream, as it does when its time is over."""
        self._chunks.put_nowait(None)

    def reset(self) -> None:
        """The connection is lost."""
        self._chunks.put_nowait(ConnectionFailed("connection reset by peer"))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        timer = None
        if self._silence is not None:
            silent = DeadlineExceeded(f"the stream was silent for {self._silence:g} s")
            timer = self._clock.call_later(self._silence, lambda: self._chunks.put_nowait(silent))
        try:
            chunk = await self._chunks.get()
        finally:
            if timer is not None:
                timer.cancel()
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    async def aclose(self) -> None:
        self.closed = True


class Call:
    """One request that waits for its answer."""

    def __init__(self, clock: VirtualClock, request: Request, silence: float | None) -> None:
        self.request = request
        self.method = request.method
        self.path = request.path
        self.query = dict(parse_qsl(request.query))
        self._clock = clock
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
        """There is no answer: the connection is refused."""
        self.answered.set_exception(ConnectionFailed("connection refused"))

    def stream(self) -> Stream:
        body = Stream(self._clock, self._silence)
        self.answered.set_result(Response(200, {}, body))
        return body


class Server:
    """A transport with the test at its other end."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self.received = 0

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        call = Call(self._clock, request, timeout if stream else None)
        self.received += 1
        self._calls.put_nowait(call)
        return await call.answered

    async def close(self) -> None: ...

    async def call(self) -> Call:
        """The next request; fails when none has come."""
        for _ in range(50):
            if not self._calls.empty():
                break
            await asyncio.sleep(0)
        assert not self._calls.empty(), "no request has come"
        return self._calls.get_nowait()

    @property
    def idle(self) -> bool:
        """No request waits."""
        return self._calls.empty()


async def settle() -> None:
    """Let everybody do what can be done now."""
    for _ in range(50):
        await asyncio.sleep(0)


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
