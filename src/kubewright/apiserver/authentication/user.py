"""Who asks: the outcome of authentication, and what an authenticator is.

Follows k8s.io/apiserver/pkg/authentication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubewright.http.message import Request

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED_GROUP: Final = "system:authenticated"
UNAUTHENTICATED_GROUP: Final = "system:unauthenticated"
MASTERS_GROUP: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as the API knows one (authentication.k8s.io UserInfo)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


LOOPBACK: Final = UserInfo("system:apiserver", (MASTERS_GROUP, AUTHENTICATED_GROUP))
"""The server itself, when it writes on its own account."""


class Authenticator(Protocol):
    """Tells who sent a request, from its peer's certificate or its Authorization header."""

    def authenticate(self, request: Request) -> UserInfo | None:
        """The user, with `system:authenticated` among the groups; None when this authenticator sees no credentials.

        Raises Unauthorized for credentials that it recognises as its own and finds bad.
        """
        ...
