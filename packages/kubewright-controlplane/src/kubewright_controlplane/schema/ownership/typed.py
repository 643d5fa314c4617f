"""Documents as a merge sees them: which parts are merged, which are replaced as a whole, and what differs between
two.

The schema decides. An object is merged field by field unless its map type is atomic. A list is one value unless its
list type is set or map. What the schema does not know is merged as granular objects and atomic lists.

No function changes its arguments; results share parts with them.

Follows sigs.k8s.io/structured-merge-diff/typed.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.errors import BadRequest
from kubewright.machinery.json import JSONArray, JSONObject, compact, equal, is_array, is_object
from kubewright_controlplane.schema.node import NO_DEFAULT, Node, fallback
from kubewright_controlplane.schema.ownership.fieldset import SELF, Tree, is_member, with_member

_LEAF: Final[Tree] = {}
_ABSENT: Final = object()


def is_granular(value: Any, node: Node | None) -> bool:
    """Return whether the parts of an object or list are merged one by one."""
    if is_object(value):
        return node is None or (node.special != "any" and node.map_type == "granular" and node.type in ("object", ""))
    return is_array(value) and node is not None and node.list_type != "atomic"


def owned_fields(value: JSONObject, node: Node | None) -> Tree:
    """Return the fields that an applier of `value` owns."""
    return _owned(value, node) or {}


def _owned(value: Any, node: Node | None) -> Tree | None:
    if not is_granular(value, node):
        return _LEAF
    out: Tree = {}
    if is_object(value):
        for key, item in value.items():
            if item.__class__ is not dict and item.__class__ is not list:
                out[f"f:{key}"] = _LEAF
                continue
            child = node.child(key) if node is not None else None
            below = _owned(item, child) if item != {} else _LEAF
            if below is not None:
                declared = node is not None and key in node.properties
                out[f"f:{key}"] = below if declared else with_member(below)
            elif node is None or key not in node.properties:
                out[f"f:{key}"] = _LEAF
    else:
        items = node.items if node is not None else None
        for element, item in indexed(value, node).items():
            out[element] = with_member(_owned(item, items) or _LEAF)
    return out or None


def leaf_fields(fields: Tree, node: Node | None) -> Tree:
    """Return those of `fields` that are values, not objects or lists that are merged one by one."""
    out: Tree = {}
    for element, below in fields.items():
        child = _below(element, node)
        if below:
            if tree := leaf_fields(below, child):
                out[element] = tree
        elif element != SELF and (child is None or not _has_parts(child)):
            out[element] = below
    return out


def _below(element: str, node: Node | None) -> Node | None:
    if node is None:
        return None
    return node.child(element[2:]) if element.startswith("f:") else node.items


def _has_parts(node: Node) -> bool:
    if node.type == "array":
        return node.list_type != "atomic"
    return node.type == "object" and node.special != "any" and node.map_type == "granular"


def all_places(value: Any, node: Node | None) -> Tree:
    """Return every place in `value`: the fields that change if all of it is added or removed."""
    if not value or not is_granular(value, node):
        return _LEAF
    out: Tree = {SELF: _LEAF}
    if is_object(value):
        for key, item in value.items():
            if item.__class__ is not dict and item.__class__ is not list:
                out[f"f:{key}"] = _LEAF
            else:
                out[f"f:{key}"] = all_places(item, node.child(key) if node is not None else None)
    else:
        items = node.items if node is not None else None
        for element, item in indexed(value, node).items():
            out[element] = all_places(item, items)
    return out


def indexed(items: JSONArray, node: Node | None) -> dict[str, Any]:
    """Return a list's items by their path elements. Of items with the same element, the first is kept.

    Raises BadRequest for an item that has no path element.
    """
    named: dict[str, Any] = {}
    for index, item in enumerate(items):
        element = _element(item, node) if node is not None else ""
        if not element:
            raise BadRequest(f"element {index}: associative list with keys has an element that omits all key fields")
        named.setdefault(element, item)
    return named


def _element(item: Any, node: Node) -> str:
    if not node.list_keys:
        return f"v:{compact(item)}"
    if not is_object(item):
        return ""
    keys: JSONObject = {}
    for key in sorted(node.list_keys):
        value = item.get(key, _ABSENT)
        if value is _ABSENT and node.items is not None and key in node.items.properties:
            value = fallback(node.items.properties[key])
        if value is not _ABSENT and value is not NO_DEFAULT:
            keys[key] = value
    return f"k:{compact(keys)}" if keys else ""


class Comparison:
    """The difference between two documents: fields that are new or have another value, and fields that were removed."""

    def __init__(self, old: JSONObject, new: JSONObject, node: Node | None) -> None:
        self.changed: Tree = {}
        self.removed: Tree = {}
        if not _same(old, new, node):
            self._objects(old, new, node, self.changed, self.removed)

    def _values(self, old: Any, new: Any, node: Node | None) -> tuple[Tree | None, Tree | None]:
        """Return what changed and what was removed at and below a place that both documents have."""
        if not (is_granular(new, node) or is_granular(old, node)):
            return _LEAF, None
        changed: Tree = {}
        removed: Tree = {}
        left, right = old or type(new)(), new or type(old)()
        if is_object(left) and is_object(right):
            self._objects(left, right, node, changed, removed)
        elif is_array(left) and is_array(right):
            self._lists(left, right, node, changed, removed)
        else:
            return all_places(new, node), all_places(old, node)
        return changed or None, removed or None

    def _objects(self, old: JSONObject, new: JSONObject, node: Node | None, changed: Tree, removed: Tree) -> None:
        for key, value in new.items():
            before = old.get(key, _ABSENT)
            child = node.child(key) if node is not None else None
            if _same(before, value, child):
                continue
            if before is _ABSENT and value is None and child is not None and child.builtin:
                continue  # null, which Go writes as absent
            if before is _ABSENT and not _is_always_there(key, node):
                changed[f"f:{key}"] = all_places(value, child)
                continue
            came, went = self._values(None if before is _ABSENT else before, value, child)
            if came is not None:
                changed[f"f:{key}"] = came
            if went is not None:
                removed[f"f:{key}"] = went
        for key, value in old.items():
            if key not in new:
                removed[f"f:{key}"] = all_places(value, node.child(key) if node is not None else None)

    def _lists(self, old: JSONArray, new: JSONArray, node: Node | None, changed: Tree, removed: Tree) -> None:
        before, after = indexed(old, node), indexed(new, node)
        items = node.items if node is not None else None
        for element, value in after.items():
            was = before.get(element, _ABSENT)
            if _same(was, value, items):
                continue
            if was is _ABSENT:
                changed[element] = all_places(value, items)
                continue
            came, went = self._values(was, value, items)
            if came is not None:
                changed[element] = came
            if went is not None:
                removed[element] = went
        for element, value in before.items():
            if element not in after:
                removed[element] = all_places(value, items)


def _same(left: Any, right: Any, node: Node | None) -> bool:
    """Return whether two values are equal. Python's `==` does not distinguish `true` from 1, which matters for
    untyped values.
    """
    return left == right and ((node is not None and not node.untyped) or equal(left, right))


def _is_always_there(key: str, node: Node | None) -> bool:
    """Return whether Go always writes a field, null if need be: a required list or map of a built-in kind, a struct,
    a time.
    """
    if node is None or not node.builtin or (child := node.child(key)) is None:
        return False
    if child.inline:
        return True
    return key in node.required and child.zero != "omitted" and (child.items is not None or child.is_map)


def merged(old: JSONObject, new: JSONObject, node: Node | None) -> JSONObject:
    """Return `old` with the fields of `new` set. Nothing is removed."""
    out = dict(old)
    for key, value in new.items():
        before = out.get(key, _ABSENT)
        if before is _ABSENT or (value.__class__ is not dict and value.__class__ is not list):
            out[key] = value
        else:
            out[key] = _merged(before, value, node.child(key) if node is not None else None)
    return out


def _merged(old: Any, new: Any, node: Node | None) -> Any:
    if old is None or not is_granular(new, node):
        return new
    if not new:  # an empty value sets none of the parts
        return old if old.__class__ is new.__class__ else new
    if is_object(old) and is_object(new):
        return merged(old, new, node)
    if is_array(old) and is_array(new):
        return _merged_list(old, new, node)
    return new


def _merged_list(old: JSONArray, new: JSONArray, node: Node | None) -> JSONArray:
    """Return the items of both lists: those of `new` in its order, and those only in `old` at their place between
    them.
    """
    mine, theirs = indexed(old, node), indexed(new, node)
    if len(theirs) != len(new):
        raise BadRequest("duplicate entries in an applied list that is a set or a map")
    items = node.items if node is not None else None
    ours, yours = list(mine), list(theirs)
    shared = [element for element in yours if element in mine]
    out: JSONArray = []
    left = right = 0
    while left < len(ours) or right < len(yours):
        element = ours[left] if left < len(ours) else ""
        if element and element not in theirs:
            out.append(mine[element])
            left += 1
        elif element and right < len(yours) and element != yours[right] and (not shared or element != shared[0]):
            left += 1  # it is added at its position in `new`
        elif right < len(yours):
            element = yours[right]
            out.append(_merged(mine[element], theirs[element], items) if element in mine else theirs[element])
            left += left < len(ours) and ours[left] == element
            right += 1
            if shared and shared[0] == element:
                del shared[0]
        else:
            left += 1
    return out


def removed(value: JSONObject, fields: Tree, node: Node | None) -> JSONObject:
    """Return `value` without `fields`. An object or list that loses all its parts stays, empty, unless it is in
    `fields`.
    """
    out = _removed(value, fields, node)
    return out if is_object(out) else {}


def _removed(value: Any, fields: Tree, node: Node | None) -> Any:
    if not fields or not is_granular(value, node):
        return value
    if is_object(value):
        out: JSONObject = {}
        for key, item in value.items():
            below = fields.get(f"f:{key}")
            if below is None:
                out[key] = item
            elif not is_member(below):
                out[key] = _removed(item, below, node.child(key) if node is not None else None)
        return out
    kept: JSONArray = []
    items = node.items if node is not None else None
    for item in value:
        below = fields.get(_element(item, node)) if node is not None else None
        if below is None:
            kept.append(item)
        elif not is_member(below):
            kept.append(_removed(item, below, items))
    return kept


def without_emptied(value: JSONObject, fields: Tree, node: Node | None) -> JSONObject:
    """Return `value`, from which `fields` were removed, without the empty parts that Go would not write."""
    out: JSONObject = {}
    for key, item in value.items():
        below = fields.get(f"f:{key}")
        if below is None:
            out[key] = item
            continue
        rest = _without_emptied(item, below, node.child(key) if node is not None else None)
        if rest or not _is_absent_when_empty(key, node):
            out[key] = rest
    return out


def _without_emptied(value: Any, fields: Tree, node: Node | None) -> Any:
    if not fields or not is_granular(value, node):
        return value
    if is_object(value):
        return without_emptied(value, fields, node)
    if node is None:
        return value
    return [_without_emptied(item, fields.get(_element(item, node), _LEAF), node.items) for item in value]


def _is_absent_when_empty(key: str, node: Node | None) -> bool:
    """Return whether Go omits a field if it is empty: an optional list or map of a built-in kind."""
    child = node.child(key) if node is not None and node.builtin and key not in node.required else None
    return child is not None and (child.is_map or child.items is not None)


def with_named_fields(fields: Tree, node: Node | None) -> Tree:
    """Return `fields` plus each struct field that has an owned field below it."""
    out: Tree = {}
    for element, below in fields.items():
        if not below:
            out[element] = below
            continue
        if node is None:
            out[element] = below
        elif element.startswith("f:"):
            name = element[2:]
            tree = with_named_fields(below, node.child(name))
            out[element] = with_member(tree) if name in node.properties else tree
        else:
            out[element] = with_named_fields(below, node.items)
    return out
