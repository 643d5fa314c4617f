"""OpenAPI v2 of custom resources: definitions and operations as kube-apiserver publishes them.

Version 2 has no `nullable` and no junctors. kubectl rejects unknown fields if a schema has properties, so that
schemas that preserve unknown fields are published without type and properties.

Follows apiextensions-apiserver's pkg/controller/openapi/builder and pkg/controller/openapi/v2.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Resource

CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_META: Final = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_STATUS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_DROPPED: Final = ("default", "nullable", "allOf", "oneOf", "anyOf", "not", "items", "properties")
_KEPT_EMPTY: Final = ("enum", "example", "additionalProperties")
_TYPES: Final = ("application/json", "application/yaml")
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_CODES: Final = {
    "post": {"200": "OK", "201": "Created", "202": "Accepted"},
    "put": {"200": "OK", "201": "Created"},
    "delete": {"200": "OK", "202": "Accepted"},
}

TYPE_PROPERTIES: Final[dict[str, Any]] = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should "
        "convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
        f"{CONVENTIONS}#resources",
    },
    "kind": {
        "type": "string",
        "description": "Kind is a string value representing the REST resource this object represents. Servers may "
        "infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
        f"{CONVENTIONS}#types-kinds",
    },
}
_METADATA: Final = {
    "description": f"Standard object's metadata. More info: {CONVENTIONS}#metadata",
    "$ref": f"{_META}ObjectMeta",
}
_EMBEDDED_PROPERTIES: Final = {
    "apiVersion": {
        "description": "apiVersion defines the versioned schema of this representation of an object. More info: "
        f"{CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "kind is a string value representing the type of this object. In CamelCase. More info: "
        f"{CONVENTIONS}#types-kinds",
        "type": "string",
    },
    "metadata": _METADATA,
}


def definitions(resource: Resource) -> JSONObject:
    """Return the definitions of a custom resource and its list, by name."""
    name, list_name = _names(resource)
    kind, list_kind = _kind_definition(resource), _list_definition(resource, name)
    for schema, of in ((kind, resource.kind), (list_kind, _list_kind(resource))):
        schema["x-kubernetes-group-version-kind"] = [_gvk(resource, of)]
        if resource.selectable_fields:
            schema["x-kubernetes-selectable-fields"] = [{"fieldPath": each} for each in resource.selectable_fields]
    return {name: kind, list_name: list_kind}


def _names(resource: Resource) -> tuple[str, str]:
    prefix = ".".join((*reversed(resource.group.split(".")), resource.version))
    return f"{prefix}.{resource.kind}", f"{prefix}.{_list_kind(resource)}"


def _list_kind(resource: Resource) -> str:
    return resource.list_kind or f"{resource.kind}List"


def _gvk(resource: Resource, kind: str) -> JSONObject:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _kind_definition(resource: Resource) -> JSONObject:
    schema = resource.openapi_schema or {}
    if schema.get(_PRESERVE):
        return {"type": "object"}
    found = to_v2(schema)
    found["properties"] = {**found.get("properties", {}), **TYPE_PROPERTIES, "metadata": _METADATA}
    return found


def _list_definition(resource: Resource, item: str) -> JSONObject:
    items = {
        "description": f"List of {resource.plural}. More info: {CONVENTIONS}",
        "type": "array",
        "items": {"$ref": f"#/definitions/{item}"},
    }
    metadata = {
        "description": f"Standard list metadata. More info: {CONVENTIONS}#types-kinds",
        "$ref": f"{_META}ListMeta",
    }
    return {
        "description": f"{_list_kind(resource)} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**TYPE_PROPERTIES, "items": items, "metadata": metadata},
    }


def to_v2(schema: JSONObject) -> JSONObject:
    """Return a structural schema in OpenAPI v2."""
    found = {
        key: value
        for key, value in schema.items()
        if key not in _DROPPED and (key in _KEPT_EMPTY or value not in (False, "", [], None) or _is_number(value))
    }
    opaque = schema.get("nullable") or schema.get(_PRESERVE)
    properties: JSONObject = {} if opaque else schema.get("properties") or {}
    items = None if opaque else schema.get("items")
    if schema.get("nullable") or (found.get("type") == "array" and items is None):
        found.pop("type", None)
    if schema.get(_PRESERVE) and found.get("type") == "object":
        found.pop("type")
    _require_present(found, properties)
    if properties:
        found["properties"] = {name: to_v2(each) for name, each in properties.items()}
    if items is not None:
        found["items"] = to_v2(items)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        found["additionalProperties"] = to_v2(values)
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE):
        _embed(found)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require_present(schema: JSONObject, properties: JSONObject) -> None:
    """Require no field that may be null: a client of version 2 would take null as missing."""
    required = [each for each in schema.pop("required", ()) if not properties.get(each, {}).get("nullable")]
    values = schema.get("additionalProperties")
    if required and not (isinstance(values, dict) and values.get("nullable")):
        schema["required"] = required


def _embed(schema: JSONObject) -> None:
    schema["properties"] = {**schema.get("properties", {}), **_EMBEDDED_PROPERTIES}
    required = schema.get("required", [])
    schema["required"] = [*required, *(each for each in ("kind", "apiVersion") if each not in required)]


class Operations:
    """Builds the operations of custom resources, with parameters as the built-in `deployments` have them."""

    def __init__(self, paths: JSONObject) -> None:
        """`paths` are the paths of the built-in kinds."""
        collection = paths["/apis/apps/v1/namespaces/{namespace}/deployments"]
        item = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
        listed = collection["get"]["parameters"]
        self._parameters: JSONObject = {
            "list": listed,
            "deletecollection": listed,
            "get": [each for each in listed if each["$ref"].startswith("#/parameters/resourceVersion-")],
            "post": collection["post"]["parameters"][1:],
            "put": item["put"]["parameters"][1:],
            "delete": item["delete"]["parameters"],
            "patch": item["patch"]["parameters"],
        }
        self._namespace, self._pretty = collection["parameters"]

    def of(self, resource: Resource) -> JSONObject:
        """Return the path items of a custom resource, by path."""
        name, list_name = _names(resource)
        root, top = f"{resource.group_version.path}/{resource.plural}", [self._pretty]
        found: JSONObject = {}
        if resource.namespaced:
            found[root] = self._all_namespaces(resource, list_name)
            root = f"{resource.group_version.path}/namespaces/{{namespace}}/{resource.plural}"
            top = [self._namespace, self._pretty]
        found[root] = {
            "get": self._operation(resource, "list", "list", list_name),
            "post": self._operation(resource, "post", "create", name),
            "delete": self._operation(resource, "deletecollection", "deletecollection", _STATUS),
            "parameters": top,
        }
        top = [_name_parameter(resource), *top]
        found[f"{root}/{{name}}"] = {
            **self._views(resource, "", name),
            "delete": self._operation(resource, "delete", "delete", _STATUS),
            "parameters": top,
        }
        for subresource, shown in (("status", name), ("scale", _SCALE)):
            if subresource in resource.subresources:
                item = {**self._views(resource, subresource, shown), "parameters": top}
                found[f"{root}/{{name}}/{subresource}"] = item
        return found

    def _all_namespaces(self, resource: Resource, list_name: str) -> JSONObject:
        operation = self._operation(resource, "list", "list", list_name)
        operation["operationId"] = f"list{_title(resource)}{resource.kind}ForAllNamespaces"
        shared = [*operation.pop("parameters"), self._pretty]
        return {"get": operation, "parameters": sorted(shared, key=lambda each: each["$ref"].rpartition("-")[0])}

    def _views(self, resource: Resource, subresource: str, shown: str) -> JSONObject:
        verbs = {"get": "read", "put": "replace", "patch": "patch"}
        return {action: self._operation(resource, action, verb, shown, subresource) for action, verb in verbs.items()}

    def _operation(self, resource: Resource, action: str, verb: str, shown: str, subresource: str = "") -> JSONObject:
        reference = {"$ref": f"#/definitions/{shown}"}
        body = {"name": "body", "in": "body", "required": True, "schema": reference}
        codes = _CODES.get(action, {"200": "OK"})
        return {
            "description": _description(resource.kind, verb, subresource),
            "consumes": list(_PATCHES if action == "patch" else _TYPES),
            "produces": list(_TYPES),
            "schemes": ["https"],
            "tags": [f"{_identifier(resource.group)}_{_identifier(resource.version)}"],
            "operationId": _operation_id(resource, verb, subresource),
            "parameters": [*([body] if action in ("post", "put") else []), *self._parameters[action]],
            "responses": {
                **{code: {"description": each, "schema": reference} for code, each in codes.items()},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource, resource.kind),
        }


def _name_parameter(resource: Resource) -> JSONObject:
    return {
        "uniqueItems": True,
        "type": "string",
        "description": f"name of the {resource.kind}",
        "name": "name",
        "in": "path",
        "required": True,
    }


def _operation_id(resource: Resource, verb: str, subresource: str) -> str:
    collection = "Collection" if verb == "deletecollection" else ""
    scope = "Namespaced" if resource.namespaced else ""
    verb = verb.removesuffix("collection")
    return f"{verb}{_title(resource)}{collection}{scope}{resource.kind}{subresource.title()}"


def _title(resource: Resource) -> str:
    group, version = _identifier(resource.group), _identifier(resource.version)
    return f"{group[:1].upper()}{group[1:]}{version[:1].upper()}{version[1:]}"


def _identifier(text: str) -> str:
    """Return a group or version as part of an identifier: `x.example.com` is `xExampleCom`."""
    first, *rest = text.replace("-", ".").split(".")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _description(kind: str, verb: str, subresource: str) -> str:
    of = f" {subresource} of" if subresource else ""
    plural = kind.endswith("s") and not kind.endswith("ss")
    article = " " if plural else " an " if kind[0].lower() in "aeiou" else " a "
    match verb:
        case "list":
            return f"list objects of kind {kind}"
        case "read" | "replace":
            return f"{verb}{of} the specified {kind}"
        case "patch":
            return f"partially update{of} the specified {kind}"
        case "deletecollection":
            return f"delete collection of {kind}"
        case _:
            return f"{verb}{of}{article}{kind}"
