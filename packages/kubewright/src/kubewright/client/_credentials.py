"""Who we are, request by request: the Authorization header, and credentials that change while we run.

A credential that the server refuses (401) is fetched anew once: a token may have been rotated before its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.client._tls import KeyPair
from kubewright.machinery.errors import ConfigError

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
        return Credential(bearer(token), self._pair)


def bearer(token: str) -> str:
    """The Authorization header that carries `token`."""
    return f"Bearer {token}"
