"""The strategy of custom resources.

Follows k8s.io/apiextensions-apiserver pkg/registry/customresource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.apiserver.authorization.attributes import forbidden_object
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy
from kubewright_controlplane.schema.ownership.strategic import as_go_prints

_MAX_INT32 = 2**31 - 1
_PLAIN_FINALIZERS = frozenset({"orphan", "foregroundDeletion"})


class InstanceStrategy(Strategy):
    """The strategy of one version of a custom kind."""

    allow_unconditional_update = False

    def __init__(
        self, selectable_fields: tuple[str, ...], scale: Mapping[str, str] | None, is_terminating: Callable[[], bool]
    ) -> None:
        self.selectable_fields = selectable_fields
        self._scale = scale
        self._is_terminating = is_terminating

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        if self._is_terminating():
            resource, name = attributes.resource, obj["metadata"]["name"]
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden_object(resource.group, resource.plural, name, why)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        if self._scale is None:
            return []
        return replica_errors(obj, self._scale["specReplicasPath"]) + _scale_status_errors(obj, self._scale)

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _scale_status_errors(obj, self._scale) if self._scale is not None else []

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        had = (old["metadata"].get("finalizers") or ()) if old else ()
        return [
            f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name '
            "to avoid accidental conflicts with other finalizer writers"
            for name in obj["metadata"].get("finalizers") or ()
            if "/" not in name and name not in _PLAIN_FINALIZERS and name not in had
        ]

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {field: _text(value_at(obj, field)) for field in self.selectable_fields}


def value_at(obj: JSONObject, path: str) -> Any:
    """Return the value at a path of names and dots (`.spec.replicas`); None if there is no value."""
    value: Any = obj
    for step in path.removeprefix(".").split("."):
        value = value.get(step) if is_object(value) else None
    return value


class AccessorError(Exception):
    """A value has another type than a Scale can show."""


def count_at(obj: JSONObject, path: str) -> int | None:
    """Return the integer at a path; None if there is no value. Raises AccessorError with Go's message."""
    found, value = _nested(obj, path)
    if found and (not isinstance(value, int) or isinstance(value, bool)):
        raise _accessor_error(path, value, "int64")
    return value if found else None


def text_at(obj: JSONObject, path: str) -> str | None:
    """Return the string at a path; None if there is no value. Raises AccessorError with Go's message."""
    found, value = _nested(obj, path)
    if found and not isinstance(value, str):
        raise _accessor_error(path, value, "string")
    return value if found else None


def _nested(obj: JSONObject, path: str) -> tuple[bool, Any]:
    """Return whether there is a value at a path, and the value. A null on the way there counts as no value."""
    value: Any = obj
    for step in path.removeprefix(".").split("."):
        if value is None:
            return False, None
        if not is_object(value):
            raise _accessor_error(path, value, "map[string]interface{}")
        if step not in value:
            return False, None
        value = value[step]
    return True, value


def _accessor_error(path: str, value: Any, expected: str) -> AccessorError:
    shown = f"{as_go_prints(value)} is of the type {_go_type(value)}, expected {expected}"
    return AccessorError(f".{path.removeprefix('.')} accessor error: {shown}")


def replica_errors(obj: JSONObject, *paths: str) -> list[FieldError]:
    """Return the errors of replica counts that a Scale could not show."""
    errors: list[FieldError] = []
    for path in paths:
        try:
            value = count_at(obj, path) or 0
        except AccessorError as error:
            errors.append(invalid(path, 0, str(error)))
            continue
        if value < 0:
            errors.append(invalid(path, value, "should be a non-negative integer"))
        elif value > _MAX_INT32:
            errors.append(invalid(path, value, f"should be less than or equal to {_MAX_INT32}"))
    return errors


def _scale_status_errors(obj: JSONObject, scale: Mapping[str, str]) -> list[FieldError]:
    return replica_errors(obj, scale["statusReplicasPath"]) + _selector_errors(obj, scale.get("labelSelectorPath"))


def _selector_errors(obj: JSONObject, path: str | None) -> list[FieldError]:
    try:
        if path:
            text_at(obj, path)
    except AccessorError as error:
        return [invalid(str(path), "", str(error))]
    return []


def _go_type(value: Any) -> str:
    """Return the Go name for the type of a decoded JSON value."""
    if value is None:
        return "<nil>"
    if is_object(value):
        return "map[string]interface {}"
    names = {bool: "bool", str: "string", int: "int64", float: "float64"}
    return names.get(type(value), "[]interface {}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
