"""Strategic merge patch: a merge patch that knows from the schema which lists to merge, and by which key.

Directives say what a merge patch cannot express: `$patch: delete | replace`, `$retainKeys` (drop all other fields),
`$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`. Lists are replaced unless the patch strategy in the
schema is `merge`. The result shares unchanged parts with the document and the patch; neither is changed.

Follows k8s.io/apimachinery/pkg/util/strategicpatch as the API server calls it: parallel lists are merged, and nulls
without a counterpart are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from kubewright.machinery.errors import BadRequest, InternalError
from kubewright.machinery.json import JSONArray, JSONObject, compact, is_array, is_object
from kubewright_controlplane.schema.node import Node
from kubewright_controlplane.schema.structural.schema import Schema

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList/"
_ORDER_PREFIX: Final = "$setElementOrder/"
_DIRECTIVES: Final = (_RETAIN, _DELETE_PREFIX, _ORDER_PREFIX)


def strategic_merge_patch(doc: JSONObject, patch: JSONObject, schema: Schema) -> JSONObject:
    """Return `doc` with `patch` merged into it.

    Raises BadRequest for a malformed directive. Raises InternalError, as the API server does, for an item without its
    merge key and for an unknown `$patch`.
    """
    return _merge_map(doc, patch, schema.root)


def _merge_map(original: JSONObject, patch: JSONObject, node: Node | None) -> JSONObject:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive is not None:
        raise InternalError(f"unknown patch type: {directive} in map: {as_go_prints(patch)}", reason="")
    merged = _retained(original, patch)
    ordered = _merge_ordered(merged, patch, node)
    for key, value in patch.items():
        if key == _RETAIN or key in ordered or key.startswith(_ORDER_PREFIX):
            continue
        if key.startswith(_DELETE_PREFIX):
            _delete_from(merged, key.removeprefix(_DELETE_PREFIX), value)
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(merged, key, value, node.child(key) if node is not None else None)
    return merged


def _merge_field(merged: JSONObject, key: str, value: Any, node: Node | None) -> None:
    current = merged.get(key)
    if is_object(current) and is_object(value):
        replaces = node is not None and "replace" in node.patch_strategies
        merged[key] = value if replaces else _merge_map(current, value, node)
    elif is_array(current) and is_array(value):
        merged[key] = _merge_list(current, value, node) if _merges(node) else value
    elif is_object(value) and _DIRECTIVE in value:
        merged.pop(key, None)
    else:
        merged[key] = _without_directives(value)


def _retained(original: JSONObject, patch: JSONObject) -> JSONObject:
    """Return a copy of `original` without the fields that `$retainKeys` does not name."""
    if _RETAIN not in patch:
        return dict(original)
    kept = patch[_RETAIN]
    named = is_array(kept) and all(
        key in kept or key == _RETAIN or value is None or key.startswith((_DELETE_PREFIX, _ORDER_PREFIX))
        for key, value in patch.items()
    )
    if not named:
        raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in kept}


def _delete_from(merged: JSONObject, key: str, unwanted: Any) -> None:
    if key not in merged:
        return
    if not is_array(unwanted):
        raise BadRequest("invalid patch format of primitive list")
    if is_array(current := merged[key]):
        _require_one_type(current, unwanted)
        gone = set(map(_scalar, unwanted))
        merged[key] = [item for item in current if _scalar(item) not in gone]


def _merge_ordered(merged: JSONObject, patch: JSONObject, node: Node | None) -> set[str]:
    """Merge the lists that have a `$setElementOrder` in the patch. Returns the names of these fields."""
    done: set[str] = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER_PREFIX):
            continue
        key = directive.removeprefix(_ORDER_PREFIX)
        child = node.child(key) if node is not None else None
        current, changes = merged.get(key), patch.get(key)
        if not is_array(order) or not all(each is None or is_array(each) for each in (current, changes)):
            raise BadRequest("invalid patch format of setElementOrder list")
        identity = _identity(child, order)
        _check_order(changes or [], order, identity)
        if current is None and changes is None:
            continue
        if current is None:
            items = _without_directives(changes)
        elif changes is None:
            items = current
        else:
            items = _merge_list(current, changes, child) if _merges(child) else changes
        merged[key] = _in_order(items, order, _server_order(current or [], changes or [], identity), identity)
        done.add(key)
    return done


def _check_order(changes: JSONArray, order: JSONArray, identity: Callable[[Any], Hashable]) -> None:
    """Check that the items of a patch come in the requested order. A directive may precede the last of them."""
    left = deque(each for each in changes if not (is_object(each) and each.get(_DIRECTIVE) == "delete"))
    wanted = deque(identity(each) for each in order)
    while left and wanted:
        if (is_object(left[0]) and _DIRECTIVE in left[0]) or identity(left[0]) == wanted.popleft():
            left.popleft()
    if order and left:
        raise InternalError(
            f"The order in patch list:\n{as_go_prints(changes)}\n doesn't match $setElementOrder list:\n"
            f"{as_go_prints(order)}\n"
        )


def as_go_prints(value: Any) -> str:
    """Return a document as Go prints it: `map[data:map[a:b]]`."""
    if is_object(value):
        return f"map[{' '.join(f'{key}:{as_go_prints(value[key])}' for key in sorted(value))}]"
    if is_array(value):
        return f"[{' '.join(map(as_go_prints, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merges(node: Node | None) -> bool:
    return node is not None and "merge" in node.patch_strategies


def _merge_list(original: JSONArray, patch: JSONArray, node: Node | None) -> JSONArray:
    _require_one_type(original, patch)
    if not any(is_object(each) for each in (*original, *patch)):
        merged = list({_scalar(each): each for each in (*original, *patch)}.values())
        return _in_order(merged, patch, map(_scalar, original), _scalar)
    identity = _identity(node, patch or original)
    gone = {identity(each) for each in patch if is_object(each) and each.get(_DIRECTIVE) == "delete"}
    replaced = False
    for each in patch:
        directive = each.get(_DIRECTIVE) if is_object(each) else None
        if directive not in (None, "delete", "replace"):
            raise InternalError(f"unknown patch type: {directive}")
        replaced = replaced or directive == "replace"
    changes = [each for each in patch if _DIRECTIVE not in each]
    if replaced:
        return changes
    kept = [each for each in original if identity(each) not in gone]
    merged = list(kept)
    places = {identity(each): index for index, each in enumerate(merged)}
    items = node.items if node is not None else None
    for each in changes:
        place = places.get(identity(each))
        if place is None:
            merged.append(each)  # decoding drops the directives in it
        else:
            merged[place] = _merge_map(merged[place], each, items)
    return _in_order(merged, changes, map(identity, kept), identity)


def _require_one_type(original: JSONArray, patch: JSONArray) -> None:
    """Raise InternalError, as the API server does, unless all items have the same type."""
    if len({each.__class__ for each in original} | {each.__class__ for each in patch}) > 1:
        raise InternalError(f"list element types are not identical: {as_go_prints([original, patch])}", reason="")


def _identity(node: Node | None, items: JSONArray) -> Callable[[Any], Hashable]:
    """Return what identifies an item of a list: by its merge key, or by its value if it is not an object."""
    if not any(is_object(each) for each in items):
        return _scalar
    key = node.patch_key if node is not None else ""
    if not key:
        raise InternalError("cannot merge lists without merge key")

    def identity(item: Any) -> Hashable:
        if not is_object(item) or key not in item:
            raise InternalError(f"map: {compact(item)} does not contain declared merge key: {key}")
        return _scalar(item[key])

    return identity


def _scalar(value: Any) -> Hashable:
    return (value.__class__, compact(value) if is_object(value) or is_array(value) else value)


def _server_order(original: JSONArray, patch: JSONArray, identity: Callable[[Any], Hashable]) -> list[Hashable]:
    """Return the order of the server's items after the merge, as the API server remembers it.

    In the API server, this list shares memory with the merged one: deleted items make room, and new items take it.
    """
    deleted = [identity(each) for each in patch if is_object(each) and each.get(_DIRECTIVE) == "delete"]
    added = [identity(each) for each in patch if not (is_object(each) and _DIRECTIVE in each)]
    cells, used = _without(list(map(identity, original)), deleted)
    present = set(cells[:used])
    for each in added:
        if each in present:
            continue
        if used == len(cells):
            break
        cells[used] = each
        present.add(each)
        used += 1
    return cells


def _without(cells: list[Hashable], deleted: Iterable[Hashable]) -> tuple[list[Hashable], int]:
    """Return the cells after deletions, and how many are in use. Each deletion moves the later cells to the left, and
    leaves the last one where it was, too.
    """
    places: dict[Hashable, deque[int]] = {}
    for index, each in enumerate(cells):
        places.setdefault(each, deque()).append(index)
    is_gone = [False] * len(cells)
    left_over: list[Hashable] = []
    last = len(cells) - 1
    for each in deleted:
        if not places.get(each):
            continue
        left_over.append(cells[last])
        is_gone[places[each].popleft()] = True
        while last >= 0 and is_gone[last]:
            last -= 1
    kept = [each for each, gone in zip(cells, is_gone, strict=True) if not gone]
    return [*kept, *reversed(left_over)], len(kept)


def _in_order(
    items: JSONArray, order: JSONArray, server_order: Iterable[Hashable], identity: Callable[[Any], Hashable]
) -> JSONArray:
    """Return `items` sorted by `order`. Items that are not in `order` keep their position relative to the others."""
    wanted = {identity(each): index for index, each in enumerate(order)}
    stands: dict[Hashable, int] = {}
    for index, each in enumerate(server_order):
        stands.setdefault(each, index)
    ours = sorted((each for each in items if identity(each) in wanted), key=lambda each: wanted[identity(each)])
    theirs = sorted(
        (each for each in items if identity(each) not in wanted),
        key=lambda each: stands.get(identity(each), len(stands)),
    )
    merged: JSONArray = []
    left, right = 0, 0
    while left < len(theirs) and right < len(ours):
        here, there = stands.get(identity(theirs[left])), stands.get(identity(ours[right]))
        if here is not None and there is not None and here < there:
            merged.append(theirs[left])
            left += 1
        else:
            merged.append(ours[right])
            right += 1
    return [*merged, *ours[right:], *theirs[left:]]


def _without_directives(value: Any) -> Any:
    """Return a value of a patch that has no counterpart, without directives and nulls."""
    if is_object(value):
        return {
            key: _without_directives(item)
            for key, item in value.items()
            if item is not None and not key.startswith(_DIRECTIVES) and not (is_object(item) and _DIRECTIVE in item)
        }
    if is_array(value):
        return [_without_directives(item) for item in value if not (is_object(item) and _DIRECTIVE in item)]
    return value
