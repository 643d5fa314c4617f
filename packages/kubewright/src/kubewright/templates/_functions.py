"""Functions of templates, and the types of their parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubewright.templates._values import NilList, NilMap, StringMap

GO_TYPES: Final = {
    "any": "interface {}",
    "map": "map[string]interface {}",
    "list": "[]interface {}",
    "float": "float64",
    "time": "time.Time",
    "certificate": "sprig.certificate",
    "version": "*semver.Version",
    "duration": "time.Duration",
}
"""Names of types in signatures that are not the name in Go."""
NILS: Final[Mapping[str, Callable[[], Any]]] = {"any": lambda: None, "map": NilMap, "list": NilList}
"""What `nil` becomes, for the types that accept it."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of templates, with a signature in Go's types.

    `parameters` are names of types: any, string, int, int64, uint32, float, bool, map, list, or the name of a struct.
    """

    call: Callable[..., object]
    parameters: tuple[str, ...] = ()
    variadic: str = ""
    """The type of any further arguments; empty if the function takes none."""
    rendering: bool = False
    """Whether the first argument is the Rendering."""
    steps: int = 1
    """How many steps of the limits a call takes."""


@dataclass(frozen=True, slots=True)
class ShortCircuit(Function):
    """The function `and` or `or`. It stops at the first argument whose truth is `stop`."""

    stop: bool = False


def f(call: Callable[..., Any], *parameters: str, steps: int = 1) -> Function:
    """Return a function. The last parameter may end with `...`."""
    if parameters and parameters[-1].endswith("..."):
        return Function(call, parameters[:-1], parameters[-1][:-3], steps=steps)
    return Function(call, parameters, steps=steps)


_ANNOTATED: Final[Mapping[object, str]] = {
    str: "string",
    int: "int",
    float: "float",
    bool: "bool",
    dict: "map",
    Mapping: "map",
    list: "list",
}


def from_python(name: str, call: Callable[..., object], rendering_type: type) -> Function:
    """Return a function with the signature of a Python function. Raises TypeError if it has keyword-only parameters."""
    hints = typing.get_type_hints(call) if inspect.isroutine(call) else {}
    parameters = list(inspect.signature(call).parameters.values())
    takes_rendering = bool(parameters) and hints.get(parameters[0].name) is rendering_type
    fixed: list[str] = []
    variadic = ""
    for parameter in parameters[takes_rendering:]:
        annotation = hints.get(parameter.name)
        kind = _ANNOTATED.get(typing.get_origin(annotation) or annotation, "any")
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = kind
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            fixed.append(kind)
        else:
            raise TypeError(f"function {name!r}: parameter {parameter.name} cannot be given by a template; remove it")
    return Function(call, tuple(fixed), variadic, takes_rendering)


def accepts(kind: str) -> Callable[[Any], bool]:
    """Return a check of whether a value can be an argument of a type."""
    if kind == "any":
        return lambda value: True
    if kind == "map":
        return lambda value: isinstance(value, dict) and type(value) is not StringMap
    if kind == "list":
        return lambda value: type(value) is list or type(value) is NilList
    exact = {"string": str, "int": int, "float": float, "bool": bool}.get(kind)
    if exact is not None:
        return lambda value: type(value) is exact
    go_type = GO_TYPES.get(kind, kind)
    return lambda value: getattr(value, "type_name", None) == go_type
