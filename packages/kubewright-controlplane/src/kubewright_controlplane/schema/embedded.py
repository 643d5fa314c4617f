"""Objects inside an object (`x-kubernetes-embedded-resource`) have an apiVersion, a kind and good metadata.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

from typing import Any

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, required
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.schema.descent import Check, compile_descent
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.path import Path, bracketed


def compile_check(root: Node) -> Check | None:
    """What finds the faults of embedded objects below `root`; None when the schema has none."""
    return compile_descent(root, _compiled)


def _compiled(node: Node) -> Check | None:
    return compile_descent(node, _compiled, _check_object if node.embedded else None)


def _check_object(value: Any, path: Path, faults: list[FieldError]) -> None:
    if not is_object(value):
        return
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
