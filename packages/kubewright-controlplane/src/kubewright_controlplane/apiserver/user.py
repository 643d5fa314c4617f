"""Users of the API, as authentication determines them.

Follows k8s.io/apiserver pkg/authentication/user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubewright.machinery.json import JSONObject

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED_GROUP: Final = "system:authenticated"
UNAUTHENTICATED_GROUP: Final = "system:unauthenticated"
MASTERS_GROUP: Final = "system:masters"
"""The group whose members may do anything, whatever the rules."""

_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user (authentication.k8s.io UserInfo)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def is_superuser(self) -> bool:
        """Whether the user is a member of system:masters. No authorizer restricts that group."""
        return MASTERS_GROUP in self.groups

    def to_dict(self) -> JSONObject:
        """Return the user as in `authentication.k8s.io`."""
        out: JSONObject = {"username": self.name}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in self.extra.items()}
        return out


LOOPBACK: Final = UserInfo("system:apiserver", (MASTERS_GROUP, AUTHENTICATED_GROUP))
"""The server itself, for its own writes."""

ANONYMOUS_USER: Final = UserInfo(ANONYMOUS, (UNAUTHENTICATED_GROUP,))
"""The user of a request without credentials."""


def service_account_name(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every ServiceAccount in `namespace`, except `system:authenticated`."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def split_service_account(user_name: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount with this user name; None if it is not one."""
    if not user_name.startswith(_SERVICE_ACCOUNT):
        return None
    namespace, colon, name = user_name[len(_SERVICE_ACCOUNT) :].partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None
