"""The schema of `metadata`, which all kinds share and which a custom kind's schema does not contain.

Follows metav1.ObjectMeta of Kubernetes 1.36.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.schema.node import Components, Node

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_TEXT: Final[JSONObject] = {"type": "string"}
_OPTIONAL_TEXT: Final[JSONObject] = {**_TEXT, "x-kubewright-zero": "omitted"}
_REQUIRED_TEXT: Final[JSONObject] = {**_TEXT, "x-kubewright-zero": "written"}
_TEXTS: Final[JSONObject] = {"type": "object", "additionalProperties": _TEXT}
_WHOLE: Final[JSONObject] = {"type": "integer", "format": "int64"}
_FLAG: Final[JSONObject] = {"type": "boolean"}


def _reference(kind: str) -> JSONObject:
    return {"$ref": f"#/components/schemas/{_META}{kind}"}


_COMPONENTS: Final[dict[str, JSONObject]] = {
    _META + "Time": {"type": "string", "format": "date-time"},
    _META + "FieldsV1": {"type": "object"},
    _META + "OwnerReference": {
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": _REQUIRED_TEXT,
            "kind": _REQUIRED_TEXT,
            "name": _REQUIRED_TEXT,
            "uid": _REQUIRED_TEXT,
            "controller": _FLAG,
            "blockOwnerDeletion": _FLAG,
        },
        "x-kubernetes-map-type": "atomic",
    },
    _META + "ManagedFieldsEntry": {
        "type": "object",
        "properties": {
            "manager": _OPTIONAL_TEXT,
            "operation": _OPTIONAL_TEXT,
            "apiVersion": _OPTIONAL_TEXT,
            "time": _reference("Time"),
            "fieldsType": _OPTIONAL_TEXT,
            "fieldsV1": _reference("FieldsV1"),
            "subresource": _OPTIONAL_TEXT,
        },
    },
    _META + "ObjectMeta": {
        "type": "object",
        "properties": {
            "name": _OPTIONAL_TEXT,
            "generateName": _OPTIONAL_TEXT,
            "namespace": _OPTIONAL_TEXT,
            "selfLink": _OPTIONAL_TEXT,
            "uid": _OPTIONAL_TEXT,
            "resourceVersion": _OPTIONAL_TEXT,
            "generation": {**_WHOLE, "x-kubewright-zero": "omitted"},
            "creationTimestamp": _reference("Time"),
            "deletionTimestamp": _reference("Time"),
            "deletionGracePeriodSeconds": _WHOLE,
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "ownerReferences": {
                "type": "array",
                "items": _reference("OwnerReference"),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
            },
            "finalizers": {
                "type": "array",
                "items": _TEXT,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {
                "type": "array",
                "items": _reference("ManagedFieldsEntry"),
                "x-kubernetes-list-type": "atomic",
            },
        },
    },
}


def object_meta() -> Node:
    """Return the node of `metadata`."""
    return Components(_COMPONENTS).node(_META + "ObjectMeta")


def type_meta() -> Node:
    """Return the node of `apiVersion` and of `kind`."""
    return Node(type="string", go_type="string")
