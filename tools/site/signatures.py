"""The types that signatures name."""

from __future__ import annotations

from collections.abc import Iterator

import griffe


def named_types(thing: griffe.Object) -> Iterator[str]:
    """The paths of the types that `thing` names: of parameters and result, of bases, of a field."""
    for annotation in _annotations(thing):
        if isinstance(annotation, griffe.Expr):
            names = (each for each in annotation.iterate(flat=True) if isinstance(each, griffe.ExprName))
            yield from (each.canonical_path for each in names)


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
