"""The schema of a whole kind or struct, with descriptions, as in a CRD."""

from __future__ import annotations

from typing import Final

import msgspec

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.markers import REQUIRED
from kubewright.models._annotations import class_doc, field_docs
from kubewright.models._model import field_schema
from kubewright.models._resource import Object
from kubewright.models._struct import Struct
from kubewright.models._types import apply, unwrap

_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"

_API_VERSION: Final = f"""\
APIVersion defines the versioned schema of this representation of an object.
Servers should convert recognized schemas to the latest internal value, and
may reject unrecognized values.
More info: {_CONVENTIONS}#resources"""

_KIND: Final = f"""\
Kind is a string value representing the REST resource this object represents.
Servers may infer this from the endpoint the client submits requests to.
Cannot be updated.
In CamelCase.
More info: {_CONVENTIONS}#types-kinds"""


def root_schema(cls: type[Object]) -> JSONObject:
    """Return the `openAPIV3Schema` of a kind. Raises ModelError for types that a CRD cannot express."""
    schema = struct_schema(cls)
    properties: JSONObject = schema["properties"]
    properties["metadata"] = {"type": "object"}
    for field in msgspec.structs.fields(cls):
        explicit = any(each.name == "Default" for each in unwrap(field.type, cls.__name__).markers)
        if field.name == "status" and not explicit:  # a status contains observations, and there are none yet
            properties["status"].pop("default", None)
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        **properties,
    }
    return schema


def struct_schema(cls: type[Struct], where: str = "", enclosing: tuple[type[Struct], ...] = ()) -> JSONObject:
    """Return the schema of `cls` and everything in it. Raises ModelError for types that a CRD cannot express.

    The description of a field is the string below it, or else the docstring of its type.
    """
    if cls in enclosing:
        raise ModelError(f"{where}: {cls.__name__} contains itself, which a CRD cannot express; remove the field")
    docs = field_docs(cls)
    schema: JSONObject = {"type": "object"}
    if description := class_doc(cls):
        schema["description"] = description
    properties: JSONObject = {}
    required: list[str] = []
    for field in msgspec.structs.fields(cls):
        place = f"{cls.__name__}.{field.name}"
        made = field_schema(field, place, lambda each, where: struct_schema(each, where, (*enclosing, cls)))
        if field.name in docs:
            made["description"] = docs[field.name]
        properties[field.encode_name] = made
        if field.required or REQUIRED in unwrap(field.type, place).markers:
            required.append(field.encode_name)
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = sorted(required)
    for marker in cls.__markers__:
        apply(marker, schema, cls.__name__)
    return schema
