"""Changes to a document: JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the API server applies them.

A patched document is a new document that shares unchanged parts with the old one and with the patch. Patching alters
none of the three, but a later change in place of one of them changes the shared parts of all.
The strategic merge patch, which needs a kind's schema, is `schema.strategic`.

Kubernetes departs from RFC 6902: `replace` and `test` for null take an absent field, and negative indices count
from the end. Follows k8s.io/apiserver/pkg/endpoints/handlers/patch.go and evanphx/json-patch v4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from kubewright.machinery.errors import UNAPPLIED, BadRequest, Invalid, RequestTooLarge, StatusDetails
from kubewright.machinery.json import JSONArray, JSONObject, copied, equal, is_array, is_object

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
_MAX_DEPTH: Final = 10_000
"""Parts of a path. No JSON document that Go reads is deeper."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}").fullmatch
_ABSENT: Final = object()
_Container: TypeAlias = JSONObject | JSONArray


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
    if is_object(old) and is_object(new):
        _compare_objects(old, new, path, operations)
    elif is_array(old) and is_array(new):
        _compare_arrays(old, new, path, operations)
    elif not equal(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _compare_objects(old: JSONObject, new: JSONObject, path: str, operations: JSONArray) -> None:
    operations += [{"op": "remove", "path": path + pointer(key)} for key in old if key not in new]
    for key, value in new.items():
        current = old.get(key, _ABSENT)
        if current is _ABSENT:
            operations.append({"op": "add", "path": path + pointer(key), "value": value})
        elif current is not value:  # documents that were changed share what is unchanged
            _compare(current, value, path + pointer(key), operations)


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
    draft = _Draft(doc)
    try:
        for operation in operations:
            _explained(draft, operation)
    except _TestFailed as error:
        raise PatchTestFailed(UNAPPLIED, details=StatusDetails()) from error
    except _NotApplicable as error:
        raise Invalid(UNAPPLIED, details=StatusDetails()) from error
    root: JSONObject = draft.root
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


def _explained(draft: _Draft, operation: JSONObject) -> None:
    """Apply an operation. Its error says, in the words of the API server, which path of which operation is wrong."""
    try:
        draft.apply(operation)
    except _MissingPath as error:
        kind, path = operation["op"], operation["path"]
        shown = f'"{path}"' if kind in ("add", "remove") else path
        doc = "" if kind == "test" else "doc "
        why = f"{kind} operation does not apply: {doc}is missing path: {shown}: missing value"
        raise _NotApplicable(why) from error
    except _WrongKey as error:
        kind = "remove" if operation["op"] == "replace" else operation["op"]
        raise _NotApplicable(f"error in {kind} for path: '{operation['path']}': {error}") from error


class _Draft:
    """A document while operations are applied to it.

    A container is copied before its first change and is changed in place after that, so the cost of an operation does
    not depend on the size of the document.
    """

    def __init__(self, doc: JSONObject) -> None:
        self.root: Any = doc
        self._own: dict[int, _Container] = {}
        """The containers that only this document refers to, by id. They are kept, so that no other gets their id."""
        self._copied = 0

    def apply(self, operation: JSONObject) -> None:
        kind = operation.get("op")
        path = _parts(operation, "path")
        value = operation.get("value")
        match kind:
            case "test":
                found = self._get(path)
                if not equal(None if found is _ABSENT else found, value):
                    raise _TestFailed(f"testing value {pointer(*path)} failed: test failed")
            case "add":
                self._add(path, value)
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, value)
            case "move":
                source = _parts(operation, "from")
                moved = self._get(source)
                self._remove(source)
                self._add(path, moved)
            case "copy":
                self._add(path, self._copy(self._get(_parts(operation, "from"))))
            case _:
                raise _NotApplicable(f"Unexpected kind: {kind}")

    def _get(self, path: Sequence[str]) -> Any:
        """Return the value at `path`; `_ABSENT` for a missing field."""
        value = self.root
        for part in path:
            if is_object(value):
                value = value.get(part, _ABSENT)
            elif is_array(value):
                value = value[_index(value, part)]
            else:
                raise _MissingPath(pointer(*path))
        return value

    def _copy(self, value: Any) -> Any:
        """Return a deep copy, because containers in it may be changed in place."""
        if value is _ABSENT:
            return None
        self._copied += len(msgspec.json.encode(value))
        if self._copied > MAX_COPIED_BYTES:
            raise _NotApplicable(f"{self._copied} bytes were copied, more than the limit of {MAX_COPIED_BYTES}")
        return copied(value)

    def _add(self, path: Sequence[str], value: Any) -> None:
        container, key = self._open(path)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(container, key, room=1), value)

    def _remove(self, path: Sequence[str]) -> None:
        container, key = self._open(path)
        if isinstance(container, list):
            del container[_index(container, key)]
        elif container.pop(key, _ABSENT) is _ABSENT:
            raise _WrongKey(f"Unable to remove nonexistent key: {key}: missing value")

    def _replace(self, path: Sequence[str], value: Any) -> None:
        if path:
            container, key = self._open(path)
            if isinstance(container, dict):
                container[key] = value
            else:
                container[_index(container, key)] = value
        elif is_object(value):
            self.root = value
        else:
            raise _NotApplicable("replace operation value must be object")

    def _open(self, path: Sequence[str]) -> tuple[_Container, str]:
        """Return the container of the last part of `path`, which may be changed, and that part."""
        if not path:
            raise _MissingPath("")
        parent = self.root = self._owned(self.root, path)
        for part in path[:-1]:
            key: Any = part if isinstance(parent, dict) else _index(parent, part)
            if isinstance(parent, dict) and part not in parent:
                raise _MissingPath(pointer(*path))
            child = self._owned(parent[key], path)
            parent[key] = child
            parent = child
        return parent, path[-1]

    def _owned(self, value: Any, path: Sequence[str]) -> Any:
        """Return a container itself if it may be changed, else a copy of it that may be."""
        if id(value) in self._own:
            return value
        if not is_object(value) and not is_array(value):
            raise _MissingPath(pointer(*path))
        own = value.copy()
        self._own[id(own)] = own
        return own


def _parts(operation: JSONObject, name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _NotApplicable(f"{operation.get('op')} operation: missing {name} field")
    if text.count("/") > _MAX_DEPTH:
        raise _NotApplicable(f"{operation.get('op')} operation: {name} has more than {_MAX_DEPTH} parts")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: Sequence[Any], key: str, room: int = 0) -> int:
    """Return the position that `key` names; it may be `room` items after the last one."""
    size = len(container) + room
    if not _INTEGER(key):
        why = f"strconv.Atoi: parsing {msgspec.json.encode(key).decode()}: invalid syntax"
        raise _WrongKey(f"value was not a proper array index: '{key}': {why}")
    index = int(key)
    if not -size <= index < size:
        raise _WrongKey(f"Unable to access invalid index: {key}: invalid index referenced")
    return index + size if index < 0 else index
