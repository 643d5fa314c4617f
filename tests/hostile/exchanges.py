"""What a fuzzer sends: steps of exchanges, which are bytes on a connection of one user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kubewright.machinery.json import JSONObject

User = Literal["admin", "tenant", "anonymous"]
Ending = Literal["answer", "silence", "abort", "half-close"]

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Bytes that a user sends on a connection, and how the exchange ends."""

    pieces: tuple[bytes, ...]
    """Written one by one: the server may receive them apart."""
    user: User = "admin"
    ending: Ending = "answer"
    """`answer`: the connection is kept for the next exchange. The others use a connection of their own: `silence`
    reads until the server closes it or says no more, `half-close` does so after the end of the sent bytes, and
    `abort` resets it without reading.
    """

    @property
    def is_head(self) -> bool:
        return self.pieces[0].startswith(b"HEAD ")

    def to_json(self) -> JSONObject:
        pieces = [piece.decode("latin-1") for piece in self.pieces]
        return {"user": self.user, "ending": self.ending, "pieces": pieces}

    @classmethod
    def from_json(cls, document: JSONObject) -> Exchange:
        pieces = tuple(piece.encode("latin-1") for piece in document["pieces"])
        return cls(pieces, document["user"], document["ending"])


@dataclass(frozen=True, slots=True)
class Step:
    """Exchanges of one area that belong together."""

    area: str
    exchanges: tuple[Exchange, ...]
    number: int = -1

    def to_json(self) -> JSONObject:
        return {"area": self.area, "exchanges": [each.to_json() for each in self.exchanges]}

    @classmethod
    def from_json(cls, document: JSONObject) -> Step:
        return cls(document["area"], tuple(Exchange.from_json(each) for each in document["exchanges"]))

    def only(self, exchanges: Iterable[Exchange]) -> Step:
        return replace(self, exchanges=tuple(exchanges))


def request(
    method: str,
    target: str,
    body: bytes = b"",
    *,
    type: str = "",
    headers: Sequence[tuple[str, str]] = (),
    user: User = "admin",
) -> Exchange:
    """Return a request with a correct head."""
    own = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} HTTP/1.1", "Host: hostile"]
    lines += ["Accept: application/json"] * ("accept" not in own)
    lines += ["User-Agent: hostile/1.0"] * ("user-agent" not in own)
    lines += [f"Content-Type: {type}"] * bool(type)
    lines += [f"Content-Length: {len(body)}"] * bool(body or method in ("POST", "PUT", "PATCH"))
    lines += [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"
    return Exchange((head + body,), user)


def described(exchange: Exchange, most: int = 1500) -> str:
    """Return an exchange as text for a person."""
    data = b"".join(exchange.pieces)
    shown: Any = data[:most]
    more = f" ... {len(data)} bytes in all" if len(data) > most else ""
    return f"[{exchange.user}, {exchange.ending}, {len(exchange.pieces)} pieces] {shown!r}{more}"
