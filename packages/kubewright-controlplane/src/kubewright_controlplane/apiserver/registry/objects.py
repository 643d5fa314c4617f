"""Conversion between documents and stored bytes.

Stored bytes start with kind and apiVersion and contain the object's resourceVersion. So they can be used unchanged as
an answer, an item of a list, and the object of a watch event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.schema.structural.default import copied

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])

encode_json = _encoder.encode
decode_json = _decoder.decode


def key_of(namespace: str, name: str) -> str:
    """Return the key under which a store keeps an object."""
    return f"{namespace}/{name}" if namespace else name


def encode(resource: Resource, obj: JSONObject) -> bytes:
    """Encode an object of `resource` as JSON, with kind and apiVersion first."""
    first = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": obj["metadata"]}
    return _encoder.encode(first | {key: value for key, value in obj.items() if key not in first})


def to_stored(resource: Resource, obj: JSONObject) -> bytes:
    """Encode an object of `resource` in the resource's storage version."""
    if resource.to_storage is None:
        return encode(resource, obj)
    stored = resource.to_storage(obj)
    first = {"kind": stored["kind"], "apiVersion": stored["apiVersion"]}
    return _encoder.encode(first | stored)


def from_stored(resource: Resource, data: bytes) -> JSONObject:
    """Decode a stored object in `resource`'s version. The caller may change the document."""
    obj = _decoder.decode(data)
    return obj if resource.from_storage is None else resource.from_storage(obj)


def converted(obj: JSONObject, resource: Resource, target: Resource) -> JSONObject:
    """Return an object of `resource` in the version of `target`, which is served from the same stored objects."""
    if target is resource:
        return obj
    if target.converter is not None and target.from_storage is not None:
        return target.from_storage(obj)
    stored = obj if resource.to_storage is None else resource.to_storage(copied(obj))
    other = stored if target.from_storage is None else target.from_storage(stored if stored is not obj else copied(obj))
    return other | {"kind": target.kind, "apiVersion": target.api_version}


def served(resource: Resource, entry: Entry) -> bytes:
    """Return a stored object as JSON in `resource`'s version: the stored bytes, if that is the storage version."""
    if resource.from_storage is None:
        return entry.data
    return encode(resource, from_stored(resource, entry.data))


def with_resource_version(data: bytes, revision: int) -> bytes:
    """Return stored bytes with another resourceVersion."""
    obj = _decoder.decode(data)
    obj["metadata"]["resourceVersion"] = str(revision)
    return _encoder.encode(obj)


def set_condition(obj: JSONObject, condition: JSONObject, now: str) -> None:
    """Set a condition in an object's status. Its lastTransitionTime changes only if its status does."""
    conditions: list[JSONObject] = obj.setdefault("status", {}).setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            changed = now if present.get("status") != condition["status"] else present.get("lastTransitionTime", now)
            conditions[index] = {**condition, "lastTransitionTime": changed}
            return
    conditions.append({**condition, "lastTransitionTime": now})
