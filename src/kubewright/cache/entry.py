"""One object as the cache holds it: the bytes that arrived, and beside them what is asked for without decoding.

An object of 4 KB costs 4 KB and a little. Most events are about objects whose spec nobody looks at: a key, a version,
the labels and the owners decide whether there is work. Those are read in one pass over the metadata; the rest is
decoded by whoever needs it, into an object of their own.

Resource versions are compared as the numbers they are: of one kind, the greater is the later (KEP-5504). A server that
numbers otherwise is refused with a DecodeError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from kubewright.client.dynamic import decode_object
from kubewright.machinery.errors import DecodeError
from kubewright.models import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V")

_MANAGED_FIELDS: Final = b'"managedFields":'


class ObjectKey(NamedTuple):
    """Where an object of a kind is. `namespace` is None for cluster-scoped kinds."""

    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class Entry(msgspec.Struct, Generic[T], frozen=True, eq=False, gc=False):
    """One version of one object. Never changes; `decode` gives a fresh object each time."""

    kind: type[T]

    key: ObjectKey
    uid: str
    resource_version: int
    generation: int
    labels: Mapping[str, str]
    owners: tuple[Owner, ...]
    deleting: bool
    """Deletion was asked for; finalizers or a grace period still hold it."""
    data: bytes
    """The document as JSON."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Read from the document each time: few ask for them."""
        return _decode_annotations(self.data).metadata.annotations or {}

    @property
    def controller(self) -> Owner | None:
        """The owner that manages this object, if there is one."""
        return next((owner for owner in self.owners if owner.controller), None)

    def decode(self) -> T:
        """The object, the caller's own. Raises DecodeError when it is not one of its kind."""
        return decode_object(self.kind, self.data)

    def __repr__(self) -> str:
        return f"<{self.kind.__name__} {self.key} at {self.resource_version}>"


EventType: TypeAlias = Literal["add", "update", "delete"]


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What became of one object. `old` is None for an add, `new` for a delete; a delete's `old` is the last known
    state.
    """

    type: EventType
    key: ObjectKey
    old: Entry[T] | None
    new: Entry[T] | None
    initial: bool = False
    """Nothing has just happened: part of the first list, or of a resync. Work for it can wait behind what happens
    now.
    """


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: msgspec.Raw = msgspec.Raw()
    owner_references: msgspec.Raw = msgspec.Raw()
    deletion_timestamp: str | None = None
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, gc=False):
    metadata: _Metadata


class _AnnotatedMetadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _AnnotatedMetadata


# Made on import: msgspec can't learn the same class in two threads at once.
_decode_document: Final = msgspec.json.Decoder(_Document).decode
_decode_annotations: Final = msgspec.json.Decoder(_Annotated).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_owners: Final = msgspec.json.Decoder(tuple[Owner, ...] | None).decode


class _Shared(Generic[V]):
    """Decodes small parts of documents that are the same in many: equal ones are one value, which nobody changes."""

    _MANY: Final = 1024
    """Values to remember. What is alike comes together: a list is in the order of names."""

    def __init__(self, decode: Callable[[bytes], V | None], nothing: V) -> None:
        self._decode = decode
        self._nothing = nothing
        self._known: dict[bytes, V] = {}

    def value(self, raw: msgspec.Raw) -> V:
        data = bytes(raw)
        if not data:
            return self._nothing
        value = self._known.get(data)
        if value is None:
            if len(self._known) >= self._MANY:
                self._known.clear()
            value = self._known[data] = self._decode(data) or self._nothing
        return value


class EntryDecoder(Generic[T]):
    """Makes entries of the documents of one kind."""

    def __init__(self, kind: type[T], *, keep_managed_fields: bool) -> None:
        self._kind = kind
        self._keep_managed_fields = keep_managed_fields
        self._labels = _Shared[Mapping[str, str]](_decode_labels, {})
        self._owners = _Shared[tuple[Owner, ...]](_decode_owners, ())

    def decode(self, raw: msgspec.Raw) -> Entry[T]:
        """The entry of a document; copies it. Raises DecodeError when it has no metadata that makes sense."""
        data = bytes(raw)
        try:
            metadata = _decode_document(data).metadata
            if metadata.managed_fields and not self._keep_managed_fields:
                data = _without(data, bytes(metadata.managed_fields))
            namespace = metadata.namespace
            return Entry(
                self._kind,
                ObjectKey(sys.intern(namespace) if namespace else None, metadata.name),
                metadata.uid,
                int(metadata.resource_version or 0),
                metadata.generation,
                self._labels.value(metadata.labels),
                self._owners.value(metadata.owner_references),
                metadata.deletion_timestamp is not None,
                data,
            )
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise DecodeError(f"{self._kind.__api__.kind}: {error}: {data[:200]!r}") from error


def _without(data: bytes, managed_fields: bytes) -> bytes:
    """The document without its managedFields, if they are where the API server writes them: with no space before them,
    and before anything else that holds the very same bytes. Otherwise the document as it is.
    """
    start = data.find(_MANAGED_FIELDS)
    end = start + len(_MANAGED_FIELDS) + len(managed_fields)
    if start < 0 or not data.startswith(managed_fields, start + len(_MANAGED_FIELDS)):
        return data
    if data[start - 1 : start] == b",":
        return data[: start - 1] + data[end:]
    return data[:start] + data[end + 1 :] if data[end : end + 1] == b"," else data[:start] + data[end:]
