"""Credentials from a program: exec plugins of a kubeconfig.

The program is run when a credential is first needed, again when what it gave has expired, and again when the server
refuses it; never twice at a time, and not again within `PAUSE` seconds of a failure, which is told to all meanwhile.
One that may ask its user something gets the terminal, where there is one, and all the time it wants.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.client._config import ExecPlugin
from kubewright.client._credentials import Credential, bearer
from kubewright.client._tls import KeyPair
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

PAUSE = 5.0
"""An operator whose login has expired asks with each of its requests."""
_PATIENCE = 60.0
"""Seconds that a plugin may take which asks nobody."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status


class ExecCredentials:
    """What `plugin` prints: a token, a client certificate, or both. `pair` goes with a token alone."""

    def __init__(self, plugin: ExecPlugin, pair: KeyPair | None, clock: Clock) -> None:
        self._plugin = plugin
        self._pair = pair
        self._clock = clock
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()
        self._failure = ""
        """What went wrong the last time."""
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
            async with asyncio.timeout(None if interactive else _PATIENCE):
                printed, complaints = await process.communicate()
        except BaseException as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise self._error(f"gave nothing within {_PATIENCE:g} s") from error
            raise
        if process.returncode != 0:
            said = "see above" if interactive else complaints.decode("utf-8", "replace").strip()
            raise self._error(f"failed with exit code {process.returncode}: {said or 'and said nothing'}")
        return self._status(printed)

    def _may_ask(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        is_terminal = os.isatty(0)
        if mode == "Always" and not is_terminal:
            raise self._error("wants a terminal (interactiveMode: Always), and standard input is none; start from one")
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
            raise self._error(f"answered in {answer.api_version!r}, but the kubeconfig asks for {asked!r}")
        return answer.status

    def _take(self, status: _Status) -> Credential:
        cert, key = status.client_certificate_data, status.client_key_data
        if bool(cert) != bool(key):
            raise self._error("gave a client certificate without its key, or a key without its certificate")
        if not status.token and not cert:
            raise self._error("gave neither a token nor a client certificate")
        pair = (cert.encode(), key.encode()) if cert else self._pair
        credential = self._credential = Credential(bearer(status.token) if status.token else "", pair)
        self._expires = status.expiration_timestamp
        return credential

    def _error(self, why: str) -> ConfigError:
        return ConfigError(f"exec plugin {self._plugin.command!r} of the kubeconfig {why}")
