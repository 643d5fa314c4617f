"""Descriptors of a ClusterServiceVersion: the fields of `spec` and `status` of a kind, as a console shows them.

There is one for each field of the project's own structures, also nested ones. A field whose type is a structure of
Kubernetes, such as a Pod template, is one descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource, Struct
from kubewright.models._annotations import class_doc, field_docs
from kubewright.models._schema import root_schema
from kubewright.models._types import unwrap

Part = Literal["spec", "status"]

_UI: Final = "urn:alm:descriptor:com.tectonic.ui:"
_KUBERNETES: Final = "urn:alm:descriptor:io.kubernetes"
_OF_CLASS: Final = {
    "ResourceRequirements": f"{_UI}resourceRequirements",
    "SecretKeySelector": f"{_KUBERNETES}:Secret",
    "SecretReference": f"{_KUBERNETES}:Secret",
    "ConfigMapKeySelector": f"{_KUBERNETES}:ConfigMap",
    "NodeAffinity": f"{_UI}nodeAffinity",
    "PodAffinity": f"{_UI}podAffinity",
    "PodAntiAffinity": f"{_UI}podAntiAffinity",
}
_OF_STATUS: Final = {"conditions": f"{_KUBERNETES}.conditions", "phase": f"{_KUBERNETES}.phase"}
_OF_TYPE: Final = {
    "string": f"{_UI}text",
    "integer": f"{_UI}number",
    "number": f"{_UI}number",
    "boolean": f"{_UI}booleanSwitch",
}


@dataclass(frozen=True, slots=True)
class _Field:
    path: str
    schema: JSONObject
    cls: type[Struct] | None
    """The structure that the field contains."""
    description: str


def descriptors(kind: type[CustomResource], part: Part, scaled: str = "") -> list[JSONObject]:
    """Return the descriptors of `spec` or `status`, sorted by path; none if the kind has no such field.

    scaled: the path of the field with the number of replicas, if the kind has the subresource `scale`.
    """
    top = next((each for each in msgspec.structs.fields(kind) if each.name == part), None)
    cls = _struct(top.type, part) if top is not None else None
    schema: JSONObject = root_schema(kind)["properties"].get(part) or {}
    if cls is None:
        return []
    found = sorted(_fields(cls, schema, ""), key=lambda each: each.path)
    return [_descriptor(each, part, is_scaled=f".{part}.{each.path}" == scaled) for each in found]


def words(name: str) -> str:
    """Return a name in camel case or with dashes as words: `podTemplate` and `pod-template` are `Pod Template`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-_.]", " ", name)
    return " ".join(each[0].upper() + each[1:] for each in spaced.split())


def _fields(cls: type[Struct], schema: JSONObject, prefix: str) -> Iterator[_Field]:
    docs = field_docs(cls)
    properties: JSONObject = schema.get("properties") or {}
    for field in msgspec.structs.fields(cls):
        inner = _struct(field.type, field.name)
        own = inner is not None and not inner.__module__.startswith("kubewright.")
        description = docs.get(field.name) or (class_doc(inner) if inner is not None and own else "")
        found = _Field(f"{prefix}{field.encode_name}", properties.get(field.encode_name) or {}, inner, description)
        yield found
        if inner is not None and own:
            yield from _fields(inner, found.schema, f"{found.path}.")


def _struct(annotation: object, where: str) -> type[Struct] | None:
    found = unwrap(annotation, where).type
    return found if isinstance(found, type) and issubclass(found, Struct) else None


def _descriptor(field: _Field, part: Part, *, is_scaled: bool) -> JSONObject:
    found: JSONObject = {"displayName": words(field.path.rpartition(".")[2]), "path": field.path}
    if field.description:
        found["description"] = " ".join(field.description.split())
    if hints := [f"{_UI}podCount"] if is_scaled else _hints(field, part):
        found["x-descriptors"] = hints
    return found


def _hints(field: _Field, part: Part) -> list[str]:
    if part == "status" and field.path in _OF_STATUS:
        return [_OF_STATUS[field.path]]
    if field.cls is not None:
        hint = _OF_CLASS.get(field.cls.__name__)
        return [hint] if hint and field.cls.__module__.startswith("kubewright.") else []
    if choices := field.schema.get("enum"):
        return [f"{_UI}select:{each}" for each in choices]
    hint = _OF_TYPE.get(str(field.schema.get("type")))
    return [hint] if hint else []
