"""Untyped requests to an API server, as paths and bytes: the base of the typed client and of the cache's reflectors.

`Endpoint` has the URLs of a kind. `RESTClient` adds query parameters and headers to requests, raises errors for
failures, and reports the warnings of the server. `EventDecoder` splits the stream of a watch into events: it has one
JSON document per line and arrives in chunks that may split a line. All lines that a chunk completes are decoded
together, so a burst of events costs one call.

Warnings: https://kubernetes.io/blog/2020/09/03/warnings/ and RFC 7234, section 5.5.
Watches: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote, quote_plus

import msgspec
from msgspec.structs import replace

from kubewright._runtime.log import get_logger
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import (
    APIError,
    ConfigError,
    ConnectionFailed,
    DecodeError,
    Status,
    StatusCause,
    StatusDetails,
    from_status,
)
from kubewright.machinery.json import JSONObject
from kubewright.models import Object

if TYPE_CHECKING:
    from kubewright.apis.core.v1 import ObjectReference

JSON: Final = "application/json"
ANY: Final = "*/*"

_SHOWN: Final = 500
"""The maximum number of characters of an answer without a Status in an error."""

EVENT_LIMIT: Final = 64 << 20
"""The largest event of a watch in bytes. An API server stores objects of 1.5 MiB at most, in a shorter encoding."""

_ERROR_LIMIT: Final = 1 << 20
"""Bytes that are read of the answer to a stream that failed."""

Query: TypeAlias = Mapping[str, str | None]
"""Parameters of a request; None and empty values are omitted."""


WarningHandler: TypeAlias = Callable[[str], None]
"""Called with the text of each warning."""

_WARNING: Final = r'299 \S+ "((?:[^"\\]|\\.)*)"'


_log = get_logger("kubewright.client")


class RESTClient:
    """Sends requests to one API server."""

    def __init__(self, transport: Transport, *, user_agent: str, on_warning: WarningHandler) -> None:
        self.transport = transport
        self.user_agent = user_agent
        self.on_warning = on_warning

    async def close(self) -> None:
        """Close the transport and all of its connections."""
        await self.transport.close()

    async def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> bytes:
        """Return the body of a successful answer. Raises the APIError of any other answer."""
        request = self._compose(method, path, query, body, content_type, accept)
        response = await self.transport.send(request, timeout=timeout)
        data = response.body
        if not isinstance(data, bytes):
            data = await response.read()
        if response.status >= 300:
            raise error_of(request, response, data)
        if "warning" in response.headers:
            self._warn(response)
        return data

    async def watch(
        self, path: str, query: Query, *, accept: str = JSON, silence: float | None = None
    ) -> AsyncGenerator[list[RawEvent], None]:
        """Yield the events of a watch until the server ends the stream. Events that arrive together are one list.

        The first list is empty: the server has accepted the watch. If no event arrives for `silence` seconds, the watch
        ends with DeadlineExceeded.
        """
        request = self._compose("GET", path, {**query, "watch": "true"}, b"", JSON, accept)
        response = await self._begin(request, silence)
        try:
            yield []
            decoder = EventDecoder(f"GET {path}")
            if isinstance(response.body, bytes):
                yield decoder.feed(response.body)
                return
            async for chunk in response.body:
                events = decoder.feed(chunk)
                if events:
                    yield events
        finally:
            await response.aclose()

    async def stream(self, path: str, query: Query, *, accept: str) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a successful answer, without a time limit. Raises the APIError of any other answer."""
        response = await self._begin(self._compose("GET", path, query, b"", JSON, accept), None)
        try:
            if isinstance(response.body, bytes):
                yield response.body
                return
            async for chunk in response.body:
                yield chunk
        finally:
            await response.aclose()

    async def upgrade(self, target: str, headers: dict[str, str]) -> Response:
        """Return the response that changes the protocol of its connection. Raises the APIError of any other answer."""
        request = Request("GET", target, {"user-agent": self.user_agent, **headers})
        response = await self._begin(request, None)
        if response.status == 101 and response.write is not None:
            return response
        await response.aclose()
        raise ConnectionFailed(
            f"GET {request.path}: answered with {response.status}, without a change of the protocol; a proxy or a "
            "transport between here and the API server does not support upgrades"
        )

    async def _begin(self, request: Request, silence: float | None) -> Response:
        """Return the successful answer to a request before its body arrives. The caller must close it."""
        response = await self.transport.send(request, timeout=silence, stream=True)
        try:
            if response.status >= 300:
                raise error_of(request, response, await _beginning(response, _ERROR_LIMIT))
            self._warn(response)
        except BaseException:
            await response.aclose()
            raise
        return response

    def _compose(
        self, method: str, path: str, query: Query | None, body: bytes, content_type: str, accept: str
    ) -> Request:
        headers = {"accept": accept, "user-agent": self.user_agent}
        if body:
            headers["content-type"] = content_type
        if query:
            text = query.text if isinstance(query, FixedQuery) else _encoded(tuple(query.items()))
            if text:
                path = f"{path}?{text}"
        return Request(method, path, headers, body)

    def _warn(self, response: Response) -> None:
        for text in parse_warnings(response.headers.get("warning", "")):
            self.on_warning(text)


