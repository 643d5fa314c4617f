"""What makes one status of another: operations that can follow a test of whose status it is.

A merge patch would do, if it could be tied to a uid; that of a custom resource's status can't. A JSON patch can, but
its operations fail where something of their path is absent, and what was decoded does not tell what was absent from
what had its default.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from kubewright.machinery.json import JSONArray, JSONObject, equal
from kubewright.machinery.patch import pointer
from kubewright.models import Object
from kubewright.models._values import encode

_decode: Final = msgspec.json.Decoder(JSONObject | None).decode


def status_patch(kind: type[Object], before: bytes, after: bytes) -> JSONArray:
    """The operations (RFC 6902) that change those fields of the status that differ, whether or not they were there."""
    if before == _default(kind):
        return [{"op": "add", "path": "/status", "value": _decode(after) or {}}]  # there may be none
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
    """The status of an object that has none."""
    status = next(field for field in msgspec.structs.fields(kind) if field.name == "status")
    if status.default_factory is not msgspec.NODEFAULT:
        return encode(status.default_factory())
    return encode(None if status.default is msgspec.NODEFAULT else status.default)
