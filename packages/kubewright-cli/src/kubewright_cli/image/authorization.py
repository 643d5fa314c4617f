"""Registry authentication: a registry rejects a request, names a token server, and accepts its token.

Follows the distribution project's token authentication (spec/auth: token, oauth), and RFC 7617 for registries with
basic authentication.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from kubewright.http.message import Request
from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.credentials import Credentials
from kubewright_cli.image.wire import Servers

_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge: `Bearer realm="https://auth.example.com/token",service="...",scope="..."`."""

    scheme: str
    parameters: dict[str, str]

    @classmethod
    def parse(cls, header: str) -> Challenge:
        scheme, _, rest = header.partition(" ")
        return cls(scheme.lower(), dict(_PARAMETER.findall(rest)))


class Authorization:
    """The Authorization headers for one registry, by scope."""

    def __init__(self, registry: str, credentials: Credentials | None, servers: Servers) -> None:
        self._registry = registry
        self._credentials = credentials
        self._servers = servers
        self._known: dict[str, str] = {}

    def header(self, scope: str) -> str:
        """Return the header for `scope` (`repository:team/app:pull`); empty before the first challenge."""
        return self._known.get(scope) or self._known.get("", "")

    async def answer(self, challenge: Challenge, scope: str) -> bool:
        """Respond to a challenge. Returns False if the registry has already rejected the same header."""
        before = self.header(scope)
        if challenge.scheme == "basic":
            if self._credentials is None:
                raise ConfigError(f"{self._registry} requires a login: docker login {self._registry}")
            self._known[""] = self._credentials.basic
        elif challenge.scheme == "bearer":
            self._known[scope] = f"Bearer {await self._token(challenge, scope)}"
        else:
            raise ConfigError(f"{self._registry} requires {challenge.scheme!r} authentication, which is not supported")
        return self.header(scope) != before

    async def _token(self, challenge: Challenge, scope: str) -> str:
        realm = challenge.parameters.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise ConfigError(f"{self._registry} names no token server: realm is {realm!r}")
        asked = {"service": challenge.parameters.get("service", ""), "scope": scope}
        response = await self._servers.send(realm, self._request(realm, asked))
        body = await response.read()
        if response.status != 200:
            who = f"for {self._credentials.user or 'a refresh token'}" if self._credentials else "without a login"
            raise ConfigError(
                f"{urlsplit(realm).netloc} refused a token for {scope} {who}: {response.status} "
                f"{body[:200].decode(errors='replace').strip()}; log in: docker login {self._registry}"
            )
        answer = json.loads(body)
        return str(answer.get("token") or answer["access_token"])

    def _request(self, realm: str, asked: dict[str, str]) -> Request:
        path = urlsplit(realm).path or "/"
        mine = self._credentials
        if mine is not None and mine.refresh_token:
            form = {"grant_type": "refresh_token", "client_id": "kubewright", "refresh_token": mine.refresh_token}
            headers = {"content-type": "application/x-www-form-urlencoded"}
            return Request("POST", path, headers, urlencode({**form, **asked}).encode())
        query = "&".join(filter(None, (urlsplit(realm).query, urlencode(asked))))
        return Request("GET", f"{path}?{query}", {"authorization": mine.basic} if mine else {})
