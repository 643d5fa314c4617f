"""What a type says of its values beyond their Python type, for `typing.Annotated`.

A marker is a keyword of the CRD's schema, under the name that controller-gen gives it: `Annotated[int, Minimum(0)]`.
The API server enforces it; Python does not check it again. A marker on a type that it cannot stand on (`Minimum` on a
string) is a ModelError when the class is made.

Follows controller-gen's validation markers and the structural schemas of apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | Mapping[str, JSONValue] | None"
"""A value as JSON has it."""
Reason: TypeAlias = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]
"""Why a rule refuses a value, as a Status names it (`causes`)."""

ANY: Final[frozenset[str]] = frozenset()
"""A marker with these `types` stands on any JSON type."""
NUMBERS: Final = frozenset({"integer", "number"})
"""It stands on numbers."""
STRINGS: Final = frozenset({"string"})
"""It stands on strings."""
ARRAYS: Final = frozenset({"array"})
"""It stands on lists."""
OBJECTS: Final = frozenset({"object"})
"""It stands on Models and maps."""


class Marker(msgspec.Struct, frozen=True, eq=False):
    """A keyword of a schema; made by the functions of this module.

    `types` are the JSON types that it may stand on, all of them when it is empty. One that is a `shape` decides the
    whole schema in place of the Python type. `fields` are those that it names, which a class that it stands on has.
    """

    name: str
    keywords: JSONObject
    types: frozenset[str] = ANY
    shape: bool = False
    fields: tuple[str, ...] = ()


def Minimum(value: float, *, exclusive: bool = False) -> Marker:
    """The least value; with `exclusive`, the value has to be above it."""
    return Marker("Minimum", {"minimum": value, **({"exclusiveMinimum": True} if exclusive else {})}, NUMBERS)


def Maximum(value: float, *, exclusive: bool = False) -> Marker:
    """The greatest value; with `exclusive`, the value has to be below it."""
    return Marker("Maximum", {"maximum": value, **({"exclusiveMaximum": True} if exclusive else {})}, NUMBERS)


def MultipleOf(value: float) -> Marker:
    """A number that is this one times a whole number."""
    return Marker("MultipleOf", {"multipleOf": value}, NUMBERS)


def MinLength(value: int) -> Marker:
    """The least number of characters of a string."""
    return Marker("MinLength", {"minLength": value}, STRINGS)


def MaxLength(value: int) -> Marker:
    """The greatest number of characters of a string. It also bounds what CEL rules on it may cost."""
    return Marker("MaxLength", {"maxLength": value}, STRINGS)


def Pattern(value: str) -> Marker:
    """A regular expression in RE2's syntax that is found in the value; anchor it with `^` and `$`."""
    return Marker("Pattern", {"pattern": value}, STRINGS)


def Format(value: str) -> Marker:
    """A format that the API server knows: `int32`, `int64`, `date-time`, `email`, `ipv4`, `cidr`, `uri`, ..."""
    return Marker("Format", {"format": value}, NUMBERS | STRINGS)


def MinItems(value: int) -> Marker:
    """The least number of items of a list."""
    return Marker("MinItems", {"minItems": value}, ARRAYS)


def MaxItems(value: int) -> Marker:
    """The greatest number of items of a list. It also bounds what CEL rules on it may cost."""
    return Marker("MaxItems", {"maxItems": value}, ARRAYS)


def MinProperties(value: int) -> Marker:
    """The least number of keys of a map, or of fields that an object has set."""
    return Marker("MinProperties", {"minProperties": value}, OBJECTS)


def MaxProperties(value: int) -> Marker:
    """The greatest number of keys of a map, or of fields that an object has set."""
    return Marker("MaxProperties", {"maxProperties": value}, OBJECTS)


def Enum(*values: JSONValue) -> Marker:
    """The values that are allowed. A `Literal` or an `enum.Enum` says the same in the type itself."""
    return Marker("Enum", {"enum": list(values)})


def ListType(value: Literal["atomic", "set", "map"]) -> Marker:
    """How server-side apply merges a list: as one value (`atomic`), as a set of scalars, or by its items' keys (`map`).

    An item of a `set`, or the keys of an item of a `map`, may be in the list once. A `map` needs `ListMapKey`.
    """
    return Marker("ListType", {"x-kubernetes-list-type": value}, ARRAYS)


