"""What is asked of an authorizer, and what it answers.

Follows k8s.io/apiserver/pkg/authorization/authorizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kubewright.apiserver.authentication.user import UserInfo


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """One thing that a user wants to do: a verb on a resource, or on a path when `resource` is empty."""

    user: UserInfo
    verb: str
    """get list watch create update patch delete deletecollection, or any other for resources; lower-case method for paths."""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or not. `reason` is for people: which rule allowed it, or why none did."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Says whether a user may do something. Reads memory only; called once for each request, in the event loop."""

    def authorize(self, access: AccessAttributes) -> Decision: ...
