"""Patches for exactly the object that was read, and the patch that turns one status into another.

A JSON patch that begins with a test of the uid is the only way to tie a change to one object that works for every kind
and subresource: the status of a custom resource is patched whatever uid a merge patch contains. The operations of a
JSON patch fail if a part of their path is absent. A decoded status does not show whether a field was absent or had its
default, so `status_patch` uses only operations that work in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, TypeVar

import msgspec

from kubewright.client._client import Client
from kubewright.client._patch import JSONPatch
from kubewright.machinery.errors import Conflict, Invalid
from kubewright.machinery.json import JSONArray, JSONObject, equal
from kubewright.machinery.patch import pointer
from kubewright.models import Object
from kubewright.models._values import encode

T = TypeVar("T", bound=Object)

_decode: Final = msgspec.json.Decoder(JSONObject | None).decode


def test(path: str, value: object) -> JSONObject:
    """Return the operation that fails a patch unless `path` has this `value`."""
    return {"op": "test", "path": path, "value": value}


async def guarded_patch(
    client: Client, obj: T, operations: Iterable[JSONObject], *, subresource: str | None = None
) -> T:
    """Apply `operations` (RFC 6902) to exactly this object, not to a newer one of its name. Returns the updated object.

    Raises Conflict if the live object is another one or does not match the operations, Invalid if the result breaks a
    rule, and NotFound.
    """
    try:
        patch = JSONPatch((test("/metadata/uid", obj.metadata.uid), *operations))
        return await client.patch(obj, patch, subresource=subresource)
    except Invalid as error:
        if not error.patch_did_not_apply:
            raise
        raise Conflict(
            f"{obj.__api__.kind} {obj.metadata.name!r}: it has changed, or is another object of that name"
        ) from error


def status_patch(kind: type[Object], before: bytes, after: bytes) -> JSONArray:
    """Return the operations (RFC 6902) that change the fields of the status that differ."""
    if before == _default(kind):
        return [{"op": "add", "path": "/status", "value": _decode(after) or {}}]  # the live object may have no status
    return list(_changes(_decode(before) or {}, _decode(after) or {}))


def _changes(before: JSONObject, after: JSONObject) -> JSONArray:
    operations: JSONArray = []
    for key in before.keys() - after.keys():
        place = pointer("status", key)
        operations += ({"op": "add", "path": place, "value": None}, {"op": "remove", "path": place})
    for key, value in after.items():
        if key not in before or not equal(before[key], value):
            operations.append({"op": "add", "path": pointer("status", key), "value": value})
    return operations


@cache
def _default(kind: type[Object]) -> bytes:
    """Return the status that a new object of the kind has in Python."""
    status = next(field for field in msgspec.structs.fields(kind) if field.name == "status")
    if status.default_factory is not msgspec.NODEFAULT:
        return encode(status.default_factory())
    return encode(None if status.default is msgspec.NODEFAULT else status.default)
