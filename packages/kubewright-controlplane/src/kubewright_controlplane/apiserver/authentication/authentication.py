"""The user of a request: by client certificate, bearer token or neither, and by the `Impersonate-*` headers.

Impersonation is checked against the user's permissions. There are two kinds: `impersonate` allows acting as another
user in any request. Constrained impersonation (KEP-5284) requires `impersonate:<mode>` for the other user and
`impersonate-on:<mode>:<verb>` for the request. Its mode for the node of a service account's Pod is not supported and
allows nothing.

Follows k8s.io/apiserver pkg/endpoints/filters/impersonation. Headers that are sent several times arrive with their
values joined by ", " and are split here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kubewright.http import wire
from kubewright.http.message import Request
from kubewright.machinery import names
from kubewright.machinery.errors import BadRequest, Forbidden, Unauthorized
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authentication.jwt import InvalidToken, SigningKey, VerifyingKey
from kubewright_controlplane.apiserver.authentication.serviceaccount import ServiceAccountTokens
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, Authorizer, forbidden
from kubewright_controlplane.apiserver.pki import write_private
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.user import (
    ANONYMOUS,
    ANONYMOUS_USER,
    AUTHENTICATED_GROUP,
    MASTERS_GROUP,
    UNAUTHENTICATED_GROUP,
    UserInfo,
    service_account_groups,
    split_service_account,
)

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.options import ServerOptions

_KEY_FILE: Final = "service-account.key"
_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_NODE: Final = "system:node:"
_NODES_GROUP: Final = "system:nodes"
_PROTOCOLS: Final = "sec-websocket-protocol"
_PROTOCOL_TOKEN: Final = "base64url.bearer.authorization.k8s.io."
"""The prefix of a WebSocket's subprotocol that is a bearer token."""


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
        if not token and request.upgrade == "websocket":
            scheme, token = "bearer", _take_protocol_token(request)
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

    def key_set(self) -> JSONObject:
        """Return the public keys of service account tokens, as a JSON Web Key Set."""
        return self.service_accounts.key_set()


def build_authentication(resources: ResourceSet, options: ServerOptions) -> Authentication:
    """Build the authentication of a server: its static tokens, and service accounts with the key in its data folder."""

    def lookup(resource: str, namespace: str, name: str) -> JSONObject | None:
        return resources.registry(resource).read(name, namespace)

    key = SigningKey.from_pem(options.signing_key) if options.signing_key else _kept_signing_key(options.data)
    keys = [VerifyingKey.from_pem(each) for each in options.verifying_keys]
    service_accounts = ServiceAccountTokens(
        key,
        options.issuer,
        lookup,
        options.clock.now,
        further_issuers=options.further_issuers,
        audiences=options.audiences,
        keys=keys,
    )
    return Authentication(service_accounts, options.tokens, anonymous=options.anonymous)


def _take_protocol_token(request: Request) -> str:
    """Remove the bearer token from the subprotocols of a WebSocket: clients in browsers can't send other headers.

    Returns an empty text if there is none. Raises Unauthorized if it is malformed, or if there is no other subprotocol.
    """
    offered = [each.strip() for each in request.headers.get(_PROTOCOLS, "").split(",")]
    tokens = [each.removeprefix(_PROTOCOL_TOKEN) for each in offered if each.startswith(_PROTOCOL_TOKEN)]
    if not tokens:
        return ""
    others = [each for each in offered if not each.startswith(_PROTOCOL_TOKEN)]
    try:
        token = base64.b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4), altchars="-_", validate=True).decode()
    except ValueError:
        raise Unauthorized("Unauthorized") from None
    if len(tokens) > 1 or (token and not others):
        raise Unauthorized("Unauthorized")
    request.headers[_PROTOCOLS] = ", ".join(others)
    return token


def _kept_signing_key(folder: Path | None) -> SigningKey:
    if folder is None:
        return SigningKey.generate()
    path = folder / _KEY_FILE
    if path.exists():
        return SigningKey.from_pem(path.read_bytes())
    key = SigningKey.generate()
    write_private(path, key.to_pem())
    return key


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED_GROUP in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED_GROUP), user.uid, user.extra)


# Impersonation


def impersonate(request: Request, access: AccessAttributes, authorizer: Authorizer) -> UserInfo:
    """Return the user that the request asks to act as, or the request's own user if it asks for none.

    Raises Forbidden if the user lacks the permission, BadRequest if there are groups, uid or extra but no user.
    """
    is_possible = "impersonate-" in "\n".join(request.headers)  # cheaper than to look at each name
    if not is_possible or not any(name.startswith("impersonate-") for name in request.headers):
        return access.user
    wanted = _impersonated_user(request)
    mode = _mode(wanted)
    constrained = _constrained_denial(access, wanted, mode, authorizer) if mode else None
    if mode and constrained is None:
        return _with_implied_groups(wanted, (_NODES_GROUP,) if mode == "arbitrary-node" else ())
    denial = _denial(_required_permissions(access.user, wanted, "impersonate", ""), authorizer)
    if denial is None:
        return _with_implied_groups(wanted, ())
    raise constrained or denial


