"""Checks of what the user of a request may do: `authorizer.group('apps').resource('deployments').check('get')`.

Follows k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from kubewright.machinery import names
from kubewright_controlplane.schema.cel.functions import library
from kubewright_controlplane.schema.cel.types import Type
from kubewright_controlplane.schema.cel.values import EvaluationError

RESOURCE_CHECK: Final = Type("kubernetes.authorization.ResourceCheck")
AUTHORIZER: Final = Type("kubernetes.authorization.Authorizer", fields={"requestResource": RESOURCE_CHECK})


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The answer to a check."""

    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A check of a path that is not a resource."""

    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.PathCheck"
    access: Access
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """A check of a resource that is not named yet."""

    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    access: Access
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A check of a resource."""

    CEL_TYPE: ClassVar[str] = RESOURCE_CHECK.name
    access: Access
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Access(Protocol):
    """Answers checks for one user."""

    def check_path(self, check: PathCheck, verb: str) -> AccessDecision: ...

    def check_resource(self, check: ResourceCheck, verb: str) -> AccessDecision: ...

    def of_service_account(self, namespace: str, name: str) -> Access:
        """Return the same for a service account."""
        ...


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The variable `authorizer`."""

    CEL_TYPE: ClassVar[str] = AUTHORIZER.name
    access: Access
    request: ResourceCheck | None = None
    """The resource of the request; None for the authorizer of a service account."""

    def __getitem__(self, field: str) -> ResourceCheck:
        """Return `authorizer.requestResource`."""
        if field != "requestResource" or self.request is None:
            raise KeyError(field)
        return self.request


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer.access, path)


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.access, check.group, resource)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return Authorizer(authorizer.access.of_service_account(namespace, name))


def _same(check: ResourceCheck, selector: str) -> ResourceCheck:
    """Return the check as it is: no authorizer of this server distinguishes requests by their selectors."""
    return check


_AUTHORIZER: Final = AUTHORIZER.name
_RESOURCE: Final = RESOURCE_CHECK.name
_PATH: Final = PathCheck.CEL_TYPE
_GROUP: Final = GroupCheck.CEL_TYPE
_DECISION: Final = AccessDecision.CEL_TYPE

FUNCTIONS: Final = library(
    (f"{_AUTHORIZER}.path(string) -> {_PATH}", _path),
    (f"{_AUTHORIZER}.group(string) -> {_GROUP}", lambda authorizer, group: GroupCheck(authorizer.access, group)),
    (f"{_AUTHORIZER}.serviceAccount(string, string) -> {_AUTHORIZER}", _service_account),
    (f"{_GROUP}.resource(string) -> {_RESOURCE}", _resource),
    (f"{_RESOURCE}.subresource(string) -> {_RESOURCE}", lambda check, name: replace(check, subresource=name)),
    (f"{_RESOURCE}.namespace(string) -> {_RESOURCE}", lambda check, name: replace(check, namespace=name)),
    (f"{_RESOURCE}.name(string) -> {_RESOURCE}", lambda check, name: replace(check, name=name)),
    (f"{_RESOURCE}.fieldSelector(string) -> {_RESOURCE}", _same),
    (f"{_RESOURCE}.labelSelector(string) -> {_RESOURCE}", _same),
    (f"{_PATH}.check(string) -> {_DECISION}", lambda check, verb: check.access.check_path(check, verb)),
    (f"{_RESOURCE}.check(string) -> {_DECISION}", lambda check, verb: check.access.check_resource(check, verb)),
    (f"{_DECISION}.allowed() -> bool", lambda decision: decision.allowed),
    (f"{_DECISION}.reason() -> string", lambda decision: decision.reason),
    (f"{_DECISION}.errored() -> bool", lambda decision: False),
    (f"{_DECISION}.error() -> string", lambda decision: ""),
)
