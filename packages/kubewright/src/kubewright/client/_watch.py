"""Decodes the stream of a watch into events.

A stream has one JSON document per line and arrives in chunks that may split a line. All lines that a chunk completes
are decoded together, so a burst of events costs one call.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from kubewright.machinery.errors import APIError, DecodeError, Status, from_status
from kubewright.machinery.json import read_object

T_co = TypeVar("T_co", covariant=True)

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]
"""The type of an event. For a watch with a selector, an object that starts or stops matching is ADDED or DELETED."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streamed list."""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T_co]):
    """One change. The object of a DELETED is its last state."""

    type: EventType
    object: T_co


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this resource version have been sent. A watch can resume from here."""

    resource_version: str
    initial_events_end: bool = False
    """All objects that existed at the start of the watch have been sent (`send_initial_events`)."""


class RawEvent(msgspec.Struct, gc=False, frozen=True):
    """An event whose object is not decoded. `object` is a view of the chunk; copy it to keep it."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw

    def bookmark(self) -> Bookmark:
        """Return the content of a BOOKMARK event."""
        metadata = _decode_bookmark(self.object).metadata
        ended = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        return Bookmark(metadata.resource_version, ended)

    def error(self) -> APIError:
        """Return the error in an ERROR event."""
        return from_status(Status.from_dict(read_object(self.object)))


class _BookmarkMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


# Created on import: msgspec cannot analyze the same class in two threads at the same time.
_decode_bookmark: Final = msgspec.json.Decoder(_BookmarkObject).decode
_decode_events: Final = msgspec.json.Decoder(RawEvent).decode_lines


class EventDecoder:
    """Splits the chunks of one stream into events."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        """The pieces of an incomplete line. They are joined once, when the line ends."""

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the events that `chunk` completes, in order. Raises DecodeError for anything but watch events."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._partial.append(chunk)
            return []
        lines = chunk[:end]
        if self._partial:
            self._partial.append(lines)
            lines = b"".join(self._partial)
            self._partial.clear()
        if end < len(chunk):
            self._partial.append(chunk[end:])
        try:
            return _decode_events(lines)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"the watch sent something that is not an event ({error}): {lines[:200]!r}") from error