def _impersonated_user(request: Request) -> UserInfo:
    """Return the user as in the headers, without the groups that follow from its name."""
    headers = {name: wire.readable(value) for name, value in request.headers.items()}
    extra = {
        wire.readable(unquote(header[len(_EXTRA) :].lower())): _split(value)
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    wanted = UserInfo(headers.get(_USER, ""), _split(headers.get(_GROUP, "")), headers.get(_UID, ""), extra)
    if not wanted.name:
        raise BadRequest(f"requested {_as_go(wanted)} without impersonating a user name")
    return wanted


def _with_implied_groups(wanted: UserInfo, groups: tuple[str, ...]) -> UserInfo:
    """Return the user with the groups that follow from the user's name."""
    groups = groups or wanted.groups
    account = split_service_account(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if wanted.name == ANONYMOUS:
        if UNAUTHENTICATED_GROUP not in groups:
            groups = (*groups, UNAUTHENTICATED_GROUP)
    elif AUTHENTICATED_GROUP not in groups and UNAUTHENTICATED_GROUP not in groups:
        groups = (*groups, AUTHENTICATED_GROUP)
    return replace(wanted, groups=groups)


def _mode(wanted: UserInfo) -> str:
    """Return the mode of constrained impersonation for a user; empty if there is none: nodes and accounts have names
    only.
    """
    mode = "user-info"
    if _node(wanted.name):
        mode = "arbitrary-node"
    elif split_service_account(wanted.name) is not None:
        mode = "serviceaccount"
    by_name_alone = not (wanted.groups or wanted.uid or wanted.extra)
    return mode if by_name_alone or mode == "user-info" else ""


def _constrained_denial(
    access: AccessAttributes, wanted: UserInfo, mode: str, authorizer: Authorizer
) -> Forbidden | None:
    verb = f"impersonate:{mode}"
    denial = _denial([replace(access, verb=f"impersonate-on:{mode}:{access.verb}")], authorizer)
    if denial is None and MASTERS_GROUP in wanted.groups:
        groups = AccessAttributes(access.user, verb, _AUTHENTICATION, "v1", "groups", name=MASTERS_GROUP)
        return forbidden(groups, f"impersonating the {MASTERS_GROUP} group is not allowed")
    if denial is None and not all(map(_is_domain_prefixed, wanted.extra)):
        extra = AccessAttributes(access.user, verb, _AUTHENTICATION, "v1", "userextras")
        return forbidden(extra, "impersonating an invalid key in extra is not allowed")
    return denial or _denial(_required_permissions(access.user, wanted, verb, _AUTHENTICATION), authorizer)


def _denial(needed: Iterable[AccessAttributes], authorizer: Authorizer) -> Forbidden | None:
    """Return the first denial among the required permissions."""
    for access in needed:
        decision = authorizer.authorize(access)
        if not decision.allowed:
            return forbidden(access, decision.reason)
    return None


def _required_permissions(user: UserInfo, wanted: UserInfo, verb: str, group: str) -> Iterator[AccessAttributes]:
    """Return the permissions that `user` needs to act as `wanted`. `group` is the API group of users, groups and so
    on.
    """
    account, node = split_service_account(wanted.name), _node(wanted.name)
    if account is not None:
        yield AccessAttributes(user, verb, group, "v1", "serviceaccounts", namespace=account[0], name=account[1])
    elif node and group:
        yield AccessAttributes(user, verb, group, "v1", "nodes", name=node)
    else:
        yield AccessAttributes(user, verb, group, "v1", "users", name=wanted.name)
    if wanted.uid:
        yield AccessAttributes(user, verb, _AUTHENTICATION, "v1", "uids", name=wanted.uid)
    for each in wanted.groups:
        yield AccessAttributes(user, verb, group, "v1", "groups", name=each)
    for key, values in wanted.extra.items():
        for value in values:
            yield AccessAttributes(user, verb, _AUTHENTICATION, "v1", "userextras", subresource=key, name=value)


def _node(name: str) -> str:
    """Return the node of a user name; empty if it is not a node's name."""
    node = name.removeprefix(_NODE) if name.startswith(_NODE) else ""
    return "" if names.dns1123_subdomain(node) else node


def _is_domain_prefixed(key: str) -> bool:
    domain, _, path = key.partition("/")
    return bool(path) and not names.dns1123_subdomain(domain)


def _split(value: str) -> tuple[str, ...]:
    return tuple(value.split(", ")) if value else ()


def _as_go(user: UserInfo) -> str:
    """Return a user in Go's notation, as the API server shows it."""
    extra = ", ".join(f"{dumps(key)}:{_strings(values)}" for key, values in sorted(user.extra.items()))
    shown = f"map[string][]string{{{extra}}}" if user.extra else "map[string][]string(nil)"
    name, uid = dumps(user.name), dumps(user.uid)
    return f"&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{_strings(user.groups)}, Extra:{shown}}}"


def _strings(values: tuple[str, ...]) -> str:
    return f"[]string{{{', '.join(map(dumps, values))}}}" if values else "[]string(nil)"
