"""Normalizes documents that Go writes or accepts and a strict decoder rejects: the slow path of decoding.

`null` for a list or map becomes an empty one. `null` for anything else that must not be null counts as absent. A number
in place of a quantity becomes a string.
"""

from __future__ import annotations

import types
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.markers import QUANTITY
from kubewright.models._struct import Struct

_ZEROES: Final[dict[Any, Any]] = {
    str: "", int: 0, float: 0.0, bool: False, bytes: "", list: [], dict: {}, datetime: "0001-01-01T00:00:00Z",
}  # fmt: skip


def normalized(value: Any, annotation: Any) -> Any:
    """Return `value`, which should be of the type `annotation`, in the form that msgspec expects. Changes no input."""
    if value is None or isinstance(value, (str, bool)):
        return value
    annotation = _without_none(annotation)
    if get_origin(annotation) is Annotated:
        if isinstance(value, (int, float)) and QUANTITY in annotation.__metadata__:
            return str(value)
        return normalized(value, annotation.__origin__)
    if is_array(value) and get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return [normalized(each, item) for each in value]
    if is_object(value) and get_origin(annotation) is dict:
        _, item = get_args(annotation)
        return {key: normalized(each, item) for key, each in value.items()}
    if is_object(value) and isinstance(annotation, type) and issubclass(annotation, Struct):
        return _normalized_struct(value, annotation)
    return value


def _normalized_struct(value: JSONObject, cls: type[Struct]) -> JSONObject:
    fields = _fields(cls)
    out: JSONObject = {}
    for key, each in value.items():
        annotation = fields.get(key, Any)
        if each is not None or _admits_none(annotation):
            out[key] = normalized(each, annotation)
        elif (container := _container(annotation)) is not None:
            out[key] = container()
    return out


def completed(value: JSONObject, cls: type[Struct]) -> JSONObject:
    """Return a document of a struct in which required fields that are missing have zero values. Changes no input.

    Go decodes an incomplete document to such a struct.
    """
    fields = _fields(cls)
    out = {key: _completed(each, fields.get(key, Any)) for key, each in value.items()}
    for each in msgspec.structs.fields(cls):
        if each.required and each.encode_name not in out:
            zero = _zero(fields[each.encode_name])
            if zero is not msgspec.UNSET:
                out[each.encode_name] = zero
    return out


def _completed(value: Any, annotation: Any) -> Any:
    annotation = _without_none(annotation)
    if get_origin(annotation) is Annotated:
        return _completed(value, annotation.__origin__)
    if is_array(value) and get_origin(annotation) is list:
        return [_completed(each, get_args(annotation)[0]) for each in value]
    if is_object(value) and get_origin(annotation) is dict:
        return {key: _completed(each, get_args(annotation)[1]) for key, each in value.items()}
    if is_object(value) and isinstance(annotation, type) and issubclass(annotation, Struct):
        return completed(value, annotation)
    return value


def _zero(annotation: Any) -> Any:
    """Return the zero value of a type in JSON; UNSET if there is none."""
    if _admits_none(annotation):
        return None
    if get_origin(annotation) is Annotated:
        return "0" if QUANTITY in annotation.__metadata__ else _zero(annotation.__origin__)
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    if _is_union(annotation):
        return _zero(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return completed({}, annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(iter(annotation)).value
    return _ZEROES.get(get_origin(annotation) or annotation, msgspec.UNSET)


@cache
def _fields(cls: type[Struct]) -> dict[str, Any]:
    """Return the types of a struct's fields, by their names on the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return {wire: hints[name] for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)}


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _without_none(annotation: Any) -> Any:
    if not _is_union(annotation):
        return annotation
    return next(each for each in get_args(annotation) if each is not types.NoneType)


def _admits_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _admits_none(annotation.__origin__)
    return annotation is Any or (_is_union(annotation) and types.NoneType in get_args(annotation))


def _container(annotation: Any) -> type[list[Any]] | type[dict[str, Any]] | None:
    if get_origin(annotation) is Annotated:
        return _container(annotation.__origin__)
    origin = get_origin(annotation)
    return origin if origin in (list, dict) else None
