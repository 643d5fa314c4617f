"""Authentication: the credentials that a configuration names, and how they are renewed while the program runs.

A credential that the server rejects (401) is fetched again once: a token may have been replaced before it expired.

A program (an exec plugin of a kubeconfig) is run when a credential is first needed, again when its credential has
expired, and again when the server rejects it. It never runs twice at the same time. After a failure it does not run
again for `PAUSE` seconds, and requests raise the error of the failure. A program that may ask its user for input gets
the terminal, if there is one, and unlimited time.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import base64
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.client._config import Config, ExecPlugin
from kubewright.client._tls import KeyPair
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

_log = get_logger("kubewright.client")

_TOKEN_FILE_PERIOD: Final = timedelta(minutes=1)
"""How long a token read from a file is cached, as in client-go. A kubelet renews a token at 80 % of its life."""

PAUSE: Final = 5.0
"""Seconds after a failed exec plugin before it is run again: a program whose login has expired would prompt for each
request.
"""

_PLUGIN_TIMEOUT: Final = 60.0
"""Time limit in seconds for an exec plugin that is not interactive."""


class Credential(msgspec.Struct, frozen=True):
    """Credentials that authenticate a request."""

    authorization: str = ""
    """Value of the Authorization header; empty if none is sent."""
    pair: KeyPair | None = None
    """Certificate and key of the connection."""


class Credentials(Protocol):
    """A source of credentials."""

    def fresh(self) -> Credential | None:
        """Return the credential to send now; None if `get` has to fetch one."""
        ...

    async def get(self) -> Credential:
        """Return the credential to send now. Raises ConfigError if none can be fetched."""
        ...

    async def renew(self, refused: Credential) -> bool:
        """Fetch another credential after the server rejected `refused`. Returns False if there is no other."""
        ...


class Static:
    """A credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def fresh(self) -> Credential:
        return self._credential

    async def get(self) -> Credential:
        return self._credential

    async def renew(self, refused: Credential) -> bool:
        return False


class TokenFile:
    """A bearer token from a file that is replaced from time to time.

    While the file cannot be read or is empty, its last token stays in use.
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
                _log.warning("Token file not read, last token kept", file=str(self._path), error=error.strerror)
                return self._credential
            raise ConfigError(f"token file {self._path}: {error.strerror}") from error
        if not token:
            raise ConfigError(f"token file {self._path} is empty")
        return Credential(bearer(token), self._pair)


def bearer(token: str) -> str:
    """Return the Authorization header that carries `token`."""
    return f"Bearer {token}"


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


class ExecCredentials:
    """The token, client certificate or both that `plugin` prints. `pair` is used with a token alone."""

    def __init__(self, plugin: ExecPlugin, pair: KeyPair | None, clock: Clock) -> None:
        self._plugin = plugin
        self._pair = pair
        self._clock = clock
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()
        self._failure = ""
        """The error of the last run."""
        self._failed_at = 0.0

    def fresh(self) -> Credential | None:
        return None if self._expires is not None and self._clock.now() >= self._expires else self._credential

    async def get(self) -> Credential:
        async with self._running:
            return self.fresh() or await self._fetch()

    async def renew(self, refused: Credential) -> bool:
        async with self._running:
            if self._credential is refused:
                await self._fetch()
        return self._credential != refused

    async def _fetch(self) -> Credential:
        if self._failure and self._clock.monotonic() - self._failed_at < PAUSE:
            raise ConfigError(self._failure)
        try:
            credential = self._take(await self._run())
        except ConfigError as error:
            self._failure, self._failed_at = str(error), self._clock.monotonic()
            raise
        self._failure = ""
        return credential

    async def _run(self) -> _Status:
        plugin, interactive = self._plugin, self._may_ask()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": self._info(interactive)},
            )
        except OSError as error:
            raise self._error(f"{error.strerror}. {plugin.install_hint}".rstrip()) from error
        try:
            async with asyncio.timeout(None if interactive else _PLUGIN_TIMEOUT):
                printed, complaints = await process.communicate()
        except BaseException as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise self._error(f"printed nothing within {_PLUGIN_TIMEOUT:g} s") from error
            raise
        if process.returncode != 0:
            said = "see above" if interactive else complaints.decode("utf-8", "replace").strip()
            raise self._error(f"failed with exit code {process.returncode}: {said or 'no error output'}")
        return self._status(printed)

    def _may_ask(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        is_terminal = os.isatty(0)
        if mode == "Always" and not is_terminal:
            raise self._error("wants a terminal (interactiveMode: Always), but standard input is not a terminal")
        return is_terminal

    def _info(self, interactive: bool) -> str:
        spec: JSONObject = {"interactive": interactive}
        if self._plugin.cluster is not None:
            spec["cluster"] = self._plugin.cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _status(self, printed: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            raise self._error(f"printed no ExecCredential: {error}") from error
        if answer.api_version != self._plugin.api_version:
            asked = self._plugin.api_version
            raise self._error(f"answered in {answer.api_version!r}, but the kubeconfig requests {asked!r}")
        return answer.status

    def _take(self, status: _Status) -> Credential:
        cert, key = status.client_certificate_data, status.client_key_data
        if bool(cert) != bool(key):
            raise self._error("printed a client certificate without its key, or a key without its certificate")
        if not status.token and not cert:
            raise self._error("printed neither a token nor a client certificate")
        pair = (cert.encode(), key.encode()) if cert else self._pair
        credential = self._credential = Credential(bearer(status.token) if status.token else "", pair)
        self._expires = status.expiration_timestamp
        return credential

    def _error(self, why: str) -> ConfigError:
        return ConfigError(f"exec plugin {self._plugin.command!r} of the kubeconfig {why}")


def credentials_of(config: Config, pair: KeyPair | None, clock: Clock) -> Credentials:
    """Return the source of credentials that `config` names. `pair` is its client certificate."""
    if config.exec is not None:
        return ExecCredentials(config.exec, pair, clock)
    if config.token_file is not None:
        return TokenFile(config.token_file, pair, clock)
    if config.token is not None:
        return Static(Credential(bearer(config.token), pair))
    if config.username is not None:
        both = f"{config.username}:{config.password or ''}".encode()
        return Static(Credential(f"Basic {base64.b64encode(both).decode()}", pair))
    return Static(Credential(pair=pair))


def pair_of(config: Config) -> KeyPair | None:
    """Return the client certificate that `config` itself names."""
    if config.client_cert is None and config.client_key is None:
        return None
    if config.client_cert is None or config.client_key is None:
        raise ConfigError("client_cert and client_key come together; one of them is None")
    return config.client_cert, config.client_key
