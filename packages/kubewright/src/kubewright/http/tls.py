"""Additions to the event loop's TLS connections."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
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


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the TLS context of a server with that certificate chain and private key, in PEM.

    Raises ssl.SSLError if they do not match. OpenSSL reads keys only from files: they are in memory if the system has
    such files, so that a read-only file system is enough, and otherwise in a folder of this user's own.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with ExitStack() as files:
        context.load_cert_chain(*(files.enter_context(_readable(each)) for each in (certificate, key)))
    return context


@contextmanager
def _readable(content: bytes) -> Generator[str]:
    """Yield the path of a file with that content, which only this user can read."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("kubewright")
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    from tempfile import TemporaryDirectory  # slow to import, rarely used

    with TemporaryDirectory(prefix="kubewright-") as folder:
        path = os.path.join(folder, "pem")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        yield path


class ReloadableContext:
    """A TLS context of a server whose certificate is replaced while the server runs, from the next connection on."""

    def __init__(self, certificate: bytes, key: bytes) -> None:
        """Raises ssl.SSLError if the certificate and its key, in PEM, do not match."""
        self.context = server_context(certificate, key)
        """The context to give to the server."""
        self._current = self.context
        self.context.sni_callback = self._choose

    def load(self, certificate: bytes, key: bytes) -> None:
        """Use another certificate. Raises ssl.SSLError if it does not match its key; then the old one stays."""
        self._current = server_context(certificate, key)

    def _choose(self, connection: ssl.SSLObject, name: str | None, initial: ssl.SSLContext) -> None:
        connection.context = self._current
