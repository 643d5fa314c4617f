"""The certificates of a manager's HTTPS servers: from files, which may be renewed, or self-signed.

Files are checked at each handshake. A renewed certificate, for example by cert-manager, is used from the next
connection on. If it cannot be read, the previous one stays in use. A self-signed certificate is valid for a year and
created at each start, so clients cannot verify it, as with kubebuilder's default.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias
from weakref import WeakSet

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.http import tls
from kubewright.machinery.errors import ConfigError

_LIFETIME: Final = timedelta(days=365)
_BACKDATED: Final = timedelta(hours=1)


class Certificate(msgspec.Struct, frozen=True):
    """Files with a certificate chain and its private key, in PEM."""

    certificate: Path
    key: Path


class SelfSigned(msgspec.Struct, frozen=True):
    """A certificate created at the start, which clients cannot verify."""


Purpose: TypeAlias = Literal["metrics", "webhook"]
"""What a server is for: the start of its flags."""


def server_context(
    certificate: Certificate | None, on_read: Callable[[], None], purpose: Purpose = "metrics"
) -> ssl.SSLContext:
    """Return the TLS context of a server with that certificate, or with a self-signed one.

    Calls `on_read` each time that files are read. Raises ConfigError if the files cannot be used, or if there are none
    and `cryptography` is not installed.
    """
    if certificate is None:
        return _self_signed()
    files = _Files(certificate, on_read, purpose)
    context = files.context

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = files.fresh()

    context.sni_callback = choose
    return context


def require_clients(context: ssl.SSLContext, ca: Path) -> None:
    """Accept only clients with a certificate that a CA in the file signed, also after the context is replaced.

    Raises ConfigError if the file cannot be used.
    """
    try:
        _require(context, ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the CA of the webhooks' clients, {ca}: {error}; provide certificates in PEM (webhook_client_ca, "
            f"--webhook-client-ca-name)"
        ) from error
    choose = context.sni_callback
    if choose is None:
        return
    known = WeakSet([context])

    def chosen(connection: ssl.SSLObject, name: str, initial: ssl.SSLContext) -> int | None:
        answer = choose(connection, name, initial)
        if connection.context not in known:
            _require(connection.context, ca)
            known.add(connection.context)
        return answer

    context.sni_callback = chosen


def _require(context: ssl.SSLContext, ca: Path) -> None:
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED


class _Files:
    """The TLS context for the current content of the files."""

    def __init__(self, certificate: Certificate, on_read: Callable[[], None], purpose: Purpose) -> None:
        self._certificate = certificate
        self._on_read = on_read
        self._log = get_logger("kubewright.manager.certificates")
        try:
            self._state = self._look()
            self.context = _context(certificate)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"certificate {certificate.certificate} with key {certificate.key}: {error}; provide a certificate and "
                f"its key in PEM (--{purpose}-cert-path, --{purpose}-cert-name, --{purpose}-cert-key)"
                f"{', or neither' if purpose == 'metrics' else ''}"
            ) from error
        on_read()

    def fresh(self) -> ssl.SSLContext:
        try:
            state = self._look()
            if state != self._state:
                self.context = _context(self._certificate)
                self._state = state
                self._on_read()
                self._log.info("Certificate reloaded", file=str(self._certificate.certificate))
        except (OSError, ssl.SSLError) as error:  # the files do not match while they are being written
            self._log.warning(
                "Certificate not reloaded", file=str(self._certificate.certificate), error=str(error) or repr(error)
            )
        return self.context

    def _look(self) -> tuple[tuple[int, int], ...]:
        found = (os.stat(path) for path in (self._certificate.certificate, self._certificate.key))
        return tuple((each.st_mtime_ns, each.st_ino) for each in found)


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def _self_signed() -> ssl.SSLContext:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ConfigError(
            "metrics over HTTPS need a certificate: provide one with --metrics-cert-path, or install the package that "
            "creates one: pip install 'kubewright[tls]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return tls.server_context(signed.public_bytes(pem), private)
