"""Markers of fields: constraints, defaults and other properties of a type, for `typing.Annotated`.

    from kubewright import markers as m

    class WebServerSpec(Model):
        replicas: Annotated[int, m.Minimum(0)] = 1

A marker is a keyword of the CRD's schema, under its name in controller-gen. The API server enforces it; Python checks
only defaults. A marker on a type that it does not apply to (`Minimum` on a string) raises ModelError when the class is
defined. Constraints of annotated-types (`Ge(0)`, `MinLen(1)`) and `msgspec.Meta` mean the same.

Follows controller-gen's validation markers and the structural schemas of apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | Mapping[str, JSONValue] | None"
"""A JSON value."""
Reason: TypeAlias = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]
"""Why a rule rejects a value: the reason in the `causes` of a Status."""

ANY: Final[frozenset[str]] = frozenset()
"""The `types` of a marker that applies to any JSON type."""
NUMBERS: Final = frozenset({"integer", "number"})
"""The `types` of a marker that applies to numbers."""
STRINGS: Final = frozenset({"string"})
"""The `types` of a marker that applies to strings."""
ARRAYS: Final = frozenset({"array"})
"""The `types` of a marker that applies to lists."""
OBJECTS: Final = frozenset({"object"})
"""The `types` of a marker that applies to Models and maps."""


class Marker(msgspec.Struct, frozen=True, eq=False):
    """Keywords of a schema; created by the functions of this module.

    `types` are the JSON types it applies to; empty means all. A marker that is a `shape` replaces the schema of the
    Python type. `fields` are the fields it refers to, which the class must have.
    """

    name: str
    keywords: JSONObject
    types: frozenset[str] = ANY
    shape: bool = False
    fields: tuple[str, ...] = ()


def Minimum(value: float, *, exclusive: bool = False) -> Marker:
    """The minimum; with `exclusive`, the value must be greater."""
    return Marker("Minimum", {"minimum": value, **({"exclusiveMinimum": True} if exclusive else {})}, NUMBERS)


def Maximum(value: float, *, exclusive: bool = False) -> Marker:
    """The maximum; with `exclusive`, the value must be less."""
    return Marker("Maximum", {"maximum": value, **({"exclusiveMaximum": True} if exclusive else {})}, NUMBERS)


def MultipleOf(value: float) -> Marker:
    """The value must be a multiple of this number."""
    return Marker("MultipleOf", {"multipleOf": value}, NUMBERS)


def MinLength(value: int) -> Marker:
    """The minimum number of characters of a string."""
    return Marker("MinLength", {"minLength": value}, STRINGS)


def MaxLength(value: int) -> Marker:
    """The maximum number of characters of a string. It also bounds the estimated cost of CEL rules."""
    return Marker("MaxLength", {"maxLength": value}, STRINGS)


def Pattern(value: str) -> Marker:
    """A regular expression in the syntax of RE2. It may match anywhere in the value; anchor it with `^` and `$`."""
    return Marker("Pattern", {"pattern": value}, STRINGS)


def Format(value: str) -> Marker:
    """A format that the API server knows: `int32`, `int64`, `date-time`, `email`, `ipv4`, `cidr`, `uri`, ..."""
    return Marker("Format", {"format": value}, NUMBERS | STRINGS)


def MinItems(value: int) -> Marker:
    """The minimum number of items of a list."""
    return Marker("MinItems", {"minItems": value}, ARRAYS)


def MaxItems(value: int) -> Marker:
    """The maximum number of items of a list. It also bounds the estimated cost of CEL rules."""
    return Marker("MaxItems", {"maxItems": value}, ARRAYS)


def MinProperties(value: int) -> Marker:
    """The minimum number of keys of a map, or of set fields of an object."""
    return Marker("MinProperties", {"minProperties": value}, OBJECTS)


def MaxProperties(value: int) -> Marker:
    """The maximum number of keys of a map, or of set fields of an object."""
    return Marker("MaxProperties", {"maxProperties": value}, OBJECTS)


def Enum(*values: JSONValue) -> Marker:
    """The allowed values. A `Literal` or an `enum.Enum` expresses the same in the type itself."""
    return Marker("Enum", {"enum": list(values)})


def ListType(value: Literal["atomic", "set", "map"]) -> Marker:
    """How server-side apply merges a list: as one value (`atomic`), as a set of scalars, or by its items' keys (`map`).

    Items of a `set` are unique, and so are the keys of the items of a `map`. A `map` requires `ListMapKey`.
    """
    return Marker("ListType", {"x-kubernetes-list-type": value}, ARRAYS)


def ListMapKey(*names: str) -> Marker:
    """The fields, by their names on the wire, that identify the items of a `ListType("map")`."""
    return Marker("ListMapKey", {"x-kubernetes-list-map-keys": list(names)}, ARRAYS)


def MapType(value: Literal["granular", "atomic"]) -> Marker:
    """How server-side apply merges a map or a Model: key by key (`granular`) or as one value (`atomic`)."""
    return Marker("MapType", {"x-kubernetes-map-type": value}, OBJECTS)


def Default(value: JSONValue) -> Marker:
    """The default that the API server sets, if it is not the default of the Python field."""
    return Marker("Default", {"default": value})


def Required() -> Marker:
    """The field is required, although it is empty by default in Python."""
    return REQUIRED


def Example(value: JSONValue) -> Marker:
    """An example for readers of the schema; the API server ignores it."""
    return Marker("Example", {"example": value})


def Title(value: str) -> Marker:
    """A short name for readers of the schema; the API server ignores it."""
    return Marker("Title", {"title": value})


def Description(value: str) -> Marker:
    """A description where no docstring is possible: of the items of a list or the values of a map."""
    return Marker("Description", {"description": value})


def ExternalDocs(url: str, description: str | None = None) -> Marker:
    """A link to more documentation of the field."""
    docs = {"url": url} if description is None else {"description": description, "url": url}
    return Marker("ExternalDocs", {"externalDocs": docs})


def XValidation(
    rule: str,
    *,
    message: str | None = None,
    message_expression: str | None = None,
    reason: Reason | None = None,
    field_path: str | None = None,
    optional_old_self: bool | None = None,
) -> Marker:
    """A CEL rule for the value (`self`); `oldSelf` is the value before an update.

    If the rule is violated, users read `message`, or the result of `message_expression`. Fields have their names on the
    wire: `self.maxSize`, not `self.max_size`. With `optional_old_self`, a rule with `oldSelf` also runs on a create.
    """
    pairs = {
        "fieldPath": field_path,
        "message": message,
        "messageExpression": message_expression,
        "optionalOldSelf": optional_old_self,
        "reason": reason,
        "rule": rule,
    }
    validation = {key: value for key, value in pairs.items() if value is not None}
    return Marker("XValidation", {"x-kubernetes-validations": [validation]})


def Immutable(message: str = "field is immutable") -> Marker:
    """The value must not change once it is set."""
    return XValidation("self == oldSelf", message=message)


def AtMostOneOf(*names: str) -> Marker:
    """At most one of the fields, by their names on the wire, may be set. For the `markers` of a Model."""
    return _union("AtMostOneOf", names, "<= 1", "at most one of the fields in [{}] may be set")


def ExactlyOneOf(*names: str) -> Marker:
    """Exactly one of the fields, by their names on the wire, must be set. For the `markers` of a Model."""
    return _union("ExactlyOneOf", names, "== 1", "exactly one of the fields in [{}] must be set")


def AtLeastOneOf(*names: str) -> Marker:
    """At least one of the fields, by their names on the wire, must be set. For the `markers` of a Model."""
    return _union("AtLeastOneOf", names, ">= 1", "at least one of the fields in [{}] must be set")


def _union(name: str, fields: tuple[str, ...], count: str, message: str) -> Marker:
    from kubewright.machinery.cel_names import escape  # imported lazily: few models need it

    listed = ",".join(f"has(self.{escape(field) or field})" for field in fields)
    rule = XValidation(f"[{listed}].filter(x,x==true).size() {count}", message=message.format(" ".join(fields)))
    return Marker(name, rule.keywords, OBJECTS, fields=fields)


def PreserveUnknownFields() -> Marker:
    """Unknown fields are preserved. With `Any`, any value is allowed."""
    return Marker("PreserveUnknownFields", {"x-kubernetes-preserve-unknown-fields": True})


def EmbeddedResource() -> Marker:
    """A whole object of any kind, with apiVersion, kind and metadata, on a `dict[str, Any]`."""
    keywords = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    return Marker("EmbeddedResource", keywords, OBJECTS)


def Type(value: Literal["string", "integer", "number", "boolean", "object"]) -> Marker:
    """The JSON type, regardless of the Python type: `Annotated[float, m.Type("number")]`."""
    return Marker("Type", {"type": value}, shape=True)


def Keywords(keywords: JSONObject) -> Marker:
    """Keywords of the schema that have no marker (`oneOf`, `not`, ...), as in the CRD."""
    return Marker("Keywords", keywords)


def Schemaless() -> Marker:
    """The schema ignores the Python type and contains only other markers; combine it with PreserveUnknownFields."""
    return Marker("Schemaless", {}, shape=True)


_INT_OR_STRING: Final[dict[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

REQUIRED: Final = Marker("Required", {})
"""The marker that `Required()` returns."""
INT_OR_STRING: Final = Marker("IntOrString", _INT_OR_STRING, shape=True)
"""The marker of `IntOrString`."""
QUANTITY: Final = Marker("Quantity", {**_INT_OR_STRING, "pattern": _QUANTITY_PATTERN}, shape=True)
"""The marker of `Quantity`."""
