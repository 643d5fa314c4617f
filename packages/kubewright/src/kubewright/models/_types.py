"""Translates Python types to schemas of a CRD, and explains why some types have none.

Schemas of Kubernetes are structural: each value has one type, objects list their fields, and nothing is recursive. A
type that does not fit raises ModelError, which names the field and says what to write instead.

Follows apiextensions.k8s.io/v1 and controller-gen's translation of Go types.
"""

from __future__ import annotations

import copy
import enum
import sys
import types
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from kubewright import markers as m
from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.markers import Marker
from kubewright.models._annotations import class_doc
from kubewright.models._meta import MicroTime, ObjectMeta
from kubewright.models._struct import Struct

Nested: TypeAlias = Callable[[type[Struct], str], JSONObject]
"""Returns the schema of a struct that the field at the given place holds."""

_SCALARS: Final[dict[Any, JSONObject]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "format": "byte"},
    datetime: {"type": "string", "format": "date-time"},
    MicroTime: {"type": "string", "format": "date-time"},
    ObjectMeta: {
        "type": "object",
        "properties": {
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
    Any: {},
}
"""Metadata is that of a template inside a kind, as controller-gen writes it with generateEmbeddedObjectMeta. An API
server drops fields that a schema does not name, and a Pod template without its labels is useless."""

_INSTEAD: Final = {
    "float": "floating-point numbers differ between languages; use int in a smaller unit, or Quantity, "
    'or, if it must be one, Annotated[float, m.Type("number")]',
    "Decimal": "use Quantity, or str",
    "timedelta": 'use str in the form "1h30m" (machinery.time.parse_duration reads it), or int seconds',
    "date": "use datetime, or str with m.Format('date')",
    "time": "use str, and document its form",
    "set": "use list with m.ListType('set')",
    "frozenset": "use list with m.ListType('set')",
    "tuple": "use list, or a Model with a field for each part",
    "list": "add the type of its items, like list[str]",
    "dict": "add the types of its keys and values, like dict[str, str]",
    "object": "use Any with m.PreserveUnknownFields()",
    "UUID": "use str",
    "NoneType": "a field that is always null has no use; use bool",
}


_LENGTHS: Final[dict[Any, tuple[Callable[[int], Marker], Callable[[int], Marker]]]] = {
    str: (m.MinLength, m.MaxLength),
    list: (m.MinItems, m.MaxItems),
    dict: (m.MinProperties, m.MaxProperties),
}
"""How the least and the greatest length of a type are expressed."""


class Unwrapped(msgspec.Struct, frozen=True):
    """A type without `Annotated` and `| None`."""

    type: Any
    markers: tuple[Marker, ...]
    admits_none: bool = False


def unwrap(annotation: Any, where: str) -> Unwrapped:
    """Unwrap a type from Annotated, aliases and unions with None. Raises ModelError for any other union."""
    markers: tuple[Marker, ...] = ()
    admits_none = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, metadata = annotation.__origin__, annotation.__metadata__
            own = (marker for each in metadata for marker in _markers(each, annotation, where))
            markers = (*own, *markers)
        elif any(each.shape for each in markers):
            return Unwrapped(annotation, markers, admits_none)
        elif origin in (Union, types.UnionType):
            options = get_args(annotation)
            admits_none |= types.NoneType in options
            kinds = [each for each in options if each not in (types.NoneType, msgspec.UnsetType)]
            if len(kinds) != 1:
                names = " | ".join(_name(each) for each in kinds)
                raise ModelError(
                    f'{where}: a CRD field has one type, but "{names}" is several. '
                    "Use IntOrString for ports and percentages, or one field for each"
                )
            annotation = kinds[0]
        elif hasattr(annotation, "__supertype__"):  # typing.NewType
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):  # the `type` statement of Python 3.12
            annotation = annotation.__value__
        else:
            return Unwrapped(annotation, markers, admits_none)


def _markers(metadata: Any, annotation: Any, where: str) -> list[Marker]:
    """Return the markers that one item of `Annotated` stands for: ours, or constraints of annotated-types or
    msgspec.Meta.

    Anything else in `Annotated` belongs to other libraries and is ignored.
    """
    if isinstance(metadata, Marker):
        return [metadata]
    if type(metadata).__module__.partition(".")[0] not in ("annotated_types", "msgspec"):
        return []
    bounds: dict[str, Callable[[Any], Marker]] = {
        "ge": m.Minimum,
        "gt": lambda value: m.Minimum(value, exclusive=True),
        "le": m.Maximum,
        "lt": lambda value: m.Maximum(value, exclusive=True),
        "multiple_of": m.MultipleOf,
        "min_length": _LENGTHS[_container(annotation, where)][0],
        "max_length": _LENGTHS[_container(annotation, where)][1],
        "pattern": m.Pattern,
        "title": m.Title,
        "description": m.Description,
    }
    values = {name: getattr(metadata, name, None) for name in bounds}
    if values["min_length"] == 0:  # the default of annotated_types.Len
        del values["min_length"]
    return [bounds[name](value) for name, value in values.items() if value is not None]


def _container(annotation: Any, where: str) -> Any:
    origin = get_origin(unwrap(annotation, where).type)
    return origin if origin in _LENGTHS else str


