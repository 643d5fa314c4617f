"""What a type says of its values beyond their Python type, for `typing.Annotated`.

A marker is a keyword of the CRD's schema, under the name that controller-gen gives it: `Annotated[int, Minimum(0)]`.
The API server enforces it; Python does not check it again. A marker on a type that it can't be on (`Minimum` on a
string) is a ModelError when the class is made.

Follows controller-gen's validation markers and the structural schemas of apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, TypeAlias

from kubewright.machinery.json import JSONObject

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | Mapping[str, JSONValue] | None"

ANY_TYPE: frozenset[str] = frozenset()
NUMBERS = frozenset({"integer", "number"})
STRINGS = frozenset({"string"})
ARRAYS = frozenset({"array"})
OBJECTS = frozenset({"object"})


class Marker:
    """A keyword of a schema. `types` are the JSON types that it may stand on; all of them when it is empty."""

    types: ClassVar[frozenset[str]] = ANY_TYPE

    def keywords(self) -> JSONObject:
        """What it adds to the schema."""
        raise NotImplementedError


class Shape(Marker):
    """A marker that decides the whole schema of a type, in place of the Python type."""


@dataclass(frozen=True, slots=True)
class Minimum(Marker):
    """The least value; with `exclusive`, the value has to be above it."""

    value: int
    exclusive: bool = False
    types = NUMBERS

    def keywords(self) -> JSONObject:
        return {"minimum": self.value, **({"exclusiveMinimum": True} if self.exclusive else {})}


@dataclass(frozen=True, slots=True)
class Maximum(Marker):
    """The greatest value; with `exclusive`, the value has to be below it."""

    value: int
    exclusive: bool = False
    types = NUMBERS

    def keywords(self) -> JSONObject:
        return {"maximum": self.value, **({"exclusiveMaximum": True} if self.exclusive else {})}


@dataclass(frozen=True)
class _Bound(Marker):
    value: int
    keyword: ClassVar[str]

    def keywords(self) -> JSONObject:
        return {self.keyword: self.value}


class MultipleOf(_Bound):
    keyword, types = "multipleOf", NUMBERS


class MinLength(_Bound):
    keyword, types = "minLength", STRINGS


class MaxLength(_Bound):
    keyword, types = "maxLength", STRINGS


class MinItems(_Bound):
    keyword, types = "minItems", ARRAYS


class MaxItems(_Bound):
    keyword, types = "maxItems", ARRAYS


class MinProperties(_Bound):
    keyword, types = "minProperties", OBJECTS


class MaxProperties(_Bound):
    keyword, types = "maxProperties", OBJECTS


@dataclass(frozen=True, slots=True)
class Pattern(Marker):
    """A regular expression in RE2's syntax that is found in the value; anchor it with `^` and `$`."""

    value: str
    types = STRINGS

    def keywords(self) -> JSONObject:
        return {"pattern": self.value}


@dataclass(frozen=True, slots=True)
class Format(Marker):
    """A format that the API server knows: `int32`, `int64`, `date-time`, `email`, `ipv4`, `cidr`, `uri`, ..."""

    value: str
    types = NUMBERS | STRINGS

    def keywords(self) -> JSONObject:
        return {"format": self.value}


@dataclass(frozen=True, slots=True, init=False)
class Enum(Marker):
    """The values that are allowed. A `Literal` or an `enum.Enum` says the same in the type itself."""

    values: tuple[JSONValue, ...]

    def __init__(self, *values: JSONValue) -> None:
        object.__setattr__(self, "values", values)

    def keywords(self) -> JSONObject:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class ListType(Marker):
    """How server-side apply merges a list: as one value (`atomic`), as a set of scalars, or by its items' keys (`map`).

    An item of a `set` or a key of a `map` may be in the list once; a `map` needs `ListMapKey`.
    """

    value: Literal["atomic", "set", "map"]
    types = ARRAYS

    def keywords(self) -> JSONObject:
        return {"x-kubernetes-list-type": self.value}


@dataclass(frozen=True, slots=True, init=False)
class ListMapKey(Marker):
    """The fields, by their names on the wire, that tell the items of a `ListType("map")` apart."""

    names: tuple[str, ...]
    types = ARRAYS

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)

    def keywords(self) -> JSONObject:
        return {"x-kubernetes-list-map-keys": list(self.names)}


@dataclass(frozen=True, slots=True)
class MapType(Marker):
    """How server-side apply merges a map or a struct: key by key (`granular`) or as one value (`atomic`)."""

    value: Literal["granular", "atomic"]
    types = OBJECTS

    def keywords(self) -> JSONObject:
        return {"x-kubernetes-map-type": self.value}


@dataclass(frozen=True, slots=True)
class Default(Marker):
    """The value that the API server fills in, where it is not the default of the Python field."""

    value: JSONValue

    def keywords(self) -> JSONObject:
        return {"default": self.value}


@dataclass(frozen=True, slots=True)
class Example(Marker):
    value: JSONValue

    def keywords(self) -> JSONObject:
        return {"example": self.value}


@dataclass(frozen=True, slots=True)
class Title(Marker):
    value: str

    def keywords(self) -> JSONObject:
        return {"title": self.value}


@dataclass(frozen=True, slots=True)
class XValidation(Marker):
    """A rule in CEL that the value (`self`) has to meet; `oldSelf`, where the rule names it, is the value before.

    `message`, or the text that `message_expression` evaluates to, is what a user reads when it does not hold.
    `optional_old_self` lets a rule with `oldSelf` run on a create too.
    """

    rule: str
    _: KW_ONLY
    message: str | None = None
    message_expression: str | None = None
    reason: Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"] | None = (
        None
    )
    field_path: str | None = None
    optional_old_self: bool | None = None

    def keywords(self) -> JSONObject:
        pairs = (
            ("fieldPath", self.field_path),
            ("message", self.message),
            ("messageExpression", self.message_expression),
            ("optionalOldSelf", self.optional_old_self),
            ("reason", self.reason),
            ("rule", self.rule),
        )
        return {"x-kubernetes-validations": [{key: value for key, value in pairs if value is not None}]}


def Immutable(message: str = "field is immutable") -> XValidation:
    """A value that cannot be changed once it is set."""
    return XValidation(rule="self == oldSelf", message=message)


@dataclass(frozen=True, slots=True)
class PreserveUnknownFields(Marker):
    """Any fields are kept, not only those that the type has. With `Any`, any value at all."""

    def keywords(self) -> JSONObject:
        return {"x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Marker):
    """A whole object of any kind, with apiVersion, kind and metadata, on a `dict[str, Any]`."""

    types = OBJECTS

    def keywords(self) -> JSONObject:
        return {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class IntOrStringType(Shape):
    """Marks `meta.IntOrString`."""

    def keywords(self) -> JSONObject:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


@dataclass(frozen=True, slots=True)
class QuantityType(Shape):
    """Marks `meta.Quantity`."""

    def keywords(self) -> JSONObject:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": _QUANTITY,
            "x-kubernetes-int-or-string": True,
        }


_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
