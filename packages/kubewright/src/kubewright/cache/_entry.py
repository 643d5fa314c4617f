"""An object in the cache: the received bytes, and the metadata that is used without decoding.

An object costs its bytes and half a kilobyte. If a kind has many objects, their bytes are packed to a small fraction
(`kubewright.cache._packing`). Most events need only the key, version, labels and owners, which are read in one pass
over the metadata.
The whole document is decoded when it is needed, each time into a new object.

Resource versions are compared as numbers: within one kind, the greater version is the later one (KEP-5504). If a
server uses other versions, a DecodeError is raised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar, Union

import msgspec
from msgspec import UNSET, UnsetType

from kubewright.cache._packing import Packer, Unpacker
from kubewright.client._dynamic import decode_object
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.models import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V")

_MANAGED_FIELDS: Final = b'"managedFields":'


class _ObjectKey(NamedTuple):
    namespace: str | None
    """None for cluster-scoped kinds."""
    name: str


class ObjectKey(_ObjectKey):
    """The `namespace` and `name` of an object, as a named tuple. The namespace is None for cluster-scoped kinds.

    One object has one key: an empty namespace becomes None.
    """

    __slots__ = ()

    def __new__(cls, namespace: str | None, name: str) -> Self:
        """Create a key. For cluster-scoped kinds, `namespace` is None, or "" as in Go."""
        return tuple.__new__(cls, (namespace or None, name))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@lru_cache(maxsize=1024)
def key_of(namespace: str | None, name: str) -> ObjectKey:
    """Return `ObjectKey(namespace, name)`. Creating a key takes longer, and a reconcile uses few keys often."""
    return ObjectKey(namespace, name)


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class Entry(msgspec.Struct, Generic[T], frozen=True, eq=False, gc=False):
    """One version of one object. Immutable; `decode` returns a new object each time."""

    kind: type[T]

    key: ObjectKey
    uid: str
    resource_version: int
    generation: int
    labels: Mapping[str, str]
    owners: tuple[Owner, ...]
    deleting: bool
    """Whether the object is terminating: finalizers or a grace period delay its deletion."""
    packed: bytes
    reference: Unpacker | None
    """The document, packed by `Packer`."""

    @property
    def data(self) -> bytes:
        """The document as JSON."""
        return self.packed if self.reference is None else self.reference.unpack(self.packed)

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations. Read from the document each time, because they are rarely used."""
        return _decode_annotations(self.data).metadata.annotations or {}

    @property
    def controller(self) -> Owner | None:
        """The controlling owner, if there is one."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    def decode(self) -> T:
        """Return a new object. Raises DecodeError if the document does not match its class."""
        return decode_object(self.kind, self.data)

    def __repr__(self) -> str:
        return f"<{self.kind.__name__} {self.key} at {self.resource_version}>"


EventType: TypeAlias = Literal["add", "update", "delete"]
"""The type of a change in the cache."""


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A change of one object. `old` is None for an add, `new` for a delete; a delete's `old` is the last known
    state.
    """

    type: EventType
    key: ObjectKey
    old: Entry[T] | None
    new: Entry[T] | None
    initial: bool = False
    """Whether the event is part of the first list or of a resync. Work for such events has low priority."""
    watched: bool = False
    """Whether the server reported exactly this change. Otherwise the event may stand for several changes."""


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: msgspec.Raw | UnsetType = UNSET
    owner_references: msgspec.Raw | UnsetType = UNSET
    deletion_timestamp: str | None = None
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Document(msgspec.Struct, gc=False):
    metadata: _Metadata


class _AnnotatedMetadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _AnnotatedMetadata


# Created on import: msgspec cannot analyze the same class in two threads at the same time.
_decode_document: Final = msgspec.json.Decoder(_Document).decode
_decode_annotations: Final = msgspec.json.Decoder(_Annotated).decode
_read_labels: Final = msgspec.json.Decoder(dict[str, str] | None).decode
_read_owners: Final = msgspec.json.Decoder(tuple[Owner, ...] | None).decode


@lru_cache(maxsize=1024)
def _shared(text: str) -> str:
    """Return the same string object for equal strings that arrive together."""
    return text


def _decode_labels(data: bytes) -> Mapping[str, str]:
    labels: Mapping[str, str] | None = _read_labels(data)
    return {key: _shared(value) for key, value in labels.items()} if labels else {}


def _decode_owners(data: bytes) -> tuple[Owner, ...]:
    return tuple(
        Owner(_shared(each.api_version), _shared(each.kind), each.name, each.uid, each.controller)
        for each in _read_owners(data) or ()
    )


_NO_LABELS: Final[Mapping[str, str]] = {}


