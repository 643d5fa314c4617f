"""Answers: which form and encoding a client accepts, objects in that form, and the headers of every response.

Objects are shown whole, as metadata only, or as rows of a Table; in JSON, YAML or protobuf. Stored bytes are JSON, so
a whole object costs nothing and a list costs a join.

Follows apiserver's pkg/endpoints/handlers/negotiation, response.go and responsewriters.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import msgspec

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, NotAcceptable, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import protobuf
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo
from kubewright_controlplane.apiserver.registry.listing import Page
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode, encode_json, from_stored, served

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ENCODINGS = (JSON, YAML, PROTOBUF)

_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")
_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_GZIP_FROM = 128 * 1024
_GZIP_LEVEL = 1
_GZIP_ON_THREAD = 1 << 20
"""Bytes of a body that is compressed on a thread, which takes 5 milliseconds or more."""
_READERS = ("curl", "Wget", "Mozilla/5.0")
"""User agents whose answers people read."""
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_INDENTED = ("/api", "/apis")
_PRIVATE = "no-cache, private"
_WARNINGS_LIMIT = 4096
"""Characters of all warnings. With more, each of them is cut, and the last ones are dropped."""
_CUT_WARNING = 256
_MOST_WARNINGS = 4096
"""Warnings that are looked at; far fewer fit."""
_DECODED_AT_ONCE = 256 << 10
"""Bytes that are decoded in one step."""
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


# Negotiation


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of an Accept header."""

    type: str
    quality: float = 1.0
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")

    def accepts(self, type: str) -> bool:
        """Return whether this is `type`, or a wildcard that includes it."""
        return self.type in (type, "*/*", type.partition("/")[0] + "/*")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accepted answer: an encoding, and the form: objects (`kind` is empty), a Table, or metadata only."""

    encoding: str = JSON
    kind: str = ""
    """`Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`."""
    version: str = ""
    """Version of the meta.k8s.io group."""


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Return the entries of an Accept header, best first; an empty header accepts everything."""
    entries = [_media_type(text) for text in header.split(",") if text.strip()]
    return tuple(sorted(entries, key=lambda entry: -entry.quality)) or (MediaType("*/*"),)


@lru_cache(maxsize=256)
def negotiate(header: str, *, tables: bool, metadata: bool) -> Accepted:
    """Choose the best answer that an Accept header allows. `tables` and `metadata` say whether these forms are
    available.

    JSON, the stored form, is preferred among equals. Raises NotAcceptable.
    """
    entries = parse_accept(header)
    best: Accepted | None = None
    for entry in entries:
        accepted = _accepted(entry, tables=tables, metadata=metadata)
        if accepted is None:
            continue
        if accepted.encoding != PROTOBUF:
            return accepted
        best = best or accepted
    if best is None:
        raise NotAcceptable(f"only the following media types are accepted: {', '.join(ENCODINGS)}")
    return best


def check_encoding(header: str) -> None:
    """Raise NotAcceptable if the client accepts none of the encodings."""
    if not any(entry.accepts(encoding) for entry in parse_accept(header) for encoding in ENCODINGS):
        listed = ", ".join((*ENCODINGS, f"{JSON};stream=watch", f"{PROTOBUF};stream=watch"))
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}", details=StatusDetails())


def _accepted(entry: MediaType, *, tables: bool, metadata: bool) -> Accepted | None:
    encoding = next((each for each in ENCODINGS if entry.accepts(each)), None)
    if encoding is None:
        return None
    kind = entry.parameter("as")
    if not kind:
        return Accepted(encoding)
    known = entry.parameter("g") == _META_GROUP and entry.parameter("v") in _META_VERSIONS
    offered = (kind == "Table" and tables and encoding != PROTOBUF) or (
        kind.startswith("PartialObjectMetadata") and metadata
    )
    return Accepted(encoding, kind, entry.parameter("v")) if known and offered else None


def _media_type(text: str) -> MediaType:
    type, *parts = (part.strip() for part in text.split(";"))
    quality = 1.0
    parameters: list[tuple[str, str]] = []
    for part in parts:
        key, _, value = part.partition("=")
        if key == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
        else:
            parameters.append((key, value))
    return MediaType(type.lower(), quality, tuple(parameters))


# Forms


