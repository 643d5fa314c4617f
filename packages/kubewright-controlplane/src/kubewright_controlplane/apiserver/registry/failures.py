"""Errors that every resource can answer with, and kinds, in the words of the API server.

Follows k8s.io/apimachinery/pkg/api/errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.machinery.errors import (
    AlreadyExists,
    Conflict,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    StatusCause,
    StatusDetails,
)
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.apiserver.registry.model import Resource


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', details=_details(resource, name))


def not_served() -> NotFound:
    return NotFound("the server could not find the requested resource", details=StatusDetails())


def already_exists(resource: Resource, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource.qualified} "{name}" already exists', details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Conflict(text, details=_details(resource, name))


def modified(resource: Resource, name: str) -> Conflict:
    """Return the error for a write that is based on an older state than the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid_object(resource: Resource, metadata: JSONObject, errors: Sequence[FieldError]) -> Invalid:
    return Invalid.of(resource.kind, resource.group, metadata.get("name") or metadata.get("generateName") or "", errors)


def internal_error(why: str) -> InternalError:
    """Return the error for something that went wrong in the server or in a program that it called."""
    details = StatusDetails(causes=(StatusCause(message=why),))
    return InternalError(f"Internal error occurred: {why}", details=details)


def full_name(obj: JSONObject) -> str:
    """Return `namespace/name` of a document whose metadata may have wrong types, which are left out."""
    return "/".join(written_name(obj))


def written_name(obj: JSONObject) -> tuple[str, str]:
    """Return namespace and name of a document whose metadata may have wrong types, which are left out."""
    metadata = obj.get("metadata")
    namespace, name = (metadata.get(key) if is_object(metadata) else "" for key in ("namespace", "name"))
    return namespace if isinstance(namespace, str) else "", name if isinstance(name, str) else ""


def kind_text(kind: GroupVersionKind) -> str:
    """Return a kind as Go prints it: `/v1, Kind=Pod`."""
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def too_large_resource_version(asked: int, current: int) -> ServerTimeout:
    """Return the error for a read of a future revision."""
    cause = StatusCause("ResourceVersionTooLarge", "Too large resource version")
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ServerTimeout(text, details=StatusDetails(causes=(cause,), retry_after_seconds=1))


def _details(resource: Resource, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.plural)
