"""Messages of the compiler, with the position in words and the name that was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from kubewright.cel.checker import TYPE_NAMES, Environment, check
from kubewright.cel.library import functions, patch_functions
from kubewright.cel.parser import parse
from kubewright.cel.syntax import CompileError, Expr, Has, Macro, Select, parts
from kubewright.cel.types import Type
from kubewright.machinery._suggestions import nearest

_PREFIX: Final = "compilation failed: "
_POSITION: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNKNOWN_NAME: Final = re.compile(r"undeclared reference to '(\w+)'")
_UNKNOWN_FIELD: Final = re.compile(r"undefined field '(\w+)'")
_NO_TYPE: Final = re.compile(r"must evaluate to (.+) but got dyn")
_NOT_HERE: Final = {
    "params": "; the policy has no parameters",
    "self": "; policies call it 'object'",
    "oldSelf": "; policies call it 'oldObject'",
    "variables": "; there are none here",
}
"""What to say of variables that other expressions have."""
_FEW: Final = 12
_REMEDIES: Final = {
    "bool": "compare the value, as in `... == true`",
    "string": "write `string(...)`",
}


def explained(error: CompileError, source: str, variables: Mapping[str, Type], *, patches: bool = False) -> str:
    """Return the text of an error of the compiler: each error with its position, and a suggestion if there is one."""
    text = str(error).removeprefix(_PREFIX)
    if found := _NO_TYPE.fullmatch(text):
        remedy = _REMEDIES.get(found[1], "convert the value")
        return f"{text}: an API server does not know the types of fields when it stores a policy; {remedy}"
    nodes = _checked(source, variables, patches=patches)

    def line(found: re.Match[str]) -> str:
        return f"line {found[1]}, column {found[2]}: {found[3]}{_suggestion(found[3], nodes, variables)}"

    return _POSITION.sub(line, text)


def _checked(source: str, variables: Mapping[str, Type], *, patches: bool) -> list[Expr]:
    """Return the parts of an expression with their types, as far as it can be read."""
    known = patch_functions() if patches else functions()
    try:
        expression = parse(source, known.keys())
    except CompileError:
        return []
    with suppress(CompileError, RecursionError):
        check(source, expression, Environment(variables, known, patches))
    return list(every(expression))


def every(expression: Expr) -> Iterator[Expr]:
    """Yield an expression and all of its parts."""
    yield expression
    for part in parts(expression):
        yield from every(part)


def _suggestion(error: str, nodes: Iterable[Expr], variables: Mapping[str, Type]) -> str:
    if found := _UNKNOWN_FIELD.search(error):
        return meant(found[1], fields_of(found[1], nodes))
    if found := _UNKNOWN_NAME.search(error):
        if found[1] in _NOT_HERE:
            return _NOT_HERE[found[1]]
        loops = (name for each in nodes if isinstance(each, Macro) for name in each.variables)
        callable_names = (each for each in patch_functions() if each.isidentifier())
        return meant(found[1], [*variables, *loops, *TYPE_NAMES, *callable_names])
    return ""


def fields_of(unknown: str, nodes: Iterable[Expr]) -> list[str]:
    """Return the fields of the first value from which the unknown field is selected."""
    for each in nodes:
        if isinstance(each, (Select, Has)) and each.field == unknown:
            fields = each.operand.type.fields
            if fields is not None and unknown not in fields:
                return list(fields)
    return []


def meant(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name: the most similar known one, or all if they are few."""
    names = list(known)
    if similar := nearest(name, names):
        return f"; did you mean {similar!r}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= _FEW else ""
