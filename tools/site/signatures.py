"""Types in signatures: those that they name, and those that only a type checker knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import griffe
from tools.site import names

_EMPTY: Final = re.compile(r"(dict|list)\[.*\]\(\)")
"""A default with types for the type checker, equal to `{}` or `[]`."""


def named_types(thing: griffe.Object) -> Iterator[str]:
    """Yield the paths of the types that `thing` names: of parameters and result, of bases, of a field."""
    for annotation in _annotations(thing):
        if isinstance(annotation, griffe.Expr):
            found = (each for each in annotation.iterate(flat=True) if isinstance(each, griffe.ExprName))
            yield from (each.canonical_path for each in found)


def _annotations(thing: griffe.Object) -> Iterator[str | griffe.Expr | None]:
    if isinstance(thing, griffe.Function):
        yield from (each.annotation for each in thing.parameters)
        yield thing.returns
    elif isinstance(thing, griffe.Attribute):
        yield thing.annotation
    elif isinstance(thing, griffe.Class):
        yield from thing.bases
        init = thing.members.get("__init__")
        if isinstance(init, griffe.Function):
            yield from _annotations(init)


def complete(attribute: griffe.Attribute) -> None:
    """Show the value of a type alias, and the type of any other attribute."""
    if str(attribute.annotation).endswith("TypeAlias"):
        attribute.annotation = None
        if isinstance(attribute.value, str):  # it is quoted because it names a later definition
            attribute.value = attribute.value.strip("'\"")
        return
    if attribute.annotation is None and "property" not in attribute.labels:
        attribute.annotation = _type(attribute)
    attribute.value = None


def _type(attribute: griffe.Attribute) -> str | griffe.Expr | None:
    """Return the type of a parameter, of an attribute of one, of a literal, or of the result of a call."""
    value = attribute.value
    init = attribute.parent.members.get("__init__") if attribute.parent is not None else None
    if isinstance(value, griffe.ExprName) and isinstance(init, griffe.Function) and value.name in init.parameters:
        return init.parameters[value.name].annotation
    if isinstance(value, griffe.ExprAttribute) and isinstance(init, griffe.Function):
        return _of_a_parameter(value, init)
    if isinstance(value, griffe.ExprCall) and attribute.parent is not None:
        called = names.resolve(str(value.function), attribute.parent)
        if isinstance(called, griffe.Function):
            return called.returns
        return value.function if isinstance(called, griffe.Class) else None
    return _of_literal(str(value))


def _of_a_parameter(value: griffe.ExprAttribute, init: griffe.Function) -> str | griffe.Expr | None:
    """Return the type of `shared.client`, where `shared` is a parameter."""
    name, *rest = str(value).split(".")
    annotation = init.parameters[name].annotation if name in init.parameters else None
    owner = annotation.left if isinstance(annotation, griffe.ExprSubscript) else annotation
    found = names.resolve(str(owner), init)
    for each in rest:
        found = names.member_of(found, each)
    return found.annotation or _type(found) if isinstance(found, griffe.Attribute) else None


def _of_literal(value: str) -> str | None:
    try:
        return type(ast.literal_eval(value)).__name__
    except (SyntaxError, ValueError):
        return None


def shorten_defaults(thing: griffe.Class) -> None:
    """Write the default `dict[str, int]()` of a parameter as `{}`."""
    init = thing.members.get("__init__")
    for each in init.parameters if isinstance(init, griffe.Function) else ():
        if match := _EMPTY.fullmatch(str(each.default)):
            each.default = {"dict": "{}", "list": "[]"}[match[1]]
