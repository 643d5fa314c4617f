"""TLS contexts: of servers, made of certificates in memory, and of clients that accept any server."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the TLS context of a server with that certificate chain and private key, in PEM.

    Raises ssl.SSLError if they do not match. OpenSSL reads keys only from files: they are in memory if the system has
    such files, so that a read-only file system is enough, and otherwise in a folder of this user's own.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with ExitStack() as files:
        context.load_cert_chain(*(files.enter_context(readable(each)) for each in (certificate, key)))
    return context


def accept_any_server(context: ssl.SSLContext) -> None:
    """Accept each certificate of a server, also one of an unknown authority or of another host."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE


@contextmanager
def readable(content: bytes) -> Generator[str]:
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