def schema_of(annotation: Any, where: str, nested: Nested, *, null_is_absent: bool = False) -> JSONObject:
    """Return the schema of a type. `where` names the field in errors; with `null_is_absent` None is not a value."""
    found = unwrap(annotation, where)
    shape = next((each for each in found.markers if each.shape), None)
    schema = dict(shape.keywords) if shape else _plain(found.type, where, nested)
    for marker in found.markers:
        if not marker.shape:
            apply(marker, schema, where)
    if found.admits_none and not null_is_absent:
        schema["nullable"] = True
    _check_open(found, schema, where)
    _check_list(found, schema, where)
    return schema


def _plain(kind: Any, where: str, nested: Nested) -> JSONObject:
    if kind is Any or (isinstance(kind, type) and kind in _SCALARS):
        return copy.deepcopy(_SCALARS[kind])
    origin, args = get_origin(kind), get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], f"{where}[]", nested)}
    if origin is dict:
        if unwrap(args[0], where).type is not str:
            raise ModelError(f'{where}: the keys of a map must be strings, got "{_name(kind)}". Use dict[str, ...]')
        if args[1] is Any:
            return {"type": "object"}
        return {"type": "object", "additionalProperties": schema_of(args[1], f"{where}[]", nested)}
    if origin is Literal:
        return _choice(args, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        described = {"description": text} if (text := class_doc(kind)) else {}
        return {**_choice(tuple(each.value for each in kind), where), **described}
    if isinstance(kind, type) and issubclass(kind, Struct):
        if hasattr(kind, "__api__"):
            raise ModelError(
                f"{where}: {kind.__name__} is a kind, and an object cannot contain another. Use a Model of the fields "
                "you need, a reference by name, or dict[str, Any] with m.EmbeddedResource()"
            )
        return nested(kind, where)
    raise ModelError(f'{where}: "{_name(kind)}" cannot be in a CRD; {_instead(kind)}')


def _choice(values: tuple[Any, ...], where: str) -> JSONObject:
    if all(isinstance(each, str) for each in values):
        return {"type": "string", "enum": list(values)}
    if all(isinstance(each, int) and not isinstance(each, bool) for each in values):
        return {"type": "integer", "enum": list(values)}
    raise ModelError(f"{where}: all values of an enum must be strings, or all must be integers")


def apply(marker: Marker, schema: JSONObject, where: str) -> None:
    """Add the keywords of `marker` to a schema. Raises ModelError if it does not apply to that type."""
    is_mixed = (
        "x-kubernetes-int-or-string" in schema
    )  # markers of strings apply if the value is one, as in controller-gen
    kind = "string" if is_mixed else schema.get("type", "value of any type")
    if marker.types and kind not in marker.types:
        wanted = " or ".join(sorted(marker.types))
        raise ModelError(f"{where}: {marker.name} is for type {wanted}, not {kind}")
    for key, value in marker.keywords.items():
        schema[key] = [*schema.get(key, ()), *value] if key == "x-kubernetes-validations" else value


def _check_open(found: Unwrapped, schema: JSONObject, where: str) -> None:
    anything = get_origin(found.type) is dict and get_args(found.type)[1] is Any
    untyped = "type" not in schema and "x-kubernetes-int-or-string" not in schema
    if (anything or untyped) and "x-kubernetes-preserve-unknown-fields" not in schema:
        raise ModelError(
            f'{where}: the API server drops fields that the schema does not name, here all of "{_name(found.type)}". '
            f"Use a Model, or Annotated[{_name(found.type)}, m.PreserveUnknownFields()] to keep any content"
        )


def _check_list(found: Unwrapped, schema: JSONObject, where: str) -> None:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type != "map":
        if keys:
            raise ModelError(f'{where}: ListMapKey requires ListType("map")')
        return
    if not keys:
        raise ModelError(f'{where}: ListType("map") needs the fields that identify an item: add m.ListMapKey("name")')
    item = unwrap(get_args(found.type)[0], where).type
    if not (isinstance(item, type) and issubclass(item, Struct)):
        raise ModelError(f'{where}: ListType("map") is for a list of Models; for scalars use m.ListType("set")')
    fields = {field.encode_name: field for field in msgspec.structs.fields(item)}
    for key in keys:
        if key not in fields:
            hint = did_you_mean(key, fields)
            raise ModelError(f'{where}: ListMapKey "{key}" is not a field of {item.__name__}{hint}')
        if not _is_always_there(fields[key], where):
            raise ModelError(
                f'{where}: ListMapKey "{key}" may be absent from {item.__name__}, but it identifies items; '
                "remove its default, or use one that is not None"
            )


def _is_always_there(field: msgspec.structs.FieldInfo, where: str) -> bool:
    if field.required or field.default_factory is not msgspec.NODEFAULT:
        return True
    return any(each.name == "Default" for each in unwrap(field.type, where).markers)


def _instead(kind: Any) -> str:
    classes: tuple[type, ...] = getattr(get_origin(kind) or kind, "__mro__", ())
    names = [each.__name__ for each in classes[:-1] or classes]  # the last is `object`
    is_own = isinstance(kind, type) and kind.__module__.partition(".")[0] not in sys.stdlib_module_names
    otherwise = f"derive it from Model: class {_name(kind)}(Model)" if is_own else "make it a Model"
    return next((_INSTEAD[name] for name in names if name in _INSTEAD), otherwise)


def _name(kind: Any) -> str:
    if kind is types.NoneType:
        return "None"
    if get_origin(kind) is None and isinstance(kind, type):
        return kind.__name__
    return str(kind).replace("typing.", "")
