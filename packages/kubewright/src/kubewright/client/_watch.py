"""A watch as it comes from the server: events, and how they are cut out of the stream.

A stream is one JSON document a line, in chunks that begin and end anywhere. All lines that a chunk completes are
decoded together: one call for a burst of events, nothing for each that could be done for all.

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
"""What happened to the object. To a watch with a selector, one that begins or ceases to match is added or deleted."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark after the last object of a streamed list."""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T_co]):
    """One change. The object of a DELETED is its last state."""

    type: EventType
    object: T_co


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All events up to this resource version have been sent: a watch can be resumed from here."""

    resource_version: str
    initial_events_end: bool = False
    """All objects that were there when the watch began have been sent (`send_initial_events`)."""


class RawEvent(msgspec.Struct, gc=False, frozen=True):
    """One event whose object is still JSON. `object` is a view of the chunk: copy what is to be kept."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw

    def bookmark(self) -> Bookmark:
        """Return what a BOOKMARK event says."""
        metadata = _decode_bookmark(self.object).metadata
        ended = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        return Bookmark(metadata.resource_version, ended)

    def error(self) -> APIError:
        """Return what an ERROR event says."""
        return from_status(Status.from_dict(read_object(self.object)))


class _BookmarkMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


# Made on import: msgspec can't learn the same class in two threads at once.
_decode_bookmark: Final = msgspec.json.Decoder(_BookmarkObject).decode
_decode_events: Final = msgspec.json.Decoder(RawEvent).decode_lines


class EventDecoder:
    """Makes events of the chunks of one stream."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        """The pieces of a line whose end has not come: joined once, however many there are."""

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the events that `chunk` completes, in their order. Raises DecodeError for anything but watch events."""
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