async def _beginning(response: Response, most: int) -> bytes:
    """Return a body, but no more chunks of it than fill `most` bytes."""
    if isinstance(response.body, bytes):
        return response.body
    pieces: list[bytes] = []
    size = 0
    async for chunk in response.body:
        pieces.append(chunk)
        size += len(chunk)
        if size >= most:
            break
    return b"".join(pieces)


def parse_warnings(header: str) -> list[str]:
    """Return the texts of a `Warning` header: `299 - "a", 299 - "b"`."""
    return [re.sub(r"\\(.)", r"\1", text) for text in re.findall(_WARNING, header)]


class LogOnce:
    """Logs each warning the first time it is received."""

    _LIMIT = 1000
    """Warnings may contain names of objects. After this many different warnings, all are forgotten."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= self._LIMIT:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("Warning from the API server", warning=text)


@lru_cache(maxsize=64)
def _encoded(query: tuple[tuple[str, str | None], ...]) -> str:
    """Return the text encoded for a URL. Cached, because the writes of a program use few values."""
    return "&".join(f"{key}={quote_plus(value)}" for key, value in query if value)


class FixedQuery(dict[str, "str | None"]):
    """Parameters that many requests share. They are encoded once, and must not be changed."""

    __slots__ = ("text",)

    def __init__(self, parameters: Query) -> None:
        super().__init__(parameters)
        self.text = _encoded(tuple(parameters.items()))


def error_of(request: Request, response: Response, data: bytes) -> APIError:
    """Return the error for an answer, from its Status, or from its code and text if it has no Status."""
    status = _status(data)
    if status is None:
        status = Status(response.status, message=f"{request.method} {request.path}: {response.status} {_excerpt(data)}")
    details = status.details or StatusDetails()
    if response.status == 404 and not details.name:
        text = (
            "the server has no such resource; is its CustomResourceDefinition installed, and this version of it served?"
        )
        status = replace(status, message=f"{request.method} {request.path}: {text}")
    seconds = response.headers.get("retry-after", "")
    if re.fullmatch("[0-9]{1,9}", seconds) and not details.retry_after_seconds:
        status = replace(status, details=replace(details, retry_after_seconds=int(seconds)))
    return from_status(status)


def _status(data: bytes) -> Status | None:
    try:
        found = _decode_status(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if found.kind != "Status":
        return None
    details = found.details
    return Status(
        found.code or 0,
        found.reason or "",
        found.message or "",
        details.convert() if details is not None else None,
        found.metadata or {},
        found.status or "",
    )


class _Cause(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None

    def convert(self) -> StatusDetails:
        causes = self.causes or ()
        found = tuple(StatusCause(each.reason or "", each.message or "", each.field or "") for each in causes)
        return StatusDetails(
            self.name or "", self.group or "", self.kind or "", self.uid or "", found, self.retry_after_seconds or 0
        )


class _StatusDocument(msgspec.Struct, gc=False):
    """A Status as it is sent. Any other document does not fit it, or has another kind."""

    kind: str = ""
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    status: str | None = None
    metadata: JSONObject | None = None
    details: _Details | None = None


_decode_status: Final = msgspec.json.Decoder(_StatusDocument).decode


def _excerpt(data: bytes) -> str:
    text = data.decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


T_co = TypeVar("T_co", covariant=True)

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
"""The type of an event. For a watch with a selector, an object that starts or stops matching is ADDED or DELETED."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list."""


