"""Compares the answer to a write with what was sent.

The API server may store something else: it adds defaults, admission webhooks change objects, quantities get another
form, and a CRD's schema removes fields.

Most answers show what was sent: then the two objects are equal as their class reads them. Otherwise the documents are
compared. A field that the class does not declare can be neither sent nor read with it, so its value does not matter.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from kubewright.cache._entry import Entry
from kubewright.client._patch import JSONPatch
from kubewright.client._write import Answer, WriteCall
from kubewright.machinery.json import JSONArray, JSONObject, equal, is_array, is_object, read_object
from kubewright.models import Object

_ABSENT: Final = object()
_WITH_AN_OBJECT: Final = ("create", "update", "apply", "patch")
"""The verbs whose answer is the object."""

_Fields: TypeAlias = dict[str, Raw]


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    """The metadata that a write can change. The server sets the rest, or takes it from the path."""

    labels: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    owner_references: Raw | UnsetType = UNSET
    finalizers: Raw | UnsetType = UNSET


class _Operation(msgspec.Struct, gc=False):
    """An operation of a JSON patch."""

    op: str
    path: str
    value: Any = _ABSENT


# Created on import: msgspec cannot analyze the same class in two threads at the same time.
_read_fields: Final = msgspec.json.Decoder(_Fields).decode
_read_metadata: Final = msgspec.json.Decoder(_Metadata).decode
_read_operations: Final = msgspec.json.Decoder(list[_Operation]).decode
_read: Final = msgspec.json.Decoder().decode


def is_as_sent(call: WriteCall[Any], before: Entry[Any] | None, answer: Answer[Any]) -> bool:
    """Return whether `answer` has what `call` sent, and otherwise only what the object had before.

    The metadata that the server sets is left out. Returns False also where this is not known: for patches other than
    JSON patches of the status, for deletes, and for objects that are being deleted.
    """
    if call.verb not in _WITH_AN_OBJECT:
        return False  # the answer may be a Status
    obj = answer.decode()
    if obj.metadata.deletion_timestamp is not None:
        return False
    if call.verb == "patch":
        if call.subresource != "status" or call.content_type != JSONPatch.content_type:
            return False
        is_same = call.sent is not None and equal(getattr(obj, "status", None), call.sent)
        return is_same or _is_patched(_read_operations(call.body), read_object(answer.data))
    if call.subresource:
        return False
    return (isinstance(call.sent, Object) and _is_equal(obj, call.sent)) or _is_made(call.body, before, answer.data)


def _is_equal(obj: Object, sent: Object) -> bool:
    """Return whether the class of two objects shows no difference, apart from the metadata that the server sets."""
    meta, stated = obj.metadata, sent.metadata
    if (
        meta.owner_references != stated.owner_references
        or meta.labels != stated.labels
        or meta.annotations != stated.annotations
        or meta.finalizers != stated.finalizers
    ):
        return False
    for name in obj.__struct_fields__:
        if name != "metadata" and not equal(getattr(obj, name), getattr(sent, name)):
            return False
    return True


def _is_made(body: bytes, before: Entry[Any] | None, answer: bytes) -> bool:
    """Return whether the document `answer` has all of `body`, and nothing else that the object did not have before."""
    found, sent = _read_fields(answer), _read_fields(body)
    old = _read_fields(before.data) if before is not None else {}
    metadata, stated, previous = _metadata_of(found), _metadata_of(sent), _metadata_of(old)
    return _are_made_of(metadata, stated, previous) and _are_made_of(found, sent, old)


def _metadata_of(document: _Fields) -> _Fields:
    """Remove the metadata from a document. Returns the part that a write can change."""
    metadata = document.pop("metadata", None)
    if metadata is None:
        return {}
    fields = msgspec.structs.asdict(_read_metadata(metadata))
    return {key: value for key, value in fields.items() if value is not UNSET}


def _are_made_of(found: _Fields, sent: _Fields, old: _Fields) -> bool:
    """Return whether `found` has all fields of `sent`, and nothing else that `old` does not have.

    Most fields are the same bytes, which need no decoding.
    """
    if not sent.keys() <= found.keys():
        return False
    for key, value in found.items():
        known = sent.get(key)
        if known is None:
            known = old.get(key)
            if known is None or not (value == known or equal(_read(value), _read(known))):
                return False
        elif value != known and not _is_made_of(_read(value), _read(known), _read(old[key]) if key in old else _ABSENT):
            return False
    return True


def _is_made_of(found: Any, sent: Any, old: Any) -> bool:
    """Return whether `found` has all of `sent`, and nothing else that `old` does not have."""
    if sent is _ABSENT:
        return old is not _ABSENT and equal(found, old)
    if is_object(found) and is_object(sent):
        known: JSONObject = old if is_object(old) else {}
        return sent.keys() <= found.keys() and all(
            _is_made_of(value, sent.get(key, _ABSENT), known.get(key, _ABSENT)) for key, value in found.items()
        )
    if is_array(found) and is_array(sent) and len(found) == len(sent):
        items: JSONArray = old if is_array(old) and len(old) == len(found) else [_ABSENT] * len(found)
        return all(map(_is_made_of, found, sent, items))
    return equal(found, sent)


def _is_patched(operations: list[_Operation], document: JSONObject) -> bool:
    """Return whether the document has the values that the operations of a JSON patch set."""
    for operation in {each.path: each for each in operations if each.op != "test"}.values():
        value = _at(document, operation.path)
        if operation.op == "remove":
            if value is not _ABSENT:
                return False
        elif operation.op not in ("add", "replace") or not equal(value, operation.value):
            return False
    return True


def _at(document: Any, path: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901) through objects; absent if a list is on the way."""
    for part in path.split("/")[1:]:
        if not is_object(document):
            return _ABSENT
        name = part.replace("~1", "/").replace("~0", "~") if "~" in part else part
        document = document.get(name, _ABSENT)
    return document
