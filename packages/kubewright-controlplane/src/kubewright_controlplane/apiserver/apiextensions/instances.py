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
        return replica_errors(obj, self._scale["specReplicasPath"], self._scale["statusReplicasPath"])

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


def replica_errors(obj: JSONObject, *paths: str) -> list[FieldError]:
    """Return the errors of replica counts that a Scale could not show."""
    errors: list[FieldError] = []
    for path in paths:
        value = value_at(obj, path)
        parent, _, _ = path.rpartition(".")
        around = value_at(obj, parent) if parent else obj
        if around is not None and not is_object(around):
            why = (
                f"accessor error: {_text(around)} is of the type {_go_type(around)}, expected map[string]interface{{}}"
            )
            errors.append(invalid(path, 0, f"{path} {why}"))
            continue
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            why = f"accessor error: {_text(value)} is of the type {_go_type(value)}, expected int64"
            errors.append(invalid(path, 0, f"{path} {why}"))
        elif value < 0:
            errors.append(invalid(path, value, "should be a non-negative integer"))
        elif value > _MAX_INT32:
            errors.append(invalid(path, value, f"should be less than or equal to {_MAX_INT32}"))
    return errors


def _go_type(value: Any) -> str:
    """Return the Go name for the type of a decoded JSON value."""
    if is_object(value):
        return "map[string]interface {}"
    if isinstance(value, bool):
        return "bool"
    return {str: "string", int: "int64", float: "float64"}.get(type(value), "[]interface {}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
