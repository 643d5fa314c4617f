"""Objects inside an object (`x-kubernetes-embedded-resource`) have an apiVersion, a kind and good metadata.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.schema.node import Node
from kubewright.schema.path import Path, bracketed

Check: TypeAlias = Callable[[Any, Path, list[FieldError]], None]


def compile_check(root: Node) -> Check | None:
    """What finds the faults of embedded objects below `root`; None when the schema has none."""
    return _below(root)


def _compiled(node: Node) -> Check | None:
    below = _below(node)
    if not node.embedded:
        return below

    def check(value: Any, path: Path, faults: list[FieldError]) -> None:
        if is_object(value):
            _check_object(value, path, faults)
        if below is not None:
            below(value, path, faults)

    return check


def _below(node: Node) -> Check | None:
    if node.builtin:
        return None
    children = {key: found for key, child in node.properties.items() if (found := _compiled(child))}
    values = _compiled(node.values) if node.values is not None else None
    items = _compiled(node.items) if node.items is not None else None
    if not children and values is None and items is None:
        return None

    def check(value: Any, path: Path, faults: list[FieldError]) -> None:
        if is_object(value):
            for key, item in value.items():
                if key in children:
                    children[key](item, (path, key), faults)
                elif values is not None:
                    values(item, (path, (key,)), faults)
        elif is_array(value) and items is not None:
            for index, item in enumerate(value):
                items(item, (path, index), faults)

    return check


def _check_object(value: JSONObject, path: Path, faults: list[FieldError]) -> None:
    for key, judge in (("apiVersion", _version_fault), ("kind", _kind_fault)):
        place = bracketed((path, key))
        if key not in value:
            faults.append(required(place))
        elif not isinstance(text := value[key], str):
            faults.append(invalid(place, text, "must be a string"))
        elif not text:
            faults.append(invalid(place, text, "must not be empty"))
        elif fault := judge(text):
            faults.append(invalid(place, text, fault))
    _check_metadata(value.get("metadata") or {}, (path, "metadata"), faults)


def _version_fault(text: str) -> str:
    try:
        GroupVersion.parse(text)
    except ValueError:
        return f"unexpected GroupVersion string: {text}"
    return ""


def _kind_fault(text: str) -> str:
    found = names.dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(found)}" if found else ""


def _check_metadata(metadata: JSONObject, path: Path, faults: list[FieldError]) -> None:
    for key in ("name", "generateName"):
        if text := metadata.get(key):
            faults.extend(invalid(bracketed((path, key)), text, fault) for fault in names.path_segment(text))
    labels: JSONObject = metadata.get("labels") or {}
    for key, text in labels.items():
        place = bracketed((path, "labels"))
        faults.extend(invalid(place, key, fault) for fault in names.qualified_name(key))
        faults.extend(invalid(place, text, fault) for fault in names.label_value(text))
    annotations: JSONObject = metadata.get("annotations") or {}
    for key in annotations:
        faults.extend(
            invalid(bracketed((path, "annotations")), key, fault) for fault in names.qualified_name(key.lower())
        )
