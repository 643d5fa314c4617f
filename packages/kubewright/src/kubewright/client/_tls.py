"""TLS as a client of an API server: which authorities to trust, and which certificate to present.

Files of certificates and keys may be renewed while we run: each new connection uses what they hold then. Files that
cannot be used, as between the writing of a certificate and that of its key, leave in use what they held before.

Certificates are checked as Go's clients check them: chain, dates and name. What Python 3.13 asks for beyond that (RFC
5280 to the letter) is left out, since cluster CAs made by widespread tools do not have it.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from kubewright._runtime.log import get_logger
from kubewright.client._config import Config
from kubewright.machinery.errors import ConfigError

KeyPair = tuple[bytes | Path, bytes | Path]
"""Certificate and private key, in PEM."""

_log = get_logger("kubewright.client")


class ClientTLS:
    """The contexts of connections to `config`'s server that show `pair`. ConfigError names what cannot be used."""

    def __init__(self, config: Config, pair: KeyPair | None) -> None:
        self._config = config
        self._pair = pair
        self._files = [each for each in (config.ca, *(pair or ())) if isinstance(each, Path)]
        self._state = self._look()
        self._context = client_context(config, pair)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection: another one than before when the files hold something else."""
        state = self._look()
        if state != self._state:
            try:
                self._context = client_context(self._config, self._pair)
            except ConfigError as error:
                _log.warning("Certificates not reloaded, last ones kept", error=str(error))
            else:
                self._state = state
                _log.info("Certificates reloaded", files=", ".join(map(str, self._files)))
        return self._context

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_state(each) for each in self._files]


def client_context(config: Config, pair: KeyPair | None) -> ssl.SSLContext:
    """Return a context for connections to `config`'s server that shows `pair`. ConfigError names what cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca is None:
        context.load_default_certs()
    else:
        _trust(context, config.ca)
    if pair is not None:
        _show(context, *pair)
    return context


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is rewritten or replaced."""
    try:
        found = file.stat()
    except OSError:
        return None  # reading it will say why
    return found.st_mtime_ns, found.st_ino, found.st_size


def _trust(context: ssl.SSLContext, ca: bytes | Path) -> None:
    try:
        pem = ca if isinstance(ca, bytes) else ca.read_bytes()
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except OSError as error:  # SSLError is one
        raise ConfigError(f"CA {_named(ca)} cannot be used: {_why(error)}; give certificates in PEM") from error


def _show(context: ssl.SSLContext, cert: bytes | Path, key: bytes | Path) -> None:
    from tempfile import TemporaryDirectory  # it loads archivers, and in a cluster nobody has a client certificate

    both = f"client certificate {_named(cert)} with key {_named(key)}"

    def refuse() -> str:
        raise ConfigError(f"{both} cannot be used: the key is encrypted; decrypt it with `openssl pkey`")

    try:
        # OpenSSL takes files only.
        with TemporaryDirectory(prefix="kubewright-") as folder:
            context.load_cert_chain(_file(cert, folder, "cert"), _file(key, folder, "key"), password=refuse)
    except OSError as error:
        raise ConfigError(f"{both} cannot be used: {_why(error)}; give a matching pair in PEM") from error


def _file(pem: bytes | Path, folder: str, name: str) -> str:
    if isinstance(pem, Path):
        pem.open().close()  # an error here names the file; OpenSSL's does not
        return str(pem)
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(pem)
    return path


def _named(pem: bytes | Path) -> str:
    return "given as data" if isinstance(pem, bytes) else str(pem)


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
