"""Changes to a document: JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the API server applies them.

A patched document is a new document that shares unchanged parts with the old one and with the patch. Patching alters
none of the three, but a later change in place of one of them changes the shared parts of all.
The strategic merge patch, which needs a kind's schema, is `schema.strategic`.

Kubernetes departs from RFC 6902: `replace` and `test` for null take an absent field, and negative indices count
from the end. Follows k8s.io/apiserver/pkg/endpoints/handlers/patch.go and evanphx/json-patch v4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.errors import UNAPPLIED, BadRequest, Invalid, RequestTooLarge, StatusDetails
from kubewright.machinery.json import JSONArray, JSONObject, equal, is_array, is_object

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
_ABSENT: Final = object()
_Container: TypeAlias = JSONObject | JSONArray
_Change: TypeAlias = Callable[[_Container, str], None]


def merge_patch(doc: JSONObject, patch: JSONObject) -> JSONObject:
    """Return `doc` with `patch` merged into it: null removes a field, objects are merged, all else replaces."""
    out = dict(doc)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif is_object(value):
            current = out.get(key)
            out[key] = merge_patch(current if is_object(current) else {}, value)
        else:
            out[key] = value
    return out


def create_merge_patch(old: JSONObject, new: JSONObject) -> JSONObject:
    """Return the smallest merge patch that turns `old` into `new`; empty if they are equal.

    A merge patch cannot express a null inside `new`: it removes the field.
    """
    patch: JSONObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        current = old.get(key, _ABSENT)
        if is_object(current) and is_object(value):
            if changes := create_merge_patch(current, value):
                patch[key] = changes
        elif not equal(current, value):
            patch[key] = value
    return patch


def create_json_patch(old: JSONObject, new: JSONObject) -> JSONArray:
    """Return the operations (RFC 6902) that turn `old` into `new`; empty if they are equal.

    Items that two lists have in common at their start and at their end are left alone.
    """
    operations: JSONArray = []
    _compare_objects(old, new, "", operations)
    return operations


def _compare(old: Any, new: Any, path: str, operations: JSONArray) -> None:
    if old is new or equal(old, new):
        return
    if is_object(old) and is_object(new):
        _compare_objects(old, new, path, operations)
    elif is_array(old) and is_array(new):
        _compare_arrays(old, new, path, operations)
    else:
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_objects(old: JSONObject, new: JSONObject, path: str, operations: JSONArray) -> None:
    operations += ({"op": "remove", "path": path + pointer(key)} for key in old if key not in new)
    for key, value in new.items():
        if key in old:
            _compare(old[key], value, path + pointer(key), operations)
        else:
            operations.append({"op": "add", "path": path + pointer(key), "value": value})


def _compare_arrays(old: JSONArray, new: JSONArray, path: str, operations: JSONArray) -> None:
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if not equal(old[index], new[index])), shorter)
    rest = shorter - start
    end = next((index for index in range(rest) if not equal(old[-1 - index], new[-1 - index])), rest)
    replaced = len(old) - start - end
    added = len(new) - start - end
    for index in range(start, start + min(replaced, added)):
        _compare(old[index], new[index], f"{path}/{index}", operations)
    for index in range(start + replaced - 1, start + added - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{index}"})
    for index in range(start + replaced, start + added):
        operations.append({"op": "add", "path": f"{path}/{index}", "value": new[index]})


def pointer(*path: str) -> str:
    """Return the JSON pointer (RFC 6901) for `path`."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def json_patch(doc: JSONObject, operations: object) -> JSONObject:
    """Return `doc` after all of `operations`. If one fails, nothing changes.

    Raises `BadRequest` if `operations` is not a list of operations, `RequestTooLarge` for more than `MAX_OPERATIONS`,
    and `Invalid` with the API server's text if an operation does not apply or a `test` fails (`PatchTestFailed`); see
    its `__cause__`.
    """
    if not is_array(operations) or not all(map(is_object, operations)):
        raise BadRequest("json: cannot unmarshal value into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise RequestTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    root: JSONObject = doc
    copied = 0
    try:
        for operation in operations:
            if operation.get("op") == "copy":
                copied += _size(_get(root, _parts(operation, "from")))
                if copied > MAX_COPIED_BYTES:
                    raise _NotApplicable(f"{copied} bytes were copied, more than the limit of {MAX_COPIED_BYTES}")
            root = _explained(root, operation)
    except _TestFailed as error:
        raise PatchTestFailed(UNAPPLIED, details=StatusDetails()) from error
    except _NotApplicable as error:
        raise Invalid(UNAPPLIED, details=StatusDetails()) from error
    return root


class PatchTestFailed(Invalid):
    """A `test` operation of a JSON patch did not hold."""


class _NotApplicable(ValueError):
    """An operation cannot be applied to the document; the message says which and why."""


class _TestFailed(_NotApplicable):
    """The value of a `test` operation is not that in the document."""


class _MissingPath(_NotApplicable):
    """The container of the last part of a path does not exist."""


class _WrongKey(_NotApplicable):
    """The last part of a path does not name a place in its container."""


def _explained(root: Any, operation: JSONObject) -> Any:
    """Apply an operation. Its error says, in the words of the API server, which path of which operation is wrong."""
    try:
        return _apply(root, operation)
    except _MissingPath as error:
        kind, path = operation["op"], operation["path"]
        shown = f'"{path}"' if kind in ("add", "remove") else path
        doc = "" if kind == "test" else "doc "
        why = f"{kind} operation does not apply: {doc}is missing path: {shown}: missing value"
        raise _NotApplicable(why) from error
    except _WrongKey as error:
        kind = "remove" if operation["op"] == "replace" else operation["op"]
        raise _NotApplicable(f"error in {kind} for path: '{operation['path']}': {error}") from error


def _apply(root: Any, operation: JSONObject) -> Any:
    kind = operation.get("op")
    path = _parts(operation, "path")
    value = operation.get("value")
    match kind:
        case "test":
            found = _get(root, path)
            if not equal(None if found is _ABSENT else found, value):
                raise _TestFailed(f"testing value {pointer(*path)} failed: test failed")
            return root
        case "add":
            return _add(root, path, value)
        case "remove":
            return _remove(root, path)
        case "replace":
            return _replace(root, path, value)
        case "move":
            source = _parts(operation, "from")
            moved = _get(root, source)
            return _add(_remove(root, source), path, moved)
        case "copy":
            copied = _get(root, _parts(operation, "from"))
            return _add(root, path, None if copied is _ABSENT else copied)
        case _:
            raise _NotApplicable(f"Unexpected kind: {kind}")


def _parts(operation: JSONObject, name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _NotApplicable(f"{operation.get('op')} operation: missing {name} field")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _get(root: Any, path: Sequence[str]) -> Any:
    """Return the value at `path`; `_ABSENT` for a missing field."""
    value = root
    for part in path:
        if is_object(value):
            value = value.get(part, _ABSENT)
        elif is_array(value):
            value = value[_index(value, part)]
        else:
            raise _MissingPath(pointer(*path))
    return value


def _size(value: Any) -> int:
    return 0 if value is _ABSENT else len(msgspec.json.encode(value))


def _add(root: Any, path: Sequence[str], value: Any) -> Any:
    def put(container: _Container, key: str) -> None:
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(container, key, room=1), value)

    return _changed(root, path, put)


def _remove(root: Any, path: Sequence[str]) -> Any:
    def drop(container: _Container, key: str) -> None:
        if isinstance(container, list):
            del container[_index(container, key)]
        elif container.pop(key, _ABSENT) is _ABSENT:
            raise _WrongKey(f"Unable to remove nonexistent key: {key}: missing value")

    return _changed(root, path, drop)


def _replace(root: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        if not is_object(value):
            raise _NotApplicable("replace operation value must be object")
        return value

    def put(container: _Container, key: str) -> None:
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(container, key)] = value

    return _changed(root, path, put)


def _changed(root: Any, path: Sequence[str], change: _Change) -> Any:
    """Return a copy of `root` in which `change` was applied to the container of the last part of `path`."""
    if not path:
        raise _MissingPath("")
    top = parent = _shallow(root, path)
    for part in path[:-1]:
        key: Any = part if isinstance(parent, dict) else _index(parent, part)
        if isinstance(parent, dict) and part not in parent:
            raise _MissingPath(pointer(*path))
        child = _shallow(parent[key], path)
        parent[key] = child
        parent = child
    change(parent, path[-1])
    return top


def _shallow(value: Any, path: Sequence[str]) -> Any:
    if is_object(value):
        return dict(value)
    if is_array(value):
        return list(value)
    raise _MissingPath(pointer(*path))


def _index(container: Sequence[Any], key: str, room: int = 0) -> int:
    """Return the position that `key` names; it may be `room` items after the last one."""
    size = len(container) + room
    try:
        index = int(key)
    except ValueError:
        why = f"strconv.Atoi: parsing {msgspec.json.encode(key).decode()}: invalid syntax"
        raise _WrongKey(f"value was not a proper array index: '{key}': {why}") from None
    if not -size <= index < size:
        raise _WrongKey(f"Unable to access invalid index: {key}: invalid index referenced")
    return index + size if index < 0 else index
