"""Python source, formatted like the usual formatters do.

Code that fits into a line stays on one line. Else each part of a bracket has its own line, with a trailing comma.
Formatters with 88 columns leave the result unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import is_array, is_object

_WIDTH: Final = 88


@dataclass(frozen=True, slots=True)
class Group:
    """Code in brackets: parts, each with its prefix (`name=`, `"key": `)."""

    head: str
    parts: tuple[tuple[str, Code], ...]
    tail: str


@dataclass(frozen=True, slots=True)
class Union:
    """Types joined by `|`."""

    parts: tuple[Code, ...]


Code: TypeAlias = "str | Group | Union"


def call(name: str, /, *arguments: Code, **options: Code | None) -> Group:
    """Return `name(...)` without the options that are not set."""
    named = ((f"{key}=", value) for key, value in options.items() if value is not None)
    return Group(f"{name}(", (*(("", each) for each in arguments), *named), ")")


def subscript(name: str, *arguments: Code) -> Group:
    return Group(f"{name}[", tuple(("", each) for each in arguments), "]")


def listed(items: Iterable[Code]) -> Group:
    return Group("[", tuple(("", each) for each in items), "]")


def union(first: Code, *others: Code) -> Code:
    return Union((first, *others)) if others else first


def literal(value: Any) -> Code:
    """Return a JSON value as code."""
    if is_object(value):
        return Group("{", tuple((f"{quoted(key)}: ", literal(each)) for key, each in value.items()), "}")
    if is_array(value):
        return listed(literal(each) for each in value)
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """Return a string in the quotes that need fewer escapes."""
    double = json.dumps(text, ensure_ascii=False)
    if text.count('"') <= text.count("'"):
        return double
    return "'{}'".format(double[1:-1].replace('\\"', '"').replace("'", "\\'"))


def flat(code: Code) -> str:
    """Return `code` on one line."""
    if isinstance(code, str):
        return code
    if isinstance(code, Union):
        return " | ".join(flat(each) for each in code.parts)
    return code.head + ", ".join(before + flat(each) for before, each in code.parts) + code.tail


def lines(code: Code, indent: str = "", before: str = "", after: str = "") -> list[str]:
    """Return `code` with a prefix and a suffix, on as few lines as possible."""
    line = f"{indent}{before}{flat(code)}{after}"
    return [line] if len(line) <= _WIDTH else _split(code, indent, before, after)


def declaration(name: str, annotation: Code, value: Code) -> list[str]:
    """Return a field in a class; `value` is its default, or "" for none."""
    if not value:
        return lines(annotation, "    ", f"{name}: ")
    line = f"    {name}: {flat(annotation)} = {flat(value)}"
    if len(line) <= _WIDTH:
        return [line]
    start = f"{name}: {flat(annotation)} = "
    whole = isinstance(annotation, str) or (isinstance(annotation, Group) and annotation.head == "list[")
    if whole and len(f"    {start}field(") <= _WIDTH:
        return lines(value, "    ", start)
    *inner, end = _split(annotation, "    ", f"{name}: ", "")
    return [*inner, *lines(value, "    ", f"{end.strip()} = ")]


def _split(code: Code, indent: str, before: str, after: str) -> list[str]:
    """Return `code` on several lines, if it has parts."""
    if isinstance(code, Union):
        if before:  # without brackets a statement ends at the end of its line
            return [f"{indent}{before}(", *lines(code, indent + "    "), f"{indent}){after}"]
        first, *others = code.parts
        return [
            *lines(first, indent),
            *(f"{indent}| {flat(each)}" for each in others[:-1]),
            f"{indent}| {flat(others[-1])}{after}",
        ]
    if isinstance(code, str) or not code.parts:
        return [f"{indent}{before}{flat(code)}{after}"]
    comma = "" if code.head == "list[" else ","  # a trailing comma would make a tuple
    inner = [line for name, each in code.parts for line in lines(each, indent + "    ", name, comma)]
    return [f"{indent}{before}{code.head}", *inner, f"{indent}{code.tail}{after}"]


def docstring(text: str, indent: str = "    ") -> list[str]:
    """Return the lines of a docstring, without blanks at their ends; none for an empty text."""
    clean = [each.rstrip() for each in text.expandtabs().replace("\\", "\\\\").replace('"""', '\\"\\"\\"').splitlines()]
    while clean and not clean[-1]:
        clean.pop()
    while clean and not clean[0]:
        clean.pop(0)
    if not clean:
        return []
    apart = clean[0].startswith(('"', " ")) or any(each.startswith(" ") for each in clean[1:])
    if len(clean) == 1 and not apart and not clean[0].endswith(('"', "\\")):
        return [f'{indent}"""{clean[0]}"""']
    body = [f"{indent}{each}" if each else "" for each in clean]
    start = [f'{indent}"""', *body] if apart else [f'{indent}"""{clean[0]}', *body[1:]]
    return [*start, f'{indent}"""']
