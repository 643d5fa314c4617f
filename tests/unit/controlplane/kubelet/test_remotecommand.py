"""The protocols of `kubectl exec`: what hostile clients may send."""

from __future__ import annotations

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection

from kubewright.http.websocket import WebSocket
from kubewright_controlplane.kubelet import remotecommand
from kubewright_controlplane.kubelet.remotecommand import ExecOptions, Message, Resized, WebSocketTransport


class _Tunnel:
    """The bytes of a client."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self) -> bytes:
        data, self._data = self._data[: 64 << 10], self._data[64 << 10 :]
        return data

    async def write(self, data: bytes) -> None:
        pass


async def _received(*messages: bytes) -> list[Message]:
    """Return what a session gets of messages over a WebSocket."""
    client = Connection(ConnectionType.CLIENT)
    sent = [client.send(event) for event in (*map(BytesMessage, messages), CloseConnection(code=1000))]
    socket = WebSocket(_Tunnel(b"".join(sent)), "v5.channel.k8s.io")
    transport = WebSocketTransport(socket, ExecOptions(stdin=True, stdout=True, stderr=False, terminal=True))
    return [message async for message in transport.receive()]


async def test_only_the_last_size_of_a_message_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    decode = remotecommand.msgspec.json.decode

    def counting(*args: object, **options: object) -> object:
        nonlocal decoded
        decoded += 1
        return decode(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(remotecommand.msgspec.json, "decode", counting)
    many = b"".join(b'{"Width":%d,"Height":9}' % number for number in range(10_000))
    assert await _received(b"\4" + many, b"\4" + b"{}" * 100_000, b"\4" + many + b"{}") == [
        Resized(9_999, 9),
        Resized(9_999, 9),
    ]
    assert decoded < 2_000


async def test_a_size_may_have_white_space() -> None:
    assert await _received(b'\4{"Width":80, "Height":25}\n') == [Resized(80, 25)]
