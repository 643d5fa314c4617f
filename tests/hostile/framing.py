"""Bytes that are nearly HTTP: heads, chunks, upgrades and frames."""

from __future__ import annotations

from random import Random
from typing import Final

from hostile import values
from hostile.exchanges import Ending, Exchange, User

_HEADS: Final = (
    b"GET /readyz HTTP/1.1\r\nHost: a\r\n",
    b"GET /api/v1/namespaces/hostile/configmaps HTTP/1.1\r\nHost: a\r\n",
    b"HEAD /version HTTP/1.1\r\nHost: a\r\n",
    b"POST /api/v1/namespaces/hostile/configmaps HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n",
    b"GET /api/v1/pods?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: a\r\n",
    b"DELETE /api/v1/namespaces/hostile/configmaps/none HTTP/1.1\r\nHost: a\r\n",
    b"GET /readyz HTTP/1.0\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    b"GET http://b/readyz HTTP/1.1\r\nHost: a\r\n",
)
_LINES: Final = (
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: +5\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 0x5\r\n",
    b"Content-Length: 1_0\r\n",
    b"Content-Length: \xd9\xa1\r\n",
    b"Content-Length:\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding :chunked\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n",
    b"Host: b\r\n",
    b"Expect: 100-continue\r\n",
    b"Expect: x\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive, Upgrade\r\n",
    b"Upgrade: websocket\r\n",
    b"Upgrade: h2c\r\n",
    b"Upgrade: SPDY/3.1\r\n",
    b"X: a\r\n folded\r\n",
    b"X: \0\r\n",
    b": a\r\n",
    b"X\r\n",
    b"X: " + b"a" * 70000 + b"\r\n",
    b"X: a\r\n" * 300,
    b"Accept-Encoding: gzip, *;q=0\r\n",
    b"Content-Encoding: gzip\r\n",
    b"X: \xff\xfe\r\n",
    b"X y: a\r\n",
    b"X: a\n",
    b"X: a\r",
    b"Trailer: X\r\n",
    b"TE: trailers\r\n",
)
_CHUNKS: Final = (
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nX: a\r\n\r\n",
    b"5;a=b\r\nhello\r\n",
    b"5;" + b"a" * 5000 + b"\r\nhello\r\n",
    b"-5\r\nhello\r\n",
    b"0x5\r\nhello\r\n",
    b"FFFFFFFFFFFFFFFFF\r\n",
    b"ffffffff\r\nhello",
    b"5\nhello\n",
    b"5\r\nhell",
    b"\r\n",
    b" 5\r\nhello\r\n",
    b"5 \r\nhello\r\n",
    b"1\r\na\r\n" * 500,
    b"0" * 3000 + b"5\r\nhello\r\n",
    b"0\r\nTransfer-Encoding: x\r\nContent-Length: 5\r\n\r\n",
)
_WEBSOCKET: Final = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
_KEY: Final = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
_SPDY: Final = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
_BEARER: Final = b"base64url.bearer.authorization.k8s.io.YQ, base64.channel.k8s.io"
_UPGRADES: Final = (
    _WEBSOCKET + _KEY + b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
    _WEBSOCKET + _KEY + b"Sec-WebSocket-Protocol: " + _BEARER + b"\r\n",
    _WEBSOCKET + b"Sec-WebSocket-Key: a\r\n",
    _WEBSOCKET.replace(b"13", b"99"),
    _SPDY,
    _SPDY + b"".join(b"X-Stream-Protocol-Version: v%d.channel.k8s.io\r\n" % version for version in (4, 3)),
)
_STREAMED: Final = (
    b"/api/v1/namespaces/hostile/pods/hostile-a/exec?command=a&stdout=1&stdin=1",
    b"/api/v1/namespaces/hostile/pods/hostile-a/attach?stdin=1",
    b"/api/v1/namespaces/hostile/pods/hostile-a/portforward?ports=80",
    b"/api/v1/namespaces/hostile/pods/running/exec?command=a&stdout=1&stdin=1",
    b"/api/v1/namespaces/hostile/pods/hostile-a/log?follow=true",
    b"/api/v1/namespaces/hostile/services/a/proxy/",
    b"/api/v1/namespaces/hostile/configmaps?watch=1&timeoutSeconds=1",
    b"/readyz",
    b"/api/v1/nodes/a/proxy/logs",
)
_ENDINGS: Final[tuple[Ending, ...]] = ("silence", "silence", "half-close", "abort")