class _Shared(Generic[V]):
    """Decodes small parts that are equal in many documents. Equal parts share one value, which must not be changed."""

    _MANY: Final = 256
    """The maximum number of cached values. Lists are sorted by name, so similar documents arrive together."""

    def __init__(self, decode: Callable[[bytes], V]) -> None:
        self._decode = decode
        self._known: dict[bytes, V] = {}

    def value(self, raw: msgspec.Raw) -> V:
        data = bytes(raw)
        value = self._known.get(data)
        if value is None:
            if len(self._known) >= self._MANY:
                self._known.clear()
            value = self._known[data] = self._decode(data)
        return value


class EntryDecoder(Generic[T]):
    """Creates entries from the documents of one kind."""

    def __init__(self, kind: type[T], *, keep_managed_fields: bool, projection: Projection | None = None) -> None:
        self._kind = kind
        self._projection = projection
        self._keep_managed_fields = keep_managed_fields
        self._labels = _Shared[Mapping[str, str]](_decode_labels)
        self._owners = _Shared[tuple[Owner, ...]](_decode_owners)
        self._packer = Packer()

    def decode(
        self, raw: msgspec.Raw, held: Callable[[Any], Entry[T] | None] = lambda _: None, *, pack: bool = False
    ) -> Entry[T]:
        """Return the entry of a document: the held entry if it has the same version, else a new entry.

        Raises DecodeError if the metadata is missing or invalid.
        """
        try:
            metadata = _decode_document(raw).metadata
            version = int(metadata.resource_version or 0)
            namespace = metadata.namespace
            last = held((namespace or None, metadata.name))
            if last is not None and last.resource_version == version and last.uid == metadata.uid:
                return last
            key = (
                last.key if last is not None else ObjectKey(sys.intern(namespace) if namespace else None, metadata.name)
            )
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
                _NO_LABELS if isinstance(metadata.labels, UnsetType) else self._labels.value(metadata.labels),
                ()
                if isinstance(metadata.owner_references, UnsetType)
                else self._owners.value(metadata.owner_references),
                metadata.deletion_timestamp is not None,
                data,
                reference,
            )
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors too
            raise DecodeError(f"{self._kind.__api__.kind}: {error}: {bytes(raw)[:200]!r}") from error


def _without(data: bytes, managed_fields: bytes) -> bytes:
    """Return the document without its managedFields, if they are at the place where the API server writes them.

    That is without preceding spaces, and before any other occurrence of the same bytes. Otherwise the document is
    returned unchanged.
    """
    start = data.find(_MANAGED_FIELDS)
    end = start + len(_MANAGED_FIELDS) + len(managed_fields)
    if start < 0 or not data.startswith(managed_fields, start + len(_MANAGED_FIELDS)):
        return data
    if data[start - 1 : start] == b",":
        return data[: start - 1] + data[end:]
    return data[:start] + data[end + 1 :] if data[end : end + 1] == b"," else data[:start] + data[end:]


_ALWAYS: Final = ("apiVersion", "kind", "metadata")


class Projection:
    """Keeps the fields `only` of documents, including nested fields, and the fields that every object has.

    This saves memory.
    """

    def __init__(self, only: Iterable[str]) -> None:
        """Take paths such as `spec.nodeName`, with JSON names. Raises ConfigError for empty paths and parts."""
        tree: dict[str, Any] = {}
        for path in sorted((*_ALWAYS, *only)):
            *outer, last = path.split(".")
            if not all((*outer, last)):
                raise ConfigError(f'only: "{path}" is not a field; write it as in "spec.nodeName"')
            below: dict[str, Any] | None = tree
            for name in outer:
                below = below.setdefault(name, {}) if below is not None else None
            if below is not None:  # otherwise the whole parent is selected
                below[last] = None
        self._decode = msgspec.json.Decoder(_struct(tree)).decode
        self._encode = msgspec.json.Encoder().encode

    def __call__(self, document: bytes) -> bytes:
        """Return the document with the selected fields. Raises DecodeError if a parent is not an object."""
        try:
            return self._encode(self._decode(document))
        except msgspec.ValidationError as error:
            raise DecodeError(f"only: {error}; name the list itself, fields of its items cannot be selected") from error


def _struct(tree: dict[str, Any]) -> type[msgspec.Struct]:
    """Return a class with the fields of `tree`. Leaves keep their raw JSON."""
    fields = [
        (f"f{number}", _optional(below), msgspec.field(default=UNSET, name=name))
        for number, (name, below) in enumerate(tree.items())
    ]
    return msgspec.defstruct("Projected", fields, omit_defaults=True, gc=False)


def _optional(below: dict[str, Any] | None) -> Any:
    kind: Any = msgspec.Raw if below is None else Union[_struct(below), None]  # noqa: UP007 - created at run time
    return Union[kind, UnsetType]  # noqa: UP007
