"""The `__init__` of structs, which msgspec makes when the program runs.

Griffe does the same for dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterator

import griffe

_CONSTANT = "class-attribute"
_FIELD = "instance-attribute"


def add_inits(thing: griffe.Module | griffe.Class) -> None:
    """Add an `__init__` to each struct in `thing`, with the fields of its bases first, those with only a name last."""
    for each in list(thing.members.values()):
        if isinstance(each, griffe.Module | griffe.Class):
            add_inits(each)
    if isinstance(thing, griffe.Class) and "__init__" not in thing.members and is_struct(thing):
        owners = [*reversed(thing.mro()), thing]
        found = {each.name: each for owner in owners if is_struct(owner) for each in _parameters(owner)}
        ordered = sorted(found.values(), key=lambda each: each.kind is griffe.ParameterKind.keyword_only)
        receiver = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        init = griffe.Function("__init__", parameters=griffe.Parameters(receiver, *ordered), returns="None")
        thing.set_member("__init__", init)


def is_struct(thing: griffe.Class) -> bool:
    """Return whether a class is a struct of msgspec. Models are not: their reference lists each field."""
    owners = (thing, *thing.mro())
    bases = (base for each in owners for base in each.bases)
    return not any("metaclass" in each.keywords for each in owners) and any(
        isinstance(base, griffe.Expr) and base.canonical_path == "msgspec.Struct" for base in bases
    )


def _parameters(struct: griffe.Class) -> Iterator[griffe.Parameter]:
    named = str(struct.keywords.get("kw_only")) == "True"
    kind = griffe.ParameterKind.keyword_only if named else griffe.ParameterKind.positional_or_keyword
    for each in struct.members.values():
        if isinstance(each, griffe.Attribute) and each.annotation is not None and _is_field(each):
            yield griffe.Parameter(each.name, annotation=each.annotation, kind=kind, default=_default(each.value))


def _is_field(attribute: griffe.Attribute) -> bool:
    """Return whether an attribute is neither a property nor a class variable."""
    return "property" not in attribute.labels and not (_CONSTANT in attribute.labels and _FIELD not in attribute.labels)


def _default(value: str | griffe.Expr | None) -> str | griffe.Expr | None:
    if not isinstance(value, griffe.ExprCall) or value.canonical_path != "msgspec.field":
        return value
    given = {each.name: each.value for each in value.arguments if isinstance(each, griffe.ExprKeyword)}
    factory = given.get("default_factory")
    return given.get("default") if factory is None else f"{factory}()"
