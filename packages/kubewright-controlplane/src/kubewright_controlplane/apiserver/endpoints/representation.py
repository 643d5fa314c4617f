"""The form of objects in answers: whole, metadata only, or rows of a Table; in JSON, YAML or protobuf.

Stored bytes are JSON, so a whole object costs nothing and a list costs a join. Every method takes objects as JSON in
their resource's own version.

Follows apiserver's pkg/endpoints/handlers/response.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

import msgspec

from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import protobuf
from kubewright_controlplane.apiserver.endpoints.negotiation import JSON, PROTOBUF, YAML
from kubewright_controlplane.apiserver.registry.listing import Page
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode, encode_json, from_stored, served

_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


class Form(Protocol):
    """One form of objects, in JSON."""

    key: Hashable
    """Equal for forms with the same output."""

    def one(self, data: bytes) -> bytes: ...

    def listing(self, metadata: JSONObject, items: Iterable[bytes]) -> bytes: ...

    def watched(self, data: bytes, *, first: bool) -> bytes:
        """Return the object of a watch event; `first` is true for the first event of its watch."""
        ...

    def bookmark(self, metadata: JSONObject) -> bytes:
        """Return the object of a BOOKMARK event."""
        ...


class WholeForm:
    """Whole objects. Items of a built-in list omit kind and apiVersion, which follow from those of the list."""

    key: Hashable = "whole"

    def __init__(self, resource: Resource) -> None:
        self._type = {"kind": resource.kind, "apiVersion": resource.api_version}
        self._list_type = {"kind": resource.list_kind or f"{resource.kind}List", "apiVersion": resource.api_version}
        self._prefix = 0 if resource.custom else len(encode_json(self._type))

    def one(self, data: bytes) -> bytes:
        return data

    def listing(self, metadata: JSONObject, items: Iterable[bytes]) -> bytes:
        if prefix := self._prefix:
            items = [b"{" + data[prefix:] for data in items]
        return _list(self._list_type, metadata, items)

    def watched(self, data: bytes, *, first: bool) -> bytes:
        return data

    def bookmark(self, metadata: JSONObject) -> bytes:
        return encode_json({**self._type, "metadata": metadata})


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


class MetadataForm:
    """Objects without spec and status."""

    def __init__(self, version: str) -> None:
        self.key: Hashable = ("metadata", version)
        self._type = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        self._list_type = self._type | {"kind": "PartialObjectMetadataList"}
        self._head = encode_json(self._type)[:-1] + b',"metadata":'
        self._decoder = msgspec.json.Decoder(_Metadata)

    def one(self, data: bytes) -> bytes:
        return self._head + bytes(self._decoder.decode(data).metadata) + b"}"

    def listing(self, metadata: JSONObject, items: Iterable[bytes]) -> bytes:
        return _list(self._list_type, metadata, map(self.one, items))

    def watched(self, data: bytes, *, first: bool) -> bytes:
        return self.one(data)

    def bookmark(self, metadata: JSONObject) -> bytes:
        return encode_json({**self._type, "metadata": metadata})


class Representation:
    """A form in an encoding: encodes the bodies of responses."""

    def __init__(self, resource: Resource, form: Form, encoding: str) -> None:
        self.content_type = encoding
        self._resource = resource
        self._form = form
        self._encode: Callable[[bytes], bytes] = _ENCODERS[encoding]

    def one(self, data: bytes) -> bytes:
        """Encode one object."""
        return self._encode(self._form.one(data))

    def page(self, page: Page) -> bytes:
        """Encode a list."""
        metadata: JSONObject = {"resourceVersion": str(page.revision)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        return self._encode(self._form.listing(metadata, self._items(page)))

    def _items(self, page: Page) -> Iterable[bytes]:
        if self._resource.from_storage is None:
            return [entry.data for entry in page.entries]
        return [served(self._resource, entry) for entry in page.entries]

    # The frames of a watch, for `registry.watching`

    @property
    def key(self) -> Hashable:
        return (self._resource.version, self._form.key, self.content_type)

    def event(self, type: str, data: bytes) -> bytes:
        return self._frame(type, self._form.watched(self._own_version(data), first=False))

    def first(self, type: str, data: bytes) -> bytes:
        return self._frame(type, self._form.watched(self._own_version(data), first=True))

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        metadata: JSONObject = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = _INITIAL_EVENTS_END
        return self._frame("BOOKMARK", self._form.bookmark(metadata))

    def error(self, error: APIError) -> bytes:
        return self._frame("ERROR", encode_json(error.status.to_dict()))

    def _own_version(self, data: bytes) -> bytes:
        resource = self._resource
        return data if resource.from_storage is None else encode(resource, from_stored(resource, data))

    def _frame(self, type: str, data: bytes) -> bytes:
        event = b'{"type":"' + type.encode() + b'","object":' + data + b"}"
        if self.content_type == JSON:
            return event + b"\n"
        return self._encode(event) + b"---\n"


def _list(type: JSONObject, metadata: JSONObject, items: Iterable[bytes]) -> bytes:
    return encode_json({**type, "metadata": metadata})[:-1] + b',"items":[' + b",".join(items) + b"]}"


def _as_is(data: bytes) -> bytes:
    return data


def _to_yaml(data: bytes) -> bytes:
    from kubewright.machinery import yaml  # imported for the first YAML answer

    return yaml.dump(decode_json(data)).encode()


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    JSON: _as_is,
    YAML: _to_yaml,
    PROTOBUF: lambda data: protobuf.encode(decode_json(data)),
}
