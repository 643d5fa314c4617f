"""TLS for clients of an API server: the trusted authorities and the client certificate.

Files of certificates and keys may be renewed at run time. Each new connection uses their current content. If the files
are not usable, for example because a certificate is written before its key, the previous content stays in use.

Certificates are verified as by Go's clients: chain, dates and name. The additional strict checks of Python 3.13 (RFC
5280) are disabled, because the CAs of common cluster tools do not pass them.
"""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path

from kubewright._runtime.log import get_logger
from kubewright.client._config import Config
from kubewright.http.tls import accept_any_server, readable
from kubewright.machinery.errors import ConfigError

KeyPair = tuple[bytes | Path, bytes | Path]
"""Certificate and private key, in PEM."""

_log = get_logger("kubewright.client")


class ClientTLS:
    """Creates TLS contexts for connections to the server of `config` that present `pair`.

    Raises ConfigError, which names an unusable certificate or key.
    """

    def __init__(self, config: Config, pair: KeyPair | None) -> None:
        self._config = config
        self._pair = pair
        self._files = [each for each in (config.ca, *(pair or ())) if isinstance(each, Path)]
        self._state = self._look()
        self._context = client_context(config, pair)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. It is a new context if the files have changed."""
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
    """Return a context for connections to the server of `config` that presents `pair`.

    Raises ConfigError, which names an unusable certificate or key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure_skip_tls_verify:
        accept_any_server(context)
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
        return None  # the error of reading it names the reason
    return found.st_mtime_ns, found.st_ino, found.st_size


def _trust(context: ssl.SSLContext, ca: bytes | Path) -> None:
    try:
        pem = ca if isinstance(ca, bytes) else ca.read_bytes()
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except OSError as error:  # SSLError is an OSError
        raise ConfigError(f"CA {_named(ca)} cannot be used: {_why(error)}; give certificates in PEM") from error


def _show(context: ssl.SSLContext, cert: bytes | Path, key: bytes | Path) -> None:
    both = f"client certificate {_named(cert)} with key {_named(key)}"

    def refuse() -> str:
        raise ConfigError(f"{both} cannot be used: the key is encrypted; decrypt it with `openssl pkey`")

    try:
        with ExitStack() as files:  # OpenSSL takes files only
            context.load_cert_chain(_file(cert, files), _file(key, files), password=refuse)
    except OSError as error:
        raise ConfigError(f"{both} cannot be used: {_why(error)}; give a matching pair in PEM") from error


def _file(pem: bytes | Path, files: ExitStack) -> str:
    if isinstance(pem, Path):
        pem.open().close()  # this error names the file; OpenSSL's does not
        return str(pem)
    return files.enter_context(readable(pem))


def _named(pem: bytes | Path) -> str:
    return "given as data" if isinstance(pem, bytes) else str(pem)


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)
