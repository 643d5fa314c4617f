"""Who we are, request by request: the Authorization header, and credentials that change while we run.

A credential that the server refuses (401) is fetched anew once: a token may have been rotated before its time.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from kubewright.client.config import Config
from kubewright.client.tls import KeyPair
from kubewright.machinery.clock import Clock
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.log import get_logger

_log = get_logger("kubewright.client")

_TOKEN_FILE_PERIOD = timedelta(minutes=1)
"""How long a token file is believed, as in client-go; a kubelet renews one at 80 % of its life."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request is sent with."""

    authorization: str = ""
    """Value of the header; empty: none is sent."""
    pair: KeyPair | None = None
    """Certificate and key of the connection."""


class Credentials(Protocol):
    """A source of credentials."""

    def fresh(self) -> Credential | None:
        """What to send now, where that is known without asking anybody."""
        ...

    async def get(self) -> Credential:
        """What to send now. ConfigError when there is none to be had."""
        ...

    async def renew(self, refused: Credential) -> bool:
        """The server refused `refused`: get another. False when there is no other to try."""
        ...


def credentials_of(config: Config, pair: KeyPair | None, clock: Clock) -> Credentials:
    """The source that `config` names. `pair` is its client certificate."""
    if config.exec is not None:
        from kubewright.client.auth_exec import ExecCredentials  # rare, and it loads asyncio's subprocesses

        return ExecCredentials(config.exec, pair, clock)
    if config.token_file is not None:
        return TokenFile(config.token_file, pair, clock)
    if config.token is not None:
        return Static(Credential(_bearer(config.token), pair))
    if config.username is not None:
        both = f"{config.username}:{config.password or ''}".encode()
        return Static(Credential(f"Basic {base64.b64encode(both).decode()}", pair))
    return Static(Credential(pair=pair))


class Static:
    """A credential that stays as it is."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def fresh(self) -> Credential:
        return self._credential

    async def get(self) -> Credential:
        return self._credential

    async def renew(self, refused: Credential) -> bool:
        return False


class TokenFile:
    """A bearer token from a file that is rewritten from time to time.

    While the file cannot be read or is empty, the last token that it held goes on being used.
    """

    def __init__(self, path: Path, pair: KeyPair | None, clock: Clock) -> None:
        self._path = path
        self._pair = pair
        self._clock = clock
        self._credential: Credential | None = None
        self._stale_at = 0.0

    def fresh(self) -> Credential | None:
        return self._credential if self._clock.monotonic() < self._stale_at else None

    async def get(self) -> Credential:
        credential = self.fresh()
        if credential is None:
            credential = self._credential = self._read()
            self._stale_at = self._clock.monotonic() + _TOKEN_FILE_PERIOD.total_seconds()
        return credential

    async def renew(self, refused: Credential) -> bool:
        self._credential = self._read()
        return self._credential != refused

    def _read(self) -> Credential:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._credential is not None:
                _log.warning(
                    "Token file not read: going on with the last token", file=str(self._path), error=error.strerror
                )
                return self._credential
            raise ConfigError(f"token file {self._path}: {error.strerror}") from error
        if not token:
            raise ConfigError(f"token file {self._path} is empty")
        return Credential(_bearer(token), self._pair)


def pair_of(config: Config) -> KeyPair | None:
    """The client certificate that `config` itself names."""
    if config.client_cert is None and config.client_key is None:
        return None
    if config.client_cert is None or config.client_key is None:
        raise ConfigError("client_cert and client_key come together; one of them is None")
    return config.client_cert, config.client_key


def _bearer(token: str) -> str:
    return f"Bearer {token}"
