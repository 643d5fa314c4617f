"""Objects from and to JSON.

Decoding tolerates `null` where Go writes it for an empty list or map. An object that was decoded from bytes remembers
them, so that `encode_update` keeps what its class does not know. Encoding puts `apiVersion` and `kind` first.
"""

from __future__ import annotations

import re
from functools import cache
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONObject, is_object, read_object
from kubewright.models import _merge as merge
from kubewright.models import _tolerance as tolerance
from kubewright.models import _values as values
from kubewright.models._resource import Object
from kubewright.models._values import from_json, plain

T = TypeVar("T", bound=Object)

_SOURCE: Final = "decoded_from"


def decode(cls: type[T], data: bytes) -> T:
    """Read an object of kind `cls`; `data` is kept with it, not copied. Raises DecodeError."""
    try:
        obj: T = (_decoders.get(cls) or _decoder(cls)).decode(data)
    except msgspec.ValidationError:
        obj = from_dict(cls, _document(cls, data))
    except msgspec.DecodeError as fault:
        raise DecodeError(f"{cls.__name__}: not JSON: {fault}") from fault
    vars(obj)[_SOURCE] = data
    return obj


def from_dict(cls: type[T], document: JSONObject) -> T:
    """Read an object of kind `cls` from a plain document. Raises DecodeError."""
    api_version = document.get("apiVersion", cls.__api__.api_version)
    if api_version != cls.__api__.api_version:
        raise DecodeError(f'{_name(cls, document)}: apiVersion is "{api_version}", not "{cls.__api__.api_version}"')
    try:
        return _decoder(cls).decode(msgspec.json.encode(tolerance.mended(document, cls)))
    except msgspec.ValidationError as fault:
        raise DecodeError(f"{_name(cls, document)}: {_explained(str(fault))}") from fault


def encode(obj: Object) -> bytes:
    """Write what `obj` says, for a create or an apply."""
    return _head(type(obj)) + values.encode(obj)[1:]


def encode_update(obj: Object) -> bytes:
    """Write `obj` for an update: the document it was decoded from, with what was changed since then changed in it.

    Fields that the class does not know stay, at every depth. An object that was not decoded from bytes is written as
    `encode` does.
    """
    source = decoded_from(obj)
    if not source:
        return encode(obj)
    cls = type(obj)
    return msgspec.json.encode(merge.changed(_document(cls, source), decode(cls, source), obj))


def decoded_from(obj: Object) -> bytes:
    """The bytes that `obj` was decoded from; none for one that was not."""
    source: bytes = vars(obj).get(_SOURCE, b"")
    return source


def document(obj: Object) -> JSONObject:
    """The document that `obj` was decoded from, with what its class does not know; what it says if it was not."""
    source = decoded_from(obj)
    return _document(type(obj), source) if source else to_dict(obj)


def to_dict(obj: Object) -> JSONObject:
    """What `obj` says, as a plain document."""
    return {"apiVersion": obj.api_version, **plain(obj)}


def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    decoder: msgspec.json.Decoder[T] | None = _decoders.get(cls)
    if decoder is None:
        with _one_at_a_time:
            decoder = _decoders[cls] = msgspec.json.Decoder(cls, dec_hook=from_json)
    return decoder


@cache
def _head(cls: type[Object]) -> bytes:
    """The start of a document; the kind, which msgspec writes first, follows."""
    return b'{"apiVersion":"%s",' % cls.__api__.api_version.encode()


def _document(cls: type[Object], data: bytes) -> JSONObject:
    try:
        return read_object(data)
    except msgspec.DecodeError as fault:
        raise DecodeError(f"{cls.__name__}: not a JSON object: {fault}") from fault


_decoders: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
_one_at_a_time: Final = Lock()
"""msgspec keeps what it learns of a class on the class while it still learns it: a second thread that builds a decoder
for a class with the same parts gets one that is half made, and crashes the process."""
_FAULT: Final = re.compile(r"(?P<what>.*) - at `(?P<key>key in )?\$(?P<path>.*)`", re.DOTALL)


def _explained(fault: str) -> str:
    """msgspec's message with the field first and in our spelling: `spec.replicas: expected int, got str`."""
    found = _FAULT.fullmatch(fault)
    if found is None:
        return fault
    what = found["what"].replace("`", "")
    return f"{found['path'].lstrip('.')}: {what[:1].lower()}{what[1:]}"


def _name(cls: type[Object], document: JSONObject) -> str:
    metadata = document.get("metadata")
    if not is_object(metadata) or "name" not in metadata:
        return cls.__name__
    parts = (metadata.get("namespace"), metadata["name"])
    return f'{cls.__api__.kind} "{"/".join(str(each) for each in parts if each)}"'
