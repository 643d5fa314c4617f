"""The types of the objects of a kind, for the expressions of policies.

Follows k8s.io/apiserver pkg/cel/openapi/resolver.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kubewright.cel.types import DYN, Type
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, is_object
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.schema.cel.declare import declared

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def declared_type(kind: GroupVersionKind, resources: ResourceSet) -> Type:
    """Return the type of the objects of a kind; `dyn` if its schema is not known."""
    resource = resources.of_kind(kind)
    if resource is None:
        return DYN
    return custom_type(resource.openapi_schema or {}, resource.kind) if resource.custom else builtin_type(kind)


def custom_type(schema: JSONObject, kind: str) -> Type:
    """Return the type of the objects of a custom resource, from its `openAPIV3Schema`; `dyn` if it says too little."""
    return declared(custom_schema(schema), name=kind) or DYN


@lru_cache(maxsize=32)
def builtin_type(kind: GroupVersionKind) -> Type:
    """Return the type of the objects of a built-in kind. Raises KeyError for other kinds."""
    return declared(builtin_schema(kind), name=kind.kind) or DYN


def custom_schema(schema: JSONObject) -> JSONObject:
    """Return the schema of the objects of a custom resource, with their metadata."""
    properties: JSONObject = schema.get("properties") or {}
    text = {"type": "string"}
    metadata = _resolved({"$ref": _OBJECT_META}, catalog.components(), frozenset())
    own = {"apiVersion": text, "kind": text, "metadata": metadata}
    return {**schema, "type": "object", "properties": {**properties, **own}}


def builtin_schema(kind: GroupVersionKind) -> JSONObject:
    """Return the schema of the objects of a built-in kind, without references. Raises KeyError for other kinds."""
    return _resolved({"$ref": catalog.schema_ref(kind)}, catalog.components(), frozenset())


def _resolved(schema: JSONObject, components: Mapping[str, JSONObject], around: frozenset[str]) -> JSONObject:
    """Return a schema with the components it refers to. One that refers to itself becomes an empty object."""
    reference = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf") or () if "$ref" in each), "")
    if reference:
        name = reference.rpartition("/")[2]
        if name in around:
            return {"type": "object"}
        schema, around = components[name], around | {name}
    out = dict(schema)
    if schema.get("format") == "int-or-string":
        out["x-kubernetes-int-or-string"] = True
    if properties := schema.get("properties"):
        out["properties"] = {key: _resolved(each, components, around) for key, each in properties.items()}
    for below in ("additionalProperties", "items"):
        if is_object(child := schema.get(below)):
            out[below] = _resolved(child, components, around)
    return out