class WatchEvent(msgspec.Struct, Generic[T_co], frozen=True):
    """One change. The object of a DELETED is its last state."""

    type: EventType
    object: T_co


class Bookmark(msgspec.Struct, frozen=True):
    """All events up to this resource version have been sent. A watch can resume from here."""

    resource_version: str
    initial_events_end: bool = False
    """All objects that existed at the start of the watch have been sent (`send_initial_events`)."""


class RawEvent(msgspec.Struct, gc=False, frozen=True):
    """An event whose object is not decoded, and perhaps is not JSON: see `check_json`. `object` may be a view of the
    chunk; copy it to keep it.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw

    def bookmark(self) -> Bookmark:
        """Return the content of a BOOKMARK event."""
        metadata = _decode_bookmark(self.object).metadata
        ended = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        return Bookmark(metadata.resource_version, ended)

    def error(self) -> APIError:
        """Return the error in an ERROR event."""
        status = _status(bytes(self.object))
        if status is None:
            raise DecodeError(f"the watch ended with an error that is not a Status: {_excerpt(bytes(self.object))}")
        return from_status(status)


class _BookmarkMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


# Created on import: msgspec cannot analyze the same class in two threads at the same time.
_decode_bookmark: Final = msgspec.json.Decoder(_BookmarkObject).decode
_decode_events: Final = msgspec.json.Decoder(RawEvent).decode_lines
_read_whole: Final = msgspec.json.Decoder(msgspec.Raw).decode

_CHANGES: Final[tuple[tuple[bytes, Literal["ADDED", "MODIFIED", "DELETED"]], ...]] = (
    (b'{"type":"MODIFIED","object":', "MODIFIED"),
    (b'{"type":"ADDED","object":', "ADDED"),
    (b'{"type":"DELETED","object":', "DELETED"),
)
"""The beginnings of most events, as the API server writes them. What follows, up to a last `}`, is the object."""

_LARGE: Final = 1024
"""The size of an event in bytes from which on finding its object is cheaper than reading it. The first event of a chunk
decides for all.
"""


def check_json(raw: msgspec.Raw) -> None:
    """Raise DecodeError if the object of an event is not JSON."""
    try:
        _read_whole(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_an_event(bytes(raw), error) from error


def _not_an_event(data: bytes, error: Exception, source: str = "") -> DecodeError:
    return DecodeError(f"{source}the watch sent something that is not an event ({error}): {data[:200]!r}")


class EventDecoder:
    """Splits the chunks of one stream into events. `source` is the request, for errors."""

    def __init__(self, source: str = "", limit: int = EVENT_LIMIT) -> None:
        self._source = f"{source}: " if source else ""
        self._limit = limit
        self._partial: list[bytes] = []
        """The pieces of an incomplete line. They are joined once, when the line ends."""
        self._size = 0
        """Bytes of the incomplete line."""

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the events that `chunk` completes, in order. Raises DecodeError for anything but watch events.

        The decoder of an object reads all of it, so large objects are not read here.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return []
        lines = chunk[:end]
        if self._partial:
            self._partial.append(lines)
            lines = b"".join(self._partial)
            self._partial.clear()
            self._size = 0
        if end < len(chunk):
            self._keep(chunk[end:])
        if lines.index(b"\n") < _LARGE:
            return self._others(lines)
        events: list[RawEvent] = []
        view, start, length = memoryview(lines), 0, len(lines)
        while start < length:
            end = lines.index(b"\n", start)
            for beginning, change in _CHANGES:
                if lines.startswith(beginning, start) and lines.endswith(b"}", start, end):
                    events.append(RawEvent(change, msgspec.Raw(view[start + len(beginning) : end - 1])))
                    break
            else:
                events += self._others(lines[start:end])
            start = end + 1
        return events

    def _others(self, lines: bytes) -> list[RawEvent]:
        """Read whole lines."""
        try:
            return _decode_events(lines)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _not_an_event(lines, error, self._source) from error

    def _keep(self, piece: bytes) -> None:
        self._partial.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise DecodeError(f"{self._source}the watch sent an event of more than {self._limit} bytes")


_AS_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_AS_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_needs_no_quoting: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch
"""Matches nearly every name. This check costs a fifth of quoting."""

_MANY: Final = 1024
"""The maximum number of cached paths of namespaces."""


class Endpoint:
    """The URLs of one kind, created once per kind and client.

    Raises ConfigError for a namespaced object without a namespace, and for a cluster-scoped object with a namespace.
    """

    __slots__ = ("_places", "_plural", "_root", "accept", "accept_list", "api", "resource")

    def __init__(self, kind: type[Object]) -> None:
        self.api = kind.__api__
        self.resource: str = self.api.gvr.qualified_resource
        """The name in RBAC and messages: `deployments.apps`."""
        metadata_only = issubclass(kind, PartialObjectMetadata)
        self.accept = _AS_METADATA if metadata_only else JSON
        self.accept_list = _AS_METADATA_LIST if metadata_only else JSON
        self._root = self.api.group_version.path
        self._plural = self.api.plural
        self._places: dict[str | None, str] = {}

    def collection(self, namespace: str | None) -> str:
        """Return the path of the objects in one namespace, or in all namespaces for None."""
        if not namespace:
            return f"{self._root}/{self._plural}"
        if not self.api.namespaced:
            raise ConfigError(f"{self.api.kind} is cluster-scoped: leave out namespace= ({namespace!r} was given)")
        return f"{self._root}/namespaces/{quote(namespace, safe='')}/{self._plural}"

    def place(self, namespace: str | None) -> str:
        """Return the path to create an object at: `collection`, but a namespaced kind requires a namespace."""
        place = self._places.get(namespace)
        if place is None:
            if self.api.namespaced and not namespace:
                raise ConfigError(f"{self.api.kind} is namespaced: give namespace=")
            if len(self._places) >= _MANY:
                self._places.clear()
            place = self._places[namespace] = self.collection(namespace)
        return place

    def check(self, name: str, namespace: str | None) -> None:
        """Raise ConfigError unless `item` has a path for this name and namespace."""
        if not name:
            raise ConfigError(f"{self.api.kind}: a name is required")
        if namespace not in self._places:
            self.place(namespace)

    def item(self, name: str, namespace: str | None, subresource: str | None = None) -> str:
        """Return the path of one object, or of a subresource of it."""
        if not name:
            raise ConfigError(f"{self.api.kind}: a name is required")
        place = self._places.get(namespace) or self.place(namespace)
        path = f"{place}/{name if _needs_no_quoting(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def reference_to(obj: Object) -> ObjectReference:
    """Return a reference to `obj` with its uid and resource version.

    Follows client-go's tools/reference.
    """
    from kubewright.apis.core.v1 import ObjectReference  # loads all of core/v1

    meta = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=meta.namespace or None,
        name=meta.name,
        uid=meta.uid or None,
        resource_version=meta.resource_version or None,
    )
