"""SPDY/3.1: frames as a client encodes them, and a client on a socket."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable

import pytest

from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.http.spdy import DICTIONARY, Connection, Data, Opened, Reset, Session, accept


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


class Client:
    """The compressor of a client's headers."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        return control(1, struct.pack(">IIH", stream, 0, 0) + self.packed(**headers))

    def packed(self, **headers: str) -> bytes:
        block = struct.pack(">I", len(headers)) + b"".join(
            struct.pack(">I", len(word)) + word.encode() for pair in headers.items() for word in pair
        )
        return self._pack.compress(block) + self._pack.flush(2)


def test_headers_are_compressed_with_those_of_earlier_streams() -> None:
    client, session = Client(), Session()
    frames = client.open(1, streamType="error", port="80") + client.open(3, streamType="data", port="80")
    assert list(session.receive(frames)) == [
        Opened(1, {"streamtype": "error", "port": "80"}),
        Opened(3, {"streamtype": "data", "port": "80"}),
    ]


def test_frames_may_arrive_in_any_pieces() -> None:
    data = struct.pack(">II", 3, 1 << 24 | 5) + b"hello"
    frames = Client().open(3, streamType="data") + data + control(6, struct.pack(">I", 7))
    frames += control(3, struct.pack(">II", 3, 5))
    session = Session()
    found = [frame for byte in frames for frame in session.receive(bytes((byte,)))]
    pieces = [each for each in found if isinstance(each, Data)]
    assert b"".join(each.data for each in pieces) == b"hello"
    assert [each.ended for each in pieces] == [False] * 4 + [True]
    assert (found[0], found[-1]) == (Opened(3, {"streamtype": "data"}), Reset(3))
    assert session.outgoing() == control(6, struct.pack(">I", 7))


def test_settings_windows_and_answers_to_pings_are_ignored() -> None:
    session = Session()
    frames = control(9, bytes(8)) + control(4, bytes(4)) + control(6, struct.pack(">I", 2)) + control(7, bytes(8))
    assert list(session.receive(frames)) == []
    assert session.outgoing() == b""


def test_later_headers_of_a_stream_keep_the_compression_in_step() -> None:
    client, session = Client(), Session()
    assert list(session.receive(client.open(1, streamType="error"))) == [Opened(1, {"streamtype": "error"})]
    assert list(session.receive(control(8, struct.pack(">I", 1) + client.packed(more="yes")))) == []
    assert list(session.receive(client.open(3, streamType="data"))) == [Opened(3, {"streamtype": "data"})]


def test_sent_frames_can_be_read() -> None:
    client, session, peer = Client(), Session(), Session()
    opening = client.open(3, streamType="data")
    list(session.receive(opening))
    list(peer.receive(opening))
    sent = session.data(3, b"x" * 100_000, end=True)
    got = [each for each in peer.receive(sent) if isinstance(each, Data)]
    assert b"".join(each.data for each in got) == b"x" * 100_000
    assert [each.ended for each in got] == [False, True]
    assert session.data(3, b"more") == b""  # the stream is closed
    reply = session.accept(3)
    assert reply[:8] == control(2, reply[8:])[:8]
    assert zlib.decompressobj(zdict=DICTIONARY).decompress(reply[12:]) == bytes(4)


def test_the_window_grows_once_data_is_consumed() -> None:
    session = Session()
    list(session.receive(Client().open(1, streamType="stdin")))
    received = list(session.receive(struct.pack(">II", 1, 40_000) + bytes(40_000)))
    assert session.outgoing() == b""
    for each in received:
        assert isinstance(each, Data)
        session.consume(each)
    assert session.outgoing() == control(9, struct.pack(">II", 1, 40_000))


