"""A small built-in kind, in the form in which the API server publishes schemas."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright_controlplane.schema.structural.schema import Schema

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CORE = "io.k8s.api.core.v1."
_INLINE = {"x-kubewright-inline": True}
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}


def _ref(name: str, **facts: Any) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], **facts} if facts else {
        "$ref": f"#/components/schemas/{name}"
    }  # fmt: skip


def _merged_list(item: dict[str, Any], *keys: str, patch_key: str = "") -> dict[str, Any]:
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": patch_key or keys[0],
    }


COMPONENTS: dict[str, dict[str, Any]] = {
    _META + "Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
    _META + "ObjectMeta": {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "namespace": _TEXT,
            "uid": _TEXT,
            "resourceVersion": _TEXT,
            "generation": {"type": "integer", "format": "int64"},
            "creationTimestamp": _ref(_META + "Time"),
            "labels": _TEXTS,
            "annotations": _TEXTS,
            "finalizers": {
                "type": "array",
                "items": _TEXT,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        },
    },
    _CORE + "EnvVar": {"type": "object", "required": ["name"], "properties": {"name": _TEXT, "value": _TEXT}},
    _CORE + "ContainerPort": {
        "type": "object",
        "required": ["containerPort"],
        "properties": {
            "containerPort": {"type": "integer", "format": "int32"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": _TEXT,
        },
    },
    _CORE + "Container": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _TEXT,
            "image": _TEXT,
            "command": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"},
            "env": _merged_list(_ref(_CORE + "EnvVar"), "name"),
            "ports": _merged_list(_ref(_CORE + "ContainerPort"), "containerPort", "protocol"),
            "limits": {"type": "object", "additionalProperties": _ref("io.k8s.apimachinery.pkg.api.resource.Quantity")},
        },
    },
    _CORE + "Selector": {
        "type": "object",
        "properties": {"matchLabels": _TEXTS},
        "x-kubernetes-map-type": "atomic",
    },
    _CORE + "Strategy": {"type": "object", "properties": {"type": _TEXT, "rolling": _TEXTS}},
    _CORE + "Spec": {
        "type": "object",
        "required": ["containers"],
        "properties": {
            "replicas": {"type": "integer", "format": "int32", "default": 1},
            "paused": {"type": "boolean"},
            "surge": _ref("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            "selector": _ref(_CORE + "Selector"),
            "strategy": _ref(_CORE + "Strategy", **{"x-kubernetes-patch-strategy": "retainKeys"}),
            "containers": _merged_list(_ref(_CORE + "Container"), "name"),
            "nodeSelector": {**_TEXTS, "x-kubernetes-map-type": "atomic"},
            "secret": {"type": "string", "format": "byte"},
        },
    },
    _CORE + "Thing": {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": _ref(_META + "ObjectMeta", **_INLINE),
            "spec": _ref(_CORE + "Spec", **_INLINE),
            "status": {"type": "object", "properties": {"replicas": {"type": "integer", "format": "int32"}}},
        },
    },
}


@pytest.fixture(scope="session")
def thing() -> Schema:
    """The schema of the kind `Thing`, which has the structure of Pods and Deployments."""
    return Schema.from_openapi(f"#/components/schemas/{_CORE}Thing", COMPONENTS)
