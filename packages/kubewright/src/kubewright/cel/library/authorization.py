"""Authorization checks: what the user of a request, or a ServiceAccount, may do.

The functions are known everywhere, but only admission declares a variable of type `Authorizer`. Follows
k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from kubewright.cel.functions import Function, library
from kubewright.cel.types import Type
from kubewright.cel.values import EvaluationError
from kubewright.machinery import names

CHECK_COST: Final = 350_000
"""The cost of one check."""
RESOURCE_CHECK: Final = Type("kubernetes.authorization.ResourceCheck")
AUTHORIZER: Final = Type("kubernetes.authorization.Authorizer", fields={"requestResource": RESOURCE_CHECK})
"""The type of the variable `authorizer`. Only that one has the field; the authorizer of a ServiceAccount has not."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a check."""

    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""


class Access(Protocol):
    """Decides what one user may do."""

    def decide_path(self, verb: str, path: str) -> Decision: ...

    def decide_resource(self, verb: str, check: ResourceCheck) -> Decision: ...

    def of_service_account(self, namespace: str, name: str) -> Access: ...


@dataclass(frozen=True, slots=True)
class PathCheck:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.PathCheck"
    access: Access
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    CEL_TYPE: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    access: Access
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A check of a resource. Selectors are recorded, but RBAC does not look at them."""

    CEL_TYPE: ClassVar[str] = RESOURCE_CHECK.name
    access: Access
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The value of `authorizer`."""

    CEL_TYPE: ClassVar[str] = AUTHORIZER.name
    access: Access
    request_resource: ResourceCheck | None = None
    """The check of the resource of the request; None for a ServiceAccount."""

    def __getitem__(self, field: str) -> ResourceCheck:
        """Return the value of `authorizer.requestResource`."""
        if field != "requestResource" or self.request_resource is None:
            raise KeyError(field)
        return self.request_resource


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer.access, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return Authorizer(authorizer.access.of_service_account(namespace, name))


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(group.access, group.group, resource)


_AUTHORIZER: Final = AUTHORIZER.name
_GROUP: Final = GroupCheck.CEL_TYPE
_RESOURCE: Final = RESOURCE_CHECK.name
_PATH: Final = PathCheck.CEL_TYPE
_DECISION: Final = Decision.CEL_TYPE

FUNCTIONS: Final[tuple[Function, ...]] = (
    *library(
        (f"{_AUTHORIZER}.path(string) -> {_PATH}", _path),
        (f"{_AUTHORIZER}.group(string) -> {_GROUP}", lambda it, group: GroupCheck(it.access, group)),
        (f"{_AUTHORIZER}.serviceAccount(string, string) -> {_AUTHORIZER}", _service_account),
        (f"{_GROUP}.resource(string) -> {_RESOURCE}", _resource),
        (f"{_RESOURCE}.subresource(string) -> {_RESOURCE}", lambda it, value: replace(it, subresource=value)),
        (f"{_RESOURCE}.namespace(string) -> {_RESOURCE}", lambda it, value: replace(it, namespace=value)),
        (f"{_RESOURCE}.name(string) -> {_RESOURCE}", lambda it, value: replace(it, name=value)),
        (f"{_RESOURCE}.fieldSelector(string) -> {_RESOURCE}", lambda it, value: replace(it, field_selector=value)),
        (f"{_RESOURCE}.labelSelector(string) -> {_RESOURCE}", lambda it, value: replace(it, label_selector=value)),
        (f"{_DECISION}.allowed() -> bool", lambda it: it.allowed),
        (f"{_DECISION}.reason() -> string", lambda it: it.reason),
        (f"{_DECISION}.errored() -> bool", lambda it: bool(it.error)),
        (f"{_DECISION}.error() -> string", lambda it: it.error),
    ),
    *library(
        (f"{_PATH}.check(string) -> {_DECISION}", lambda it, verb: it.access.decide_path(verb, it.path)),
        (f"{_RESOURCE}.check(string) -> {_DECISION}", lambda it, verb: it.access.decide_resource(verb, it)),
        cost=CHECK_COST,
    ),
)
