"""Registry authentication: a registry rejects a request and names a token server, whose token it then accepts.

Follows the distribution project's token authentication (spec/auth: token, oauth), and RFC 7617 for registries with
basic authentication.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

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


class _TokenAnswer(msgspec.Struct):
    """The answer of a token server. Servers that follow OAuth 2.0 send only `access_token`."""

    token: str = ""
    access_token: str = ""


class Authorization:
    """The Authorization headers for one registry, by scope."""

    def __init__(self, registry: str, credentials: Credentials | None, servers: Servers) -> None:
        self._registry = registry
        self._credentials = credentials
        self._servers = servers
        self._headers: dict[str, str] = {}

    def header(self, scope: str) -> str:
        """Return the header for `scope` (`repository:team/app:pull`); empty before the first challenge."""
        return self._headers.get(scope) or self._headers.get("", "")

    async def answer(self, challenge: Challenge, scope: str) -> bool:
        """Respond to a challenge. Returns False if the registry has already rejected the same header."""
        before = self.header(scope)
        if challenge.scheme == "basic":
            if self._credentials is None:
                raise ConfigError(f"{self._registry} requires a login: docker login {self._registry}")
            self._headers[""] = self._credentials.basic
        elif challenge.scheme == "bearer":
            self._headers[scope] = f"Bearer {await self._token(challenge, scope)}"
        else:
            raise ConfigError(f"{self._registry} requires {challenge.scheme!r} authentication, which is not supported")
        return self.header(scope) != before

    async def _token(self, challenge: Challenge, scope: str) -> str:
        realm = challenge.parameters.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise ConfigError(f"{self._registry} names no token server: realm is {realm!r}")
        parameters = {"service": challenge.parameters.get("service", ""), "scope": scope}
        response = await self._servers.send(realm, self._request(realm, parameters))
        body = await response.read()
        server, start = urlsplit(realm).netloc, body[:200].decode(errors="replace").strip()
        if response.status != 200:
            user = f"for {self._credentials.user or 'a refresh token'}" if self._credentials else "without a login"
            raise ConfigError(
                f"{server} refused a token for {scope} {user}: {response.status} {start}; "
                f"log in: docker login {self._registry}"
            )
        token = _token_in(body)
        if not token:
            raise ConfigError(f"{server}, the token server of {self._registry}, sent no token: {start!r}")
        return token

    def _request(self, realm: str, parameters: dict[str, str]) -> Request:
        path = urlsplit(realm).path or "/"
        credentials = self._credentials
        if credentials is not None and credentials.refresh_token:
            form = {
                "grant_type": "refresh_token",
                "client_id": "kubewright",
                "refresh_token": credentials.refresh_token,
                **parameters,
            }
            headers = {"content-type": "application/x-www-form-urlencoded"}
            return Request("POST", path, headers, urlencode(form).encode())
        query = "&".join(filter(None, (urlsplit(realm).query, urlencode(parameters))))
        return Request("GET", f"{path}?{query}", {"authorization": credentials.basic} if credentials else {})


def _token_in(body: bytes) -> str:
    """Return the token in an answer of a token server; empty if there is none."""
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer)
    except msgspec.DecodeError:  # the caller reports the answer
        return ""
    return answer.token or answer.access_token
