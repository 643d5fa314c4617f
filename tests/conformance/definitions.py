"""CustomResourceDefinitions of a kind with a validated spec, a status and a scale."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "code": {"type": "string", "maxLength": 4, "pattern": "^[a-z]*$"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            },
        },
    },
}


def crd(plural: str, group: str, **version: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": SPEC,
            "status": {
                "type": "object",
                "maxProperties": 3,
                "properties": {
                    "phase": {"type": "string"},
                    "replicas": {"type": "integer"},
                    "addresses": {"type": "array", "items": {"type": "string", "format": "ipv4"}},
                    "mode": {"type": "string", "anyOf": [{"enum": ["a"]}, {"maxLength": 1}]},
                },
            },
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Gizmo", "shortNames": [f"g{plural[-4:]}"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
                    },
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                    **version,
                }
            ],
        },
    }


async def established(api: API, path: str) -> dict[str, Any]:
    async def check() -> dict[str, Any] | None:
        found: dict[str, Any] = (await api.get(path)).expect(200).json
        conditions = {each["type"]: each for each in found.get("status", {}).get("conditions") or []}
        return found if conditions.get("Established", {}).get("status") == "True" else None

    return await until(check)
