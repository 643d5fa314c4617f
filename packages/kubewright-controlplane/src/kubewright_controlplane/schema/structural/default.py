"""Defaults: set the fields that a document lacks and its schema has a default for.

A defaulter changes one node's value in place. It visits only the parts of a schema that can change something. In a
built-in kind these are the parts with a default, or a zero that Go always writes, at or below them. In a custom kind
they also include the parts that may hold a null, because a null that the schema does not allow counts as absent.

Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kubewright.machinery.errors import RequestTooLarge
from kubewright.machinery.json import compact, copied
from kubewright_controlplane.schema.node import NO_DEFAULT, Node, fallback
from kubewright_controlplane.schema.steps import lengthen

Defaulter: TypeAlias = Callable[[Any], None]
"""Sets the defaults of a whole document, in place."""

_MOST = 4 << 20
_SHORT = 32 << 10
"""The bytes that a short step may add."""


def compile_defaulter(root: Node) -> Defaulter:
    """Compile the defaulter of a whole document. It raises RequestTooLarge if the defaults of one document together
    have more than `_MOST` bytes of JSON: a small document can have many places for a large default.
    """
    walk = _Compiler().defaulter(root)
    if walk is None:
        return lambda _: None
    return lambda value: walk(value, _Budget())


class _Budget:
    """The bytes that defaults may still add to a document."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST

    def copy(self, default: Any, size: int) -> Any:
        """Return a copy of a default, which has `size` bytes. Raises RequestTooLarge, and StepTooLong."""
        self._left -= size
        if self._left < _MOST - _SHORT:
            lengthen()
        if self._left < 0:
            raise RequestTooLarge(f"the defaults of the schema make the object larger than {_MOST} bytes")
        return copied(default)


_Walk: TypeAlias = Callable[[Any, _Budget], None]


class _Compiler:
    def __init__(self) -> None:
        self._needed: dict[int, bool] = {}
        self._structs: dict[int, _Walk] = {}

    def defaulter(self, node: Node) -> _Walk | None:
        """Compile the defaulter of an object or array; None if it would never change anything."""
        if not self._is_needed(node):
            return None
        if node.builtin:
            return self._builtin(node)
        return self._custom(node)

    def _is_needed(self, node: Node) -> bool:
        """Return whether a default, or a null that is not allowed, can occur below `node`."""
        known = self._needed.get(id(node))
        if known is None:
            self._needed[id(node)] = True  # for a recursive schema
            below = [*node.properties.values(), *(each for each in (node.values, node.items) if each is not None)]
            known = any(
                fallback(each) is not NO_DEFAULT or not each.nullable or self._is_needed(each) for each in below
            )
            self._needed[id(node)] = known
        return known

    def _builtin(self, node: Node) -> _Walk:
        inner = node.items or node.values
        if inner is None:
            return self._struct(node)
        each = self.defaulter(inner) or _do_nothing

        def default(value: Any, budget: _Budget) -> None:
            for item in value if value.__class__ is list else value.values():
                each(item, budget)

        return default

    def _struct(self, node: Node) -> _Walk:
        known = self._structs.get(id(node.properties))
        if known is not None:
            return known
        fallbacks = [(key, fallback(child)) for key, child in node.properties.items()]
        absent = [(key, value) for key, value in fallbacks if value is not NO_DEFAULT]
        children: list[tuple[str, _Walk]] = []

        def default(value: Any, budget: _Budget) -> None:
            for key, missing in absent:
                if key not in value:
                    value[key] = copied(missing)
            for key, walk in children:
                if key in value:
                    walk(value[key], budget)

        self._structs[id(node.properties)] = default
        children += [(key, walk) for key, child in node.properties.items() if (walk := self.defaulter(child))]
        return default

    def _custom(self, node: Node) -> _Walk:
        absent = [
            (key, child.default, len(compact(child.default)))
            for key, child in node.properties.items()
            if child.default is not NO_DEFAULT
        ]
        item_default = node.items.default if node.items is not None and not node.items.nullable else NO_DEFAULT
        item_size = len(compact(item_default)) if item_default is not NO_DEFAULT else 0
        children = {key: self.defaulter(child) for key, child in node.properties.items()}
        values = self.defaulter(node.values) if node.values is not None else None
        items = self.defaulter(node.items) if node.items is not None else None

        def default(value: Any, budget: _Budget) -> None:
            if value.__class__ is dict:
                if None in value.values():
                    _drop_nulls(value, node, budget)
                for key, missing, size in absent:
                    if key not in value:
                        value[key] = budget.copy(missing, size)
                for key, item in value.items():
                    if (item.__class__ is dict or item.__class__ is list) and (walk := children.get(key, values)):
                        walk(item, budget)
            elif value.__class__ is list and node.items is not None:
                for index, item in enumerate(value):
                    if item is None and item_default is not NO_DEFAULT:
                        value[index] = budget.copy(item_default, item_size)
                    elif items is not None:
                        items(value[index], budget)

        return default


def _drop_nulls(value: dict[str, Any], node: Node, budget: _Budget) -> None:
    """Drop the nulls that the schema does not allow. Fields with a default get it afterwards, like absent fields."""
    for key in [key for key, item in value.items() if item is None]:
        child = node.child(key)
        if child is None or child.nullable:
            continue
        if key not in node.properties and child.default is not NO_DEFAULT:
            value[key] = budget.copy(child.default, len(compact(child.default)))
        else:
            del value[key]


def _do_nothing(value: Any, budget: _Budget) -> None:
    """Change nothing: the defaulter of a schema without defaults."""
