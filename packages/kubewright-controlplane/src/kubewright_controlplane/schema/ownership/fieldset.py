"""Sets of fields, as in `managedFields`.

A set is a tree with the form of FieldsV1, so it needs no conversion from and to `managedFields`. Each key is one
element of a path: `f:spec`, `k:{"name":"web"}`, `v:"x"`. A field that is in the set without any field below it has an
empty tree. If fields below it are in the set too, the key `.` in its tree stands for the field itself.

Set operations walk two trees side by side. Trees do not change once they belong to a set, so sets share parts of them.

Follows sigs.k8s.io/structured-merge-diff/fieldpath.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, cast

from kubewright.machinery.integers import parse_int
from kubewright.machinery.json import JSONObject, compact, is_object

Tree: TypeAlias = dict[str, "Tree"]
SELF: Final = "."
"""The key that stands for the field itself, next to the keys of the fields below it."""
_LEAF: Final[Tree] = {}


def check_fields_v1(tree: object) -> None:
    """Raise ValueError if a value is not an entry of `managedFields`: objects whose keys are elements of a path."""
    if not is_object(tree):
        raise ValueError(f"not a set of fields: {compact(tree)}")
    for key, below in tree.items():
        prefix, colon, value = key.partition(":")
        if prefix == "i":
            parse_int(value)
        elif prefix in ("k", "v"):
            json.loads(value)
        elif key != SELF and not (prefix == "f" and colon):
            raise ValueError(f"not an element of a path: {key}")
        check_fields_v1(below)


class FieldSet:
    """An immutable set of fields. Sets with the same fields are equal; an empty set is false."""

    __slots__ = ("_is_sorted", "tree")

    def __init__(self, tree: Tree | None = None, *, is_sorted: bool = False) -> None:
        self.tree: Tree = tree if tree is not None else {}
        self._is_sorted = is_sorted

    @classmethod
    def of_paths(cls, *paths: str) -> FieldSet:
        """Return the set of these fields, each named by its path through objects: `metadata.labels`."""
        found = cls()
        for path in paths:
            tree: Tree = {}
            for name in reversed(path.split(".")):
                tree = {f"f:{name}": tree}
            found |= cls(tree)
        return found

    @classmethod
    def from_fields_v1(cls, fields: JSONObject, *, is_sorted: bool = False) -> FieldSet:
        """Return the set in an entry of `managedFields`. The set refers to `fields`: do not change it afterwards."""
        return cls(cast("Tree", fields), is_sorted=is_sorted)

    def to_fields_v1(self) -> JSONObject:
        """Return the set as an entry of `managedFields`, sorted. Do not change the result, which may be shared."""
        return cast("JSONObject", self.tree if self._is_sorted else _sorted(self.tree))

    def __or__(self, other: FieldSet) -> FieldSet:
        if not self.tree or not other.tree:
            return self if self.tree else other
        return FieldSet(_union(self.tree, other.tree))

    @staticmethod
    def union(sets: Iterable[FieldSet]) -> FieldSet:
        """Return the fields of all sets. Sets of similar size are joined, so that the cost is that of sorting."""
        left = list(sets)
        while len(left) > 1:
            rest = left[-1:] if len(left) % 2 else []
            left = [one | other for one, other in zip(left[::2], left[1::2], strict=False)] + rest
        return left[0] if left else FieldSet()

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Return the fields that are not in the other set. Removing a field does not remove the fields below it."""
        return self if not other.tree or not self.tree else FieldSet(_difference(self.tree, other.tree) or {})

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(_intersection(self.tree, other.tree) or {}) if self.tree and other.tree else FieldSet()

    def without(self, other: FieldSet) -> FieldSet:
        """Return the fields that are not in the other set, nor below a field of it."""
        return self if not other.tree or not self.tree else FieldSet(_without_subtrees(self.tree, other.tree) or {})

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __eq__(self, other: object) -> bool:
        return self.tree == other.tree if isinstance(other, FieldSet) else NotImplemented

    def __len__(self) -> int:
        return _count(self.tree)

    def __iter__(self) -> Iterator[str]:
        """Yield the fields as error messages name them: `.spec.containers[name="web"].image`."""
        for path in _paths(self.tree):
            yield "".join(_element_text(element) for element in path)

    def __contains__(self, path: str) -> bool:
        """Return whether a field, named as in iteration, is in the set."""
        return path in iter(self)

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(self)})"


def is_member(tree: Tree) -> bool:
    """Return whether the field that `tree` belongs to is itself in the set."""
    return not tree or SELF in tree


def with_member(tree: Tree) -> Tree:
    """Return `tree` with the field that it belongs to in the set."""
    return tree if is_member(tree) else {SELF: _LEAF, **tree}


def _without_member(tree: Tree) -> Tree | None:
    return {key: below for key, below in tree.items() if key != SELF} or None


def _normalized(tree: Tree) -> Tree | None:
    """Normalize a new tree: None if it is empty, a leaf if it has no key but `SELF`."""
    if not tree:
        return None
    return _LEAF if len(tree) == 1 and SELF in tree else tree


def _union(left: Tree, right: Tree) -> Tree:
    if not left:
        return with_member(right)
    if not right:
        return with_member(left)
    out = dict(left)
    for key, below in right.items():
        mine = out.get(key)
        out[key] = below if mine is None else _union(mine, below)
    return out


def _difference(left: Tree, right: Tree) -> Tree | None:
    if not left:
        return None if is_member(right) else left
    if not right:
        return _without_member(left)
    out: Tree = {}
    for key, below in left.items():
        theirs = right.get(key)
        if theirs is None:
            out[key] = below
        elif key != SELF and (rest := _difference(below, theirs)) is not None:
            out[key] = rest
    return _normalized(out)


def _intersection(left: Tree, right: Tree) -> Tree | None:
    if not left:
        return _LEAF if is_member(right) else None
    if not right:
        return _LEAF if is_member(left) else None
    out: Tree = {}
    for key, below in left.items():
        theirs = right.get(key)
        if theirs is not None and (common := _intersection(below, theirs)) is not None:
            out[key] = common
    return _normalized(out)


def _without_subtrees(left: Tree, right: Tree) -> Tree | None:
    if not left:
        return left
    out: Tree = {}
    for key, below in left.items():
        theirs = right.get(key)
        if theirs is None:
            out[key] = below
        elif not is_member(theirs) and (rest := _without_subtrees(below, theirs)) is not None:
            out[key] = rest
    return _normalized(out)


def _sorted(tree: Tree) -> Tree:
    return {key: _sorted(tree[key]) if tree[key] else _LEAF for key in sorted(tree)}


def _count(tree: Tree) -> int:
    return sum(is_member(below) + _count(below) for key, below in tree.items() if key != SELF)


def _paths(tree: Tree) -> Iterator[tuple[str, ...]]:
    for key in sorted(tree):
        if key == SELF:
            continue
        below = tree[key]
        if is_member(below):
            yield (key,)
        for rest in _paths(below):
            yield (key, *rest)


def _element_text(element: str) -> str:
    kind, _, text = element.partition(":")
    match kind:
        case "f":
            return f".{text}"
        case "k":
            keys = json.loads(text)
            return f"[{','.join(f'{key}={json.dumps(value)}' for key, value in keys.items())}]"
        case "v":
            return f"[={text}]"
        case _:
            return f"[{text}]"
