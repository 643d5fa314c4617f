"""Normalizes values that Go writes and a strict decoder rejects: the slow path of decoding.

`null` for a list or map becomes an empty one. `null` for anything else that must not be null counts as absent. A number
in place of a quantity becomes a string.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.markers import QUANTITY
from kubewright.models._struct import Struct


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
