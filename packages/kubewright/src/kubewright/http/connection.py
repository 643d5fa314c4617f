"""What the connections of clients and servers share: a deadline, and additions to the event loop's TLS."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from kubewright.http.message import Peer


class Deadline:
    """Calls `on_expiry` at the time that was set last. Call `cancel` when its owner closes.

    It is cheap to move: a connection moves it with each request, and with each chunk of a stream. The timer is set
    once. If it fires too early, it is set again for the time that is left.
    """

    __slots__ = ("_due", "_loop", "_on_expiry", "_timer", "_when")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_expiry: Callable[[], None]) -> None:
        self._loop = loop
        self._on_expiry = on_expiry
        self._when: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer fires."""

    def set(self, seconds: float | None) -> None:
        """Expire `seconds` from now, or never for None."""
        if seconds is None:
            self._when = None
        else:
            self._when = when = self._loop.time() + seconds
            if when < self._due:
                self._arm(when)

    def set_at(self, when: float) -> None:
        """Expire at `when`, in the event loop's time."""
        self._when = when
        if when < self._due:
            self._arm(when)

    def cancel(self) -> None:
        self._when = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._due = math.inf

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check)
        self._due = when

    def _check(self) -> None:
        self._timer = None
        self._due = math.inf
        if self._when is None:
            return
        if self._loop.time() >= self._when:
            self._when = None
            self._on_expiry()
        else:
            self._arm(self._when)


_RECORD = 16 << 10
"""The size of the largest TLS record (RFC 8446, 5.1). A larger read buffer does not help small messages."""


def trim_buffer(transport: asyncio.BaseTransport) -> None:
    """Free the 256 KiB read buffer that the standard event loop reserves for each TLS connection.

    Without it a thousand watches cost 250 MB. The buffer's size is a class attribute, `SSLProtocol.max_size`; it is set
    on this connection's protocol alone, since other users of the event loop in this process are none of our business.
    uvloop has no such buffer: nothing is done there.
    """
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if hasattr(protocol, "_ssl_buffer"):
        protocol.max_size = _RECORD
        protocol._ssl_buffer = bytearray(_RECORD)
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the peer's address, and the common name and organizations of its certificate, if it presented one."""
    address = transport.get_extra_info("peername")
    shown = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "")
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    subject = [pair for name in certificate.get("subject", ()) for pair in name]
    return Peer(
        address=shown,
        common_name=next((value for key, value in subject if key == "commonName"), ""),
        organizations=tuple(value for key, value in subject if key == "organizationName"),
    )


def close_once(transport: asyncio.BaseTransport) -> None:
    """Close the transport once: asyncio's TLS transport cannot be aborted after a second close (Python 3.11.2)."""
    if not transport.is_closing():
        transport.close()
