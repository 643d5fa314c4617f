"""The way down into a value, for checks that few nodes have: nothing is looked at but what leads to one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import is_array, is_object
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.path import Path

Check: TypeAlias = Callable[[Any, Path, list[FieldError]], None]
"""Adds the faults of a value that stands at a path."""


def compile_descent(node: Node, compiled: Callable[[Node], Check | None], own: Check | None = None) -> Check | None:
    """What checks a value of `node` by `own`, and what is in it by what `compiled` makes of the nodes below.

    None when there is nothing to check.
    """
    below = _compile_below(node, compiled)
    if own is None or below is None:
        return own or below

    def check(value: Any, path: Path, faults: list[FieldError]) -> None:
        own(value, path, faults)
        below(value, path, faults)

    return check


def _compile_below(node: Node, compiled: Callable[[Node], Check | None]) -> Check | None:
    if node.builtin:
        return None
    children = {key: found for key, child in node.properties.items() if (found := compiled(child))}
    values = compiled(node.values) if node.values is not None else None
    items = compiled(node.items) if node.items is not None else None
    if not children and values is None and items is None:
        return None

    def check(value: Any, path: Path, faults: list[FieldError]) -> None:
        if is_object(value):
            for key, item in value.items():
                if key in children:
                    children[key](item, (path, key), faults)
                elif values is not None:
                    values(item, (path, (key,)), faults)
        elif is_array(value) and items is not None:
            for index, item in enumerate(value):
                items(item, (path, index), faults)

    return check
