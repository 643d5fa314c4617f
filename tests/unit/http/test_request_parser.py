"""The parser returns the same requests, however the network splits the bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubewright.http.message import Peer, Request
from kubewright.http.request_parser import Bodies, Limits, Refused, RequestParser

STREAM = (
    b"GET /one?a=%20b HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\n\r\n"
    b"POST /two HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-A: \xc3\xbc\xff\r\n\r\nhello"
    b"PUT /three HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n"
    b"GET /four HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n"
    b"DELETE /five HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
)


def parsed(pieces: list[bytes]) -> tuple[list[Request], str]:
    """Return the requests in `pieces`, and the reason if parsing ended early."""
    requests: list[Request] = []
    limits = Limits()
    parser = RequestParser(limits, Bodies(limits.bodies), None, Peer(), requests.append, lambda: None)
    try:
        for piece in pieces:
            parser.feed(piece)
            while parser.held is not None:
                parser.resume()
    except Refused as refusal:
        return requests, str(refusal)
    return requests, ""


def cut(stream: bytes, places: set[int]) -> list[bytes]:
    ends = [*sorted(places), len(stream)]
    return [stream[start:end] for start, end in zip([0, *ends], ends, strict=False) if start != end]


PLACES = st.sets(st.integers(1, len(STREAM) - 1))


@given(PLACES)
def test_valid_requests(places: set[int]) -> None:
    requests, refusal = parsed(cut(STREAM, places))
    assert not refusal
    assert [(each.method, each.target, each.body) for each in requests] == [
        ("GET", "/one?a=%20b", b""),
        ("POST", "/two", b"hello"),
        ("PUT", "/three", b"abcde"),
        ("GET", "/four", b""),
        ("DELETE", "/five", b""),
    ]
    assert requests[0].headers == {"host": "x", "accept": "a, b"}
    assert requests[1].headers["x-a"].encode("utf-8", "surrogateescape") == b"\xc3\xbc\xff"
    assert requests[2].headers == {"host": "x", "transfer-encoding": "chunked"}


@given(PLACES, st.integers(0, len(STREAM) - 1), st.binary(min_size=1, max_size=8))
def test_damaged_requests(places: set[int], where: int, damage: bytes) -> None:
    """They are rejected or mean something else, but the same for any pieces, and no other error is raised."""
    stream = STREAM[:where] + damage + STREAM[where + len(damage) :]
    assert parsed(cut(stream, places))[0] == parsed([stream])[0]
