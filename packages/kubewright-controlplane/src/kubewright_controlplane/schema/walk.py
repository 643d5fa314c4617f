"""Walking a document along its schema: paths, errors, and the way down to the nodes that need a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import is_array, is_object
from kubewright_controlplane.schema.node import Node

Link: TypeAlias = str | int | tuple[str]
Path: TypeAlias = "tuple[Path, Link] | None"


def links(path: Path) -> list[Link]:
    """Return the links from the outside in."""
    found: list[Link] = []
    while path is not None:
        path, link = path
        found.append(link)
    found.reverse()
    return found


def dotted(path: Path) -> str:
    """Return a path as OpenAPI validation writes it, with map keys like fields: `spec.labels.app`, `spec.ports[0]`."""
    text = ""
    for link in links(path):
        if isinstance(link, int):
            text += f"[{link}]"
        else:
            text += f".{link if isinstance(link, str) else link[0]}"
    return text.removeprefix(".")


def bracketed(path: Path) -> str:
    """Return a path as field.Path writes it, with map keys in brackets: `spec.labels[app]`, `spec.ports[0]`."""
    text = ""
    for link in links(path):
        text += f".{link}" if isinstance(link, str) else f"[{link if isinstance(link, int) else link[0]}]"
    return text.removeprefix(".")


Errors: TypeAlias = list[tuple[Path, FieldError]]
"""Errors, each with the path of the value that has it. For a missing field, that is the path of its object."""
Check: TypeAlias = Callable[[Any, Path, Errors], None]

UNKNOWN_PATH: Final = "<nil>"
"""How the API server writes an unknown path."""


def add_invalid(errors: Errors, path: Path, value: object, text: str) -> None:
    place = dotted(path)
    errors.append((path, invalid(place or UNKNOWN_PATH, value, f"{place} in body {text}")))


def add_without_path(errors: Errors, path: Path, text: str) -> None:
    """Add an error that the API server reports without a path."""
    errors.append((path, invalid(UNKNOWN_PATH, "", text)))


NodeCheck: TypeAlias = Callable[[Any, Path, list[FieldError]], None]
"""Adds the errors of a value at a path."""


def compile_descent(
    node: Node, compiled: Callable[[Node], NodeCheck | None], own: NodeCheck | None = None
) -> NodeCheck | None:
    """Compile a check that applies `own` to a value of `node`, and `compiled(child)` to the values below it.

    Returns None if there is nothing to check.
    """
    below = _compile_below(node, compiled)
    if own is None or below is None:
        return own or below

    def check(value: Any, path: Path, errors: list[FieldError]) -> None:
        own(value, path, errors)
        below(value, path, errors)

    return check


def _compile_below(node: Node, compiled: Callable[[Node], NodeCheck | None]) -> NodeCheck | None:
    if node.builtin:
        return None
    children = {key: found for key, child in node.properties.items() if (found := compiled(child))}
    values = compiled(node.values) if node.values is not None else None
    items = compiled(node.items) if node.items is not None else None
    if not children and values is None and items is None:
        return None

    def check(value: Any, path: Path, errors: list[FieldError]) -> None:
        if is_object(value):
            for key, item in value.items():
                if key in children:
                    children[key](item, (path, key), errors)
                elif values is not None:
                    values(item, (path, (key,)), errors)
        elif is_array(value) and items is not None:
            for index, item in enumerate(value):
                items(item, (path, index), errors)

    return check
