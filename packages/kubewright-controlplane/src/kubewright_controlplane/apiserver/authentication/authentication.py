"""The authenticators of a request, tried in order: client certificate, bearer token, anonymous."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubewright.http.message import Request
from kubewright.machinery.errors import Unauthorized
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authentication.impersonation import impersonate
from kubewright_controlplane.apiserver.authentication.jwt import InvalidToken, SigningKey
from kubewright_controlplane.apiserver.authentication.serviceaccount import ServiceAccountTokens
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, Authorizer
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.user import ANONYMOUS_USER, AUTHENTICATED_GROUP, UserInfo

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.options import ServerOptions

_KEY_FILE: Final = "service-account.key"


class Authentication:
    """Determines the user of a request."""

    def __init__(
        self, service_accounts: ServiceAccountTokens, tokens: Mapping[str, UserInfo], *, anonymous: bool
    ) -> None:
        self.service_accounts: Final = service_accounts
        self._tokens = {token: _authenticated(user) for token, user in tokens.items()}
        self._anonymous = anonymous

    def authenticate(self, request: Request) -> UserInfo:
        """Return the user of a request by its certificate, else by its token, else the anonymous user.

        Raises Unauthorized for an invalid token, and for no token if anonymous requests are not allowed.
        """
        peer = request.peer
        if peer is not None and peer.common_name:
            return _authenticated(UserInfo(peer.common_name, peer.organizations))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if token and scheme.lower() == "bearer":
            try:
                found = self.authenticate_token(token.strip(), self.service_accounts.audiences)
            except InvalidToken as error:
                raise Unauthorized("Unauthorized") from error
            if found is None:
                raise Unauthorized("Unauthorized")
            return found[0]
        if not self._anonymous:
            raise Unauthorized("Unauthorized")
        return ANONYMOUS_USER

    def authenticate_token(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return the user of a bearer token, and the `audiences` that the token is valid for; None for an unknown
        token.

        Raises InvalidToken for a service account token that is not valid or no longer valid.
        """
        user = self._tokens.get(token)
        if user is not None:
            own = tuple(each for each in audiences if each in self.service_accounts.audiences)
            return (user, own) if own else None
        return self.service_accounts.authenticate(token, audiences)

    def impersonate(self, request: Request, access: AccessAttributes, authorizer: Authorizer) -> UserInfo:
        """Return the user that the `Impersonate-*` headers name. See `impersonation.impersonate`."""
        return impersonate(request, access, authorizer)

    def key_set(self) -> JSONObject:
        """Return the public keys of service account tokens, as a JSON Web Key Set."""
        return self.service_accounts.key_set()


def build_authentication(resources: ResourceSet, options: ServerOptions) -> Authentication:
    """Build the authentication of a server: its static tokens, and service accounts with the key in its data folder."""

    def lookup(resource: str, namespace: str, name: str) -> JSONObject | None:
        return resources.registry(resource).read(name, namespace)

    service_accounts = ServiceAccountTokens(_signing_key(options.data), options.issuer, lookup, options.clock.now)
    return Authentication(service_accounts, options.tokens, anonymous=options.anonymous)


def _signing_key(folder: Path | None) -> SigningKey:
    if folder is None:
        return SigningKey.generate()
    path = folder / _KEY_FILE
    if path.exists():
        return SigningKey.from_pem(path.read_bytes())
    key = SigningKey.generate()
    folder.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.to_pem())
    return key


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED_GROUP in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED_GROUP), user.uid, user.extra)
