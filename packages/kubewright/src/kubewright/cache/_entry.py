"""One object as the cache holds it: the bytes that arrived, and what can be used without decoding.

An object costs its bytes and half a kilobyte. If a kind has many objects, their bytes are packed (`_packing`),
most of them to next to nothing. For most events the spec does not matter: the key, version, labels and owners decide
whether there is work. These are read in one pass over the metadata. The rest is decoded when it is needed, each time
into a new object.

Resource versions are compared as numbers: within one kind, the greater version is the later one (KEP-5504). If a
server uses other versions, a DecodeError is raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from kubewright.cache._packing import Packer, Reference
from kubewright.cache._projection import Projection
from kubewright.client._dynamic import decode_object
from kubewright.machinery.errors import DecodeError
from kubewright.models import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V")

_MANAGED_FIELDS: Final = b'"managedFields":'


class ObjectKey(NamedTuple):
    """Where an object of a kind is."""

    namespace: str | None
    """None for cluster-scoped kinds."""
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
    packed: bytes
    reference: Reference | None
    """The document, as `Packer` keeps it."""

    @property
    def data(self) -> bytes:
        """The document as JSON."""
        return self.packed if self.reference is None else self.reference.unpack(self.packed)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Read from the document each time: few ask for them."""
        return _decode_annotations(self.data).metadata.annotations or {}

    @property
    def controller(self) -> Owner | None:
        """The owner that manages this object, if there is one."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    def decode(self) -> T:
        """Return the object, the caller's own. Raises DecodeError when it is not one of its kind."""
        return decode_object(self.kind, self.data)

    def __repr__(self) -> str:
        return f"<{self.kind.__name__} {self.key} at {self.resource_version}>"


EventType: TypeAlias = Literal["add", "update", "delete"]
"""What happened to the cached copy of an object."""


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A change of one object. `old` is None for an add, `new` for a delete; a delete's `old` is the last known
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
_read_labels: Final = msgspec.json.Decoder(dict[str, str] | None).decode
_read_owners: Final = msgspec.json.Decoder(tuple[Owner, ...] | None).decode


@lru_cache(maxsize=1024)
def _shared(text: str) -> str:
    """Return the same string for equal ones, as long as they come together."""
    return text


def _decode_labels(data: bytes) -> Mapping[str, str]:
    labels: Mapping[str, str] | None = _read_labels(data)
    return {key: _shared(value) for key, value in labels.items()} if labels else {}


def _decode_owners(data: bytes) -> tuple[Owner, ...]:
    return tuple(
        Owner(_shared(each.api_version), _shared(each.kind), each.name, each.uid, each.controller)
        for each in _read_owners(data) or ()
    )


class _Shared(Generic[V]):
    """Decodes small parts of documents that are the same in many: equal ones are one value, which nobody changes."""

    _MANY: Final = 256
    """Values to remember. What is alike comes together: a list is in the order of names."""

    def __init__(self, decode: Callable[[bytes], V], nothing: V) -> None:
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
            value = self._known[data] = self._decode(data)
        return value


class EntryDecoder(Generic[T]):
    """Makes entries of the documents of one kind."""

    def __init__(self, kind: type[T], *, keep_managed_fields: bool, projection: Projection | None = None) -> None:
        self._kind = kind
        self._projection = projection
        self._keep_managed_fields = keep_managed_fields
        self._labels = _Shared[Mapping[str, str]](_decode_labels, {})
        self._owners = _Shared[tuple[Owner, ...]](_decode_owners, ())
        self._packer = Packer()

    def decode(
        self, raw: msgspec.Raw, held: Callable[[ObjectKey], Entry[T] | None] = lambda _: None, *, pack: bool = False
    ) -> Entry[T]:
        """Return the entry of a document: the one that is held under its key, if it is of that version; else a new one,
        packed if it is worth while. Raises DecodeError when the document has no metadata that makes sense.
        """
        try:
            metadata = _decode_document(raw).metadata
            version = int(metadata.resource_version or 0)
            namespace = metadata.namespace
            key = ObjectKey(sys.intern(namespace) if namespace else None, metadata.name)
            last = held(key)
            if last is not None and last.resource_version == version and last.uid == metadata.uid:
                return last
            data, reference = bytes(raw), None
            if metadata.managed_fields and not self._keep_managed_fields:
                data = _without(data, bytes(metadata.managed_fields))
            if self._projection is not None:
                data = self._projection(data)
            if pack:
                data, reference = self._packer.pack(data, last.reference if last is not None else None)
            return Entry(
                self._kind,
                key,
                metadata.uid,
                version,
                metadata.generation,
                self._labels.value(metadata.labels),
                self._owners.value(metadata.owner_references),
                metadata.deletion_timestamp is not None,
                data,
                reference,
            )
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise DecodeError(f"{self._kind.__api__.kind}: {error}: {bytes(raw)[:200]!r}") from error


def _without(data: bytes, managed_fields: bytes) -> bytes:
    """Return the document without its managedFields, if they are where the API server writes them: with no space before
    them, and before anything else that holds the very same bytes. Otherwise the document as it is.
    """
    start = data.find(_MANAGED_FIELDS)
    end = start + len(_MANAGED_FIELDS) + len(managed_fields)
    if start < 0 or not data.startswith(managed_fields, start + len(_MANAGED_FIELDS)):
        return data
    if data[start - 1 : start] == b",":
        return data[: start - 1] + data[end:]
    return data[:start] + data[end + 1 :] if data[end : end + 1] == b"," else data[:start] + data[end:]
