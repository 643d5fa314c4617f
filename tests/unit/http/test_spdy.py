"""Frames of SPDY/3.1, as a client encodes them."""

from __future__ import annotations

import struct
import zlib

import pytest

from kubewright.http.spdy import DICTIONARY, Data, Opened, Ping, Reset, Session


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


class Client:
    """The compressor of a client's headers."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        block = struct.pack(">I", len(headers)) + b"".join(
            struct.pack(">I", len(word)) + word.encode() for pair in headers.items() for word in pair
        )
        return control(1, struct.pack(">IIH", stream, 0, 0) + self._pack.compress(block) + self._pack.flush(2))


def test_headers_are_compressed_with_those_of_earlier_streams() -> None:
    client, session = Client(), Session()
    frames = client.open(1, streamType="error", port="80") + client.open(3, streamType="data", port="80")
    assert list(session.receive(frames)) == [
        Opened(1, {"streamtype": "error", "port": "80"}),
        Opened(3, {"streamtype": "data", "port": "80"}),
    ]


def test_frames_may_arrive_in_any_pieces() -> None:
    data = struct.pack(">II", 3, 1 << 24 | 5) + b"hello"
    frames = data + control(6, struct.pack(">I", 7)) + control(3, struct.pack(">II", 3, 5))
    session = Session()
    found = [frame for byte in frames for frame in session.receive(bytes((byte,)))]
    assert found == [Data(3, b"hello", ended=True), Ping(7), Reset(3)]


def test_window_and_settings_frames_are_ignored() -> None:
    assert list(Session().receive(control(9, bytes(8)) + control(4, bytes(4)) + control(6, bytes(4)))) == [Ping(0)]


def test_sent_frames_can_be_read() -> None:
    session = Session()
    assert list(Session().receive(session.data(3, b"hello", end=True))) == [Data(3, b"hello", ended=True)]
    assert session.pong(Ping(7)) == control(6, struct.pack(">I", 7))
    reply = session.reply(3)
    assert reply[:8] == control(2, reply[8:])[:8]
    assert zlib.decompressobj(zdict=DICTIONARY).decompress(reply[12:]) == bytes(4)


@pytest.mark.parametrize(
    "frame",
    [
        b"GET / HTTP/1.1\r\n\r\n".replace(b"G", b"\xc7", 1),
        struct.pack(">HHI", 0x8002, 6, 4) + bytes(4),
        struct.pack(">HHI", 0x8003, 1, 1 << 20),
        control(1, bytes(4)),
        control(1, bytes(10) + b"not packed"),
    ],
)
def test_data_that_is_not_spdy_is_rejected(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r"SPDY|bytes|headers"):
        list(Session().receive(frame))


def test_headers_that_decompress_to_too_much_are_rejected() -> None:
    packed = zlib.compressobj(zdict=DICTIONARY)
    body = bytes(10) + packed.compress(struct.pack(">I", 1 << 30) + bytes(1 << 20)) + packed.flush(2)
    with pytest.raises(ValueError, match="headers"):
        list(Session().receive(control(1, body)))