def framing(rng: Random) -> list[Exchange]:
    """Send bytes that are nearly HTTP, in pieces."""
    pick = rng.random()
    if pick < 0.05:
        data = _flood(rng)
    elif pick < 0.25:
        data = _upgrade(rng)
    elif pick < 0.35:
        data = rng.choice(
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0",
                rng.randbytes(200),
                b"\r\n" * 200 + _HEADS[0] + b"\r\n",
                b"\0",
                b"GET / HTTP/1.1",
                b"GET /" + b"a" * 70000,
            )
        )
    else:
        data = b"".join(_message(rng) for _ in range(rng.choice((1, 1, 2, 4, 20))))
    if rng.random() < 0.15:
        data = values.damaged(rng, data, rng.choice((1, 3)))
    user: User = rng.choice(("admin", "admin", "anonymous", "tenant"))
    return [Exchange(_pieces(rng, data), user, rng.choice(_ENDINGS)) for _ in range(rng.choice((1, 1, 1, 5)))]


def _message(rng: Random) -> bytes:
    """Return a request: correct, or with lines and chunks that do not go together."""
    head = rng.choice(_HEADS)
    body = rng.choice((b'{"metadata":{"name":"hostile-f"}}', b"hello", b"{}", b""))
    pick = rng.random()
    if pick < 0.3:
        return head + (b"Content-Length: %d\r\n" % len(body)) * bool(body) + b"\r\n" + body
    if pick < 0.5:
        chunked = b"".join(b"%x\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body))) + b"0\r\n\r\n"
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked
    if pick < 0.7:
        return (
            head
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"".join(rng.choice(_CHUNKS) for _ in range(rng.choice((1, 2, 4))))
        )
    return (
        head
        + b"".join(rng.choice(_LINES) for _ in range(rng.choice((1, 1, 2, 4))))
        + b"\r\n"
        + rng.choice((body, body, rng.choice(_CHUNKS)))
    )


def _flood(rng: Random) -> bytes:
    """Return many small things in a row, of which each is cheap."""
    count = rng.choice((500, 3000, 10_000))
    if rng.random() < 0.4:
        return rng.choice(_HEADS[:3]).join([b""] + [b"\r\n"] * count)
    if rng.random() < 0.5:
        return _HEADS[3] + b"Transfer-Encoding: chunked\r\n\r\n" + rng.choice(_CHUNKS[:1] + _CHUNKS[3:4]) * count
    upgrade = rng.choice(_UPGRADES[:1] + _UPGRADES[-1:])
    head = b"GET " + rng.choice(_STREAMED) + b" HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\r\n"
    return head + _frame(rng) * count


def _upgrade(rng: Random) -> bytes:
    method = rng.choice((b"GET", b"GET", b"POST"))
    head = method + b" " + rng.choice(_STREAMED) + b" HTTP/1.1\r\nHost: a\r\n" + rng.choice(_UPGRADES) + b"\r\n"
    return head + b"".join(_frame(rng) for _ in range(rng.choice((0, 1, 3))))


def _frame(rng: Random) -> bytes:
    if rng.random() < 0.4:
        return rng.choice(
            (
                b"\x80\x03\0\x01\0\0\0\x0a" + rng.randbytes(10),
                b"\x80\x03\0\x04\0\0\0\x0c" + b"\xff" * 12,
                b"\x80\x03\0\x01\x01\xff\xff\xff" + b"x" * 50,
                b"\0\0\0\x01\x01\0\0\x05hello",
                b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01",
            )
        )
    payload = rng.choice(
        (b"", b"\0hello", b"\x04{}", b"\xffx", rng.randbytes(60), b'\x04{"Width":-1,"Height":99999999}', b"\x03\xe8bye")
    )
    operation = rng.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x80, 0x83, 0xF2))
    size = rng.choice(
        (
            bytes([0x80 | len(payload)]),
            bytes([len(payload)]),
            b"\xff" + b"\xff" * 8,
            b"\xfe\0\x05",
            b"\xff\0\0\0\0\x7f\xff\xff\xff",
        )
    )
    return bytes([operation]) + size + b"\0\0\0\0" * (size[0] >> 7) + payload


def _pieces(rng: Random, data: bytes) -> tuple[bytes, ...]:
    if rng.random() < 0.5 or len(data) < 2:
        return (data,)
    cuts = sorted({rng.randrange(1, len(data)) for _ in range(rng.choice((1, 2, 5)))})
    return tuple(data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True))
