"""Authorization requests, decisions, and the text of denials.

Follows k8s.io/apiserver pkg/authorization/authorizer and pkg/endpoints/handlers/responsewriters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from kubewright.machinery.errors import Forbidden, StatusDetails
from kubewright_controlplane.apiserver.user import UserInfo


@dataclass(frozen=True, slots=True)
class AccessAttributes:
    """One request to authorize: a verb on a resource, or on a path if `resource` is empty."""

    user: UserInfo
    verb: str
    """For resources: get list watch create update patch delete deletecollection, or any other verb. For paths: the
    method in lower case.
    """
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    """The field selector of a list, a watch or a deletecollection."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Allowed or denied. `reason` explains a denial to people, if there is more to say than that no rule allows it."""

    allowed: bool
    reason: str = ""


ALLOWED: Final = Decision(True)


class Authorizer(Protocol):
    """Decides whether a user may do something. Reads memory only. Called once for each request, in the event loop."""

    def authorize(self, access: AccessAttributes) -> Decision: ...

    def explain(self, access: AccessAttributes) -> str:
        """Return the reason of a decision, as text for people; empty if there is none."""
        ...


def forbidden(access: AccessAttributes, reason: str = "") -> Forbidden:
    """Return the error for a request that no rule allows: `pods is forbidden: User "x" cannot list resource "pods"
    ...`.
    """
    why = _escaped(_sentence(access))
    if reason:
        why = f"{why}: {reason}"
    if access.resource:
        return forbidden_object(access.group, access.resource, access.name, why)
    return Forbidden(f"forbidden: {why}", details=StatusDetails())


def forbidden_object(group: str, resource: str, name: str, why: str) -> Forbidden:
    """Return a denial for another reason: `pods "a" is forbidden: <why>`."""
    qualified = f"{resource}.{group}" if group else resource
    subject = f'{qualified} "{name}"' if name else qualified
    return Forbidden(f"{subject} is forbidden: {why}", details=StatusDetails(name=name, group=group, kind=resource))


def _sentence(access: AccessAttributes) -> str:
    if not access.resource:
        return f'User "{access.user.name}" cannot {access.verb} path "{access.path}"'
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    place = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return (
        f'User "{access.user.name}" cannot {access.verb} resource "{resource}" in API group "{access.group}" {place}'
    )  # fmt: skip


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
