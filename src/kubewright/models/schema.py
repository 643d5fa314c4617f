"""The schema of a whole struct, with descriptions, as it stands in a CRD."""

from __future__ import annotations

import msgspec

from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.models.docs import class_doc, field_docs
from kubewright.models.markers import REQUIRED
from kubewright.models.model import field_schema
from kubewright.models.struct import Struct
from kubewright.models.types import apply, unwrap


def struct_schema(cls: type[Struct], where: str = "", enclosing: tuple[type[Struct], ...] = ()) -> JSONObject:
    """The schema of `cls` and all that it holds. Raises ModelError for what cannot be in a CRD.

    A field's description is the string under it, or else the docstring of its type.
    """
    if cls in enclosing:
        raise ModelError(f"{where}: {cls.__name__} contains itself, which a CRD cannot say; leave the field out")
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
