"""What signatures say: the types that they name, and those that the source leaves to a type checker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import griffe
from tools.site import names

_EMPTY: Final = re.compile(r"(dict|list)\[.*\]\(\)")
"""A default as a type checker wants it, where the empty one would do."""


def named_types(thing: griffe.Object) -> Iterator[str]:
    """The paths of the types that `thing` names: of parameters and result, of bases, of a field."""
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
    """Show of a type alias what it stands for, of any other attribute its type and no value."""
    if str(attribute.annotation).endswith("TypeAlias"):
        attribute.annotation = None
        if isinstance(attribute.value, str):  # it is quoted, for it names what is defined below it
            attribute.value = attribute.value.strip("'\"")
        return
    if attribute.annotation is None and "property" not in attribute.labels:
        attribute.annotation = _type(attribute)
    attribute.value = None


def _type(attribute: griffe.Attribute) -> str | griffe.Expr | None:
    """Of a parameter or a literal its own; of a call what the function returns, or the class that is called."""
    value = attribute.value
    init = attribute.parent.members.get("__init__") if attribute.parent is not None else None
    if isinstance(value, griffe.ExprName) and isinstance(init, griffe.Function) and value.name in init.parameters:
        return init.parameters[value.name].annotation
    if isinstance(value, griffe.ExprCall) and attribute.parent is not None:
        called = names.resolve(str(value.function), attribute.parent)
        if isinstance(called, griffe.Function):
            return called.returns
        return value.function if isinstance(called, griffe.Class) else None
    return _of_literal(str(value))


def _of_literal(value: str) -> str | None:
    try:
        return type(ast.literal_eval(value)).__name__
    except (SyntaxError, ValueError):
        return None


def shorten_defaults(thing: griffe.Class) -> None:
    """Write `dict[str, int]()` as `{}` where that is what a parameter is without an argument."""
    init = thing.members.get("__init__")
    for each in init.parameters if isinstance(init, griffe.Function) else ():
        if match := _EMPTY.fullmatch(str(each.default)):
            each.default = {"dict": "{}", "list": "[]"}[match[1]]
