"""Additions to the event loop's TLS connections."""

from __future__ import annotations

import asyncio
from typing import Any

from kubewright.http.message import Peer

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