class Form(Protocol):
    """One form of objects, in JSON. Every method takes objects in their resource's own version."""

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

    @property
    def is_stored_form(self) -> bool:
        """Whether objects are shown as they are stored, without encoding them again."""
        return self.content_type == JSON and isinstance(self._form, WholeForm) and self._resource.from_storage is None

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
        return (self._resource.gvk, self._form.key, self.content_type)

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

    @property
    def event_ending(self) -> bytes:
        """What each event of a watch ends with, and what is nowhere else in it."""
        return b"\n" if self.content_type == JSON else b"\n---\n"

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

    return yaml.dump(_decoded(data)).encode()


def _decoded(data: bytes) -> JSONObject:
    """Decode an object, or a list whose items are decoded while they are read.

    One step in C that decodes a long list would stop all other threads.
    """
    if len(data) < _DECODED_AT_ONCE:
        return decode_json(data)
    return {name: _decoded_part(name, bytes(part)) for name, part in _PARTS.decode(data).items()}


def _decoded_part(name: str, part: bytes) -> Any:
    if name == "items" and part.startswith(b"["):
        return map(msgspec.json.decode, _ITEMS.decode(part))
    return msgspec.json.decode(part)


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    JSON: _as_is,
    YAML: _to_yaml,
    PROTOBUF: lambda data: protobuf.encode(_decoded(data)),
}


# Responses


def document(status: int, body: bytes, content_type: str = JSON) -> Response:
    """Return a document that must not be cached."""
    if content_type == JSON and body:
        body += b"\n"  # as Go's encoder
    return Response(status, {"cache-control": _PRIVATE, "content-type": content_type}, body)


_MOST_INDENTED = 4 << 20
"""Bytes of an answer that is indented: everybody waits for it, and nobody reads more."""


def indent(request: Request, info: RequestInfo, response: Response) -> None:
    """Indent JSON for people, up to a size: if the query asks for it, or the client is curl, Wget or a browser."""
    body = response.body
    if (
        not isinstance(body, bytes)
        or len(body) > _MOST_INDENTED
        or "content-encoding" in response.headers
        or not response.headers.get("content-type", "").startswith(JSON)
    ):
        return
    if info.path == "/version" or (info.path.startswith(_INDENTED) and _is_read_by_people(request, info)):
        response.body = msgspec.json.format(body.rstrip(b"\n"), indent=2)


def _is_read_by_people(request: Request, info: RequestInfo) -> bool:
    if asked := info.query.text("pretty"):
        return asked in _TRUE
    return request.headers.get("user-agent", "").startswith(_READERS)


def json_document(status: int, obj: JSONObject) -> Response:
    return document(status, encode_json(obj))


def text(status: int, body: str) -> Response:
    headers = {
        "cache-control": _PRIVATE,
        "content-type": "text/plain; charset=utf-8",
        "x-content-type-options": "nosniff",
    }
    return Response(status, headers, body.encode())


def page_not_found() -> Response:
    return text(404, "404 page not found\n")


def failure(error: APIError) -> Response:
    """Return the Status of an error, with a Retry-After header if the error is temporary."""
    response = json_document(error.status.code, error.status.to_dict())
    if error.retry_after is not None:
        response.headers["retry-after"] = str(int(error.retry_after))
    return response


async def compress(request: Request, response: Response) -> None:
    """Compress a large body if the client accepts gzip."""
    body = response.body
    if not isinstance(body, bytes) or len(body) < _GZIP_FROM or "content-encoding" in response.headers:
        return
    if "gzip" in request.headers.get("accept-encoding", ""):
        if len(body) < _GZIP_ON_THREAD:
            response.body = _gzip(body)
        else:
            response.body = await asyncio.to_thread(_gzip, body)
        response.headers["content-encoding"] = "gzip"
        response.headers["vary"] = "Accept-Encoding"


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def add_warnings(response: Response, warnings: Iterable[str]) -> None:
    """Add the warnings for the client, also of a request that failed. Those with control characters are dropped.

    Follows apiserver's pkg/endpoints/filters/warning.go.
    """
    listed = [each for each in dict.fromkeys(islice(warnings, _MOST_WARNINGS)) if each and not _CONTROL.search(each)]
    if not listed:
        return
    if sum(map(len, listed)) > _WARNINGS_LIMIT:
        listed = list(_cut(listed))
    response.headers["warning"] = ", ".join(f'299 - "{_quoted(each)}"' for each in listed)


def _cut(warnings: Iterable[str]) -> Iterator[str]:
    """Yield cut warnings until the limit is reached."""
    written = 0
    for each in warnings:
        if written >= _WARNINGS_LIMIT:
            return
        text = each[:_CUT_WARNING]
        written += len(text)
        yield text


def _quoted(warning: str) -> str:
    return warning.replace("\\", "\\\\").replace('"', '\\"')