def ListMapKey(*names: str) -> Marker:
    """The fields, by their names on the wire, that tell the items of a `ListType("map")` apart."""
    return Marker("ListMapKey", {"x-kubernetes-list-map-keys": list(names)}, ARRAYS)


def MapType(value: Literal["granular", "atomic"]) -> Marker:
    """How server-side apply merges a map or a Model: key by key (`granular`) or as one value (`atomic`)."""
    return Marker("MapType", {"x-kubernetes-map-type": value}, OBJECTS)


def Default(value: JSONValue) -> Marker:
    """The value that the API server fills in, where it is not the default of the Python field."""
    return Marker("Default", {"default": value})


def Required() -> Marker:
    """The field must be there, although it is empty by default in Python: an empty list of it is no valid object."""
    return REQUIRED


def Example(value: JSONValue) -> Marker:
    """A value for readers of the schema; the API server makes nothing of it."""
    return Marker("Example", {"example": value})


def Title(value: str) -> Marker:
    """A short name for readers of the schema; the API server makes nothing of it."""
    return Marker("Title", {"title": value})


def Description(value: str) -> Marker:
    """What the value means, where no docstring can stand: for the items of a list or the values of a map."""
    return Marker("Description", {"description": value})


def ExternalDocs(url: str, description: str | None = None) -> Marker:
    """Where more is written about the field."""
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
    """A rule in CEL that the value (`self`) has to meet; `oldSelf`, where the rule names it, is the value before.

    `message`, or the text that `message_expression` evaluates to, is what a user reads when it does not hold.
    `optional_old_self` lets a rule with `oldSelf` run on a create too.
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
    """A value that cannot be changed once it is set."""
    return XValidation("self == oldSelf", message=message)


def AtMostOneOf(*names: str) -> Marker:
    """Of the fields `names`, by their names on the wire, one may be set and no more. For a Model's `markers`."""
    return _union("AtMostOneOf", names, "<= 1", "at most one of the fields in [{}] may be set")


def ExactlyOneOf(*names: str) -> Marker:
    """Of the fields `names`, by their names on the wire, one is set and no more. For a Model's `markers`."""
    return _union("ExactlyOneOf", names, "== 1", "exactly one of the fields in [{}] must be set")


def AtLeastOneOf(*names: str) -> Marker:
    """Of the fields `names`, by their names on the wire, one is set or more. For a Model's `markers`."""
    return _union("AtLeastOneOf", names, ">= 1", "at least one of the fields in [{}] must be set")


def _union(name: str, fields: tuple[str, ...], count: str, message: str) -> Marker:
    from kubewright.machinery.cel_names import escape  # loaded by those who declare a union, as few do

    listed = ",".join(f"has(self.{escape(field) or field})" for field in fields)
    rule = XValidation(f"[{listed}].filter(x,x==true).size() {count}", message=message.format(" ".join(fields)))
    return Marker(name, rule.keywords, OBJECTS, fields=fields)


def PreserveUnknownFields() -> Marker:
    """Any fields are kept, not only those that the type has. With `Any`, any value at all."""
    return Marker("PreserveUnknownFields", {"x-kubernetes-preserve-unknown-fields": True})


def EmbeddedResource() -> Marker:
    """A whole object of any kind, with apiVersion, kind and metadata, on a `dict[str, Any]`."""
    keywords = {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    return Marker("EmbeddedResource", keywords, OBJECTS)


def Type(value: Literal["string", "integer", "number", "boolean", "object"]) -> Marker:
    """The JSON type, whatever the Python type is: `Annotated[float, Type("number")]`."""
    return Marker("Type", {"type": value}, shape=True)


def Keywords(keywords: JSONObject) -> Marker:
    """Keywords of the schema that no marker stands for (`oneOf`, `not`, ...), as they are to be in the CRD."""
    return Marker("Keywords", keywords)


def Schemaless() -> Marker:
    """The schema says nothing of the Python type, only what other markers say; PreserveUnknownFields goes with it."""
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
"""What `Required()` gives."""
INT_OR_STRING: Final = Marker("IntOrString", _INT_OR_STRING, shape=True)
"""Makes `meta.IntOrString` what it is."""
QUANTITY: Final = Marker("Quantity", {**_INT_OR_STRING, "pattern": _QUANTITY_PATTERN}, shape=True)
"""Makes `meta.Quantity` what it is."""