def test_streams_that_may_not_be_opened_are_reset() -> None:
    client, session = Client(), Session()
    opened = list(session.receive(b"".join(client.open(number) for number in (3, 2, 3, 1))))
    assert [each.stream for each in opened] == [3]
    refusals = session.outgoing()
    assert refusals == b"".join(control(3, struct.pack(">II", number, 1)) for number in (2, 3, 1))

    numbers = range(5, 2500, 2)
    opened = list(session.receive(b"".join(client.open(number) for number in numbers)))
    assert len(opened) == 999
    refused = session.outgoing()
    assert refused[:16] == control(3, struct.pack(">II", 5 + 2 * 999, 3))
    assert len(refused) == 16 * (len(numbers) - 999)


@pytest.mark.parametrize(
    "frame",
    [
        b"GET / HTTP/1.1\r\n\r\n".replace(b"G", b"\xc7", 1),
        struct.pack(">HHI", 0x8002, 6, 4) + bytes(4),
        struct.pack(">HHI", 0x8003, 1, 1 << 20),
        control(1, bytes(4)),
        control(1, bytes(10) + b"not packed"),
        Client().open(1, **{f"h{number}": "" for number in range(101)}),
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


async def test_a_connection_is_upgraded_and_ends_with_a_goodbye(serve: Callable[..., Awaitable[Server]]) -> None:
    async def echo(connection: Connection, protocol: str) -> None:
        async for frame in connection.frames():
            if isinstance(frame, Opened):
                await connection.accept(frame.stream)
            elif isinstance(frame, Data):
                await connection.send(frame.stream, protocol.encode() + b":" + frame.data, end=frame.ended)
                return

    async def handler(request: Request) -> Response:
        return accept(request, ["v4", "v3"], echo)

    server = await serve(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    upgrade = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    offered = b"X-Stream-Protocol-Version: v5\r\nX-Stream-Protocol-Version: v3\r\n"
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + upgrade + offered + b"\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 101")
    assert b"\r\nx-stream-protocol-version: v3\r\n" in head
    opening = Client().open(1, streamType="data")
    writer.write(opening + struct.pack(">II", 1, 1 << 24 | 2) + b"hi")
    session = Session()
    list(session.receive(opening))
    accepted = await reader.readexactly(8)
    await reader.readexactly(struct.unpack(">I", accepted[4:])[0])
    data = await reader.readexactly(8 + 5)
    assert list(session.receive(data)) == [Data(1, b"v3:hi", ended=True)]
    assert await reader.readexactly(16) == control(7, struct.pack(">II", 1, 0))
    writer.close()


@pytest.mark.parametrize(
    ("headers", "status", "why"),
    [
        ({"upgrade": "spdy/2", "connection": "Upgrade"}, 400, b"missing upgrade headers"),
        ({"upgrade": "SPDY/3.1", "connection": "Upgrade"}, 400, b"X-Stream-Protocol-Version does not exist"),
        (
            {"upgrade": "SPDY/3.1", "connection": "Upgrade", "x-stream-protocol-version": "v9, v8"},
            403,
            b"client supports [v9 v8], server accepts [v4 v3]",
        ),
    ],
)
def test_an_upgrade_that_is_not_possible_is_rejected(headers: dict[str, str], status: int, why: bytes) -> None:
    async def never(connection: Connection, protocol: str) -> None:
        raise AssertionError

    refused = accept(Request("POST", "/", headers), ["v4", "v3"], never)
    assert refused.status == status
    assert isinstance(refused.body, bytes)
    assert why in refused.body


class Flood:
    """A link on which a flood of frames arrives at once."""

    def __init__(self, frames: bytes) -> None:
        self._frames: bytes | None = frames

    async def receive(self) -> bytes | None:
        frames, self._frames = self._frames, None
        return frames

    async def send(self, message: bytes) -> None:
        pass


@pytest.mark.parametrize(
    "frames",
    [
        control(6, struct.pack(">I", 7)) * 10_000,
        struct.pack(">II", 9, 0) * 10_000,
        b"".join(map(Client().open, range(1, 4001, 2))),
    ],
    ids=["pings", "empty data", "streams"],
)
async def test_others_get_their_turn_in_a_flood_of_frames(frames: bytes) -> None:
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "other")
    async for _ in Connection(Flood(frames)).frames():
        pass
    order.append("end")
    assert order == ["other", "end"]
