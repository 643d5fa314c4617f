"""Checks of the fields that a mutation changes: those of `Object{...}`, and the literal paths of `JSONPatch{...}`.

An API server finds a wrong field only when it evaluates the mutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubewright.cel.library import patch_functions
from kubewright.cel.parser import parse
from kubewright.cel.syntax import Literal, StructExpr, shown
from kubewright.cel.types import JSON_PATCH, OBJECT, Type, is_object_name
from kubewright_controlplane.policies.explanations import every, meant


def unknown_fields(source: str, own: Type) -> str:
    """Return the fields in a mutation that objects of the type `own` do not have, with their positions; "" if none."""
    errors: list[tuple[int, str]] = []
    for each in every(parse(source, patch_functions().keys())):
        if not isinstance(each, StructExpr):
            continue
        if is_object_name(each.name):
            errors += _of_object(each, own)
        elif each.name == JSON_PATCH.name:
            errors += _of_patch(each, own)
    return shown(source, errors)


def _of_object(expression: StructExpr, own: Type) -> Iterator[tuple[int, str]]:
    place: Type | None = own
    for step in expression.name.removeprefix(OBJECT.name).split(".")[1:]:
        place = _below(_item(place), step)
    fields = _fields(_item(place))
    if fields is None:
        return
    for field in expression.fields:
        if field.name not in fields:
            yield field.at, f"{expression.name} has no field '{field.name}'{meant(field.name, fields)}"


def _of_patch(expression: StructExpr, own: Type) -> Iterator[tuple[int, str]]:
    for field in expression.fields:
        if field.name not in ("path", "from") or not isinstance(field.value, Literal):
            continue
        path, place = str(field.value.value), own
        for encoded in path.split("/")[1:]:
            step = encoded.replace("~1", "/").replace("~0", "~")
            fields = _fields(place)
            if fields is not None and step not in fields:
                yield field.value.at, f"{field.name} {path}: there is no field '{step}'{meant(step, fields)}"
                break
            found = place.parameters[0] if place.name == "list" and place.parameters else _below(place, step)
            if found is None:
                break
            place = found


def _item(place: Type | None) -> Type | None:
    """Return the type of the items of a list, and of the lists in it; other types are their own."""
    while place is not None and place.name == "list" and place.parameters:
        place = place.parameters[0]
    return place


def _below(place: Type | None, step: str) -> Type | None:
    if place is not None and place.name == "map" and place.parameters:
        return place.parameters[1]
    return (_fields(place) or {}).get(step)


def _fields(place: Type | None) -> Mapping[str, Type] | None:
    return place.fields if place is not None else None
