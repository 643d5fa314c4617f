"""Acting as somebody else: the `Impersonate-*` headers, each checked against what the user may `impersonate`.

Follows k8s.io/apiserver pkg/endpoints/filters/impersonation. A header sent several times arrives with its values
joined by ", ", and is taken apart again there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from kubewright.apiserver.authentication.user import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    UserInfo,
    service_account_groups,
    split_service_account,
)
from kubewright.apiserver.authorization.attributes import AccessAttributes, Authorizer, forbidden
from kubewright.http.message import Request
from kubewright.machinery.errors import BadRequest

_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"


def impersonate(request: Request, user: UserInfo, authorizer: Authorizer) -> UserInfo:
    """The user that the request asks to be, or `user` when it asks for nothing.

    Raises Forbidden when `user` may not be that, BadRequest when groups or the like come without a user.
    """
    headers = request.headers
    asked = [name for name in headers if name.startswith("impersonate-")]
    if not asked:
        return user
    target = _target(request)
    for access in _needed(user, target, groups=_split(headers.get(_GROUP, ""))):
        decision = authorizer.authorize(access)
        if not decision.allowed:
            raise forbidden(access, decision.reason)
    return target


def _target(request: Request) -> UserInfo:
    headers = request.headers
    name = headers.get(_USER, "")
    if not name:
        raise BadRequest("requested impersonation of groups, uid or extra without impersonating a user")
    groups = _split(headers.get(_GROUP, ""))
    account = split_service_account(name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if name == ANONYMOUS:
        if UNAUTHENTICATED_GROUP not in groups:
            groups = (*groups, UNAUTHENTICATED_GROUP)
    elif AUTHENTICATED_GROUP not in groups and UNAUTHENTICATED_GROUP not in groups:
        groups = (*groups, AUTHENTICATED_GROUP)
    extra = {
        unquote(header[len(_EXTRA) :].lower()): _split(value)
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    return UserInfo(name, groups, headers.get(_UID, ""), extra)


def _needed(user: UserInfo, target: UserInfo, groups: tuple[str, ...]) -> Iterator[AccessAttributes]:
    account = split_service_account(target.name)
    if account is not None:
        yield AccessAttributes(user, "impersonate", "", "v1", "serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield AccessAttributes(user, "impersonate", "", "", "users", name=target.name)
    for group in groups:
        yield AccessAttributes(user, "impersonate", "", "", "groups", name=group)
    for key, values in target.extra.items():
        for value in values:
            yield AccessAttributes(
                user, "impersonate", "authentication.k8s.io", "v1", "userextras", subresource=key, name=value
            )
    if target.uid:
        yield AccessAttributes(user, "impersonate", "authentication.k8s.io", "v1", "uids", name=target.uid)


def _split(value: str) -> tuple[str, ...]:
    return tuple(value.split(", ")) if value else ()
