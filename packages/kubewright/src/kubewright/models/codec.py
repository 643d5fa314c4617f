"""Converts objects from and to JSON.

Decoding accepts `null` for an empty list or map, as Go writes it. An object that was decoded from bytes keeps them, so
`encode_update` preserves fields that its class does not know. Encoding writes `apiVersion` and `kind` first.
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
    """Decode an object of kind `cls`. The object keeps a reference to `data`. Raises DecodeError."""
    try:
        obj: T = (_decoders.get(cls) or _decoder(cls)).decode(data)
    except msgspec.ValidationError:
        obj = from_dict(cls, _document(cls, data))
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError(f"{cls.__name__}: not JSON: {error}") from error
    vars(obj)[_SOURCE] = data
    return obj


def from_dict(cls: type[T], document: JSONObject) -> T:
    """Convert a plain document to an object of kind `cls`. Raises DecodeError."""
    api_version = document.get("apiVersion", cls.__api__.api_version)
    if api_version != cls.__api__.api_version:
        raise DecodeError(f'{_name(cls, document)}: apiVersion is "{api_version}", not "{cls.__api__.api_version}"')
    try:
        return _decoder(cls).decode(msgspec.json.encode(tolerance.normalized(document, cls)))
    except msgspec.ValidationError as error:
        raise DecodeError(f"{_name(cls, document)}: {_error_text(str(error))}") from error


def encode(obj: Object) -> bytes:
    """Encode `obj`, for a create or an apply."""
    return _head(type(obj)) + values.encode(obj)[1:]


def encode_update(obj: Object) -> bytes:
    """Encode `obj` for an update: the document it was decoded from, with the changes since then.

    Fields that the class does not know are preserved at every depth. An object that was not decoded from bytes is
    encoded as by `encode`.
    """
    source = decoded_from(obj)
    if not source:
        return encode(obj)
    cls = type(obj)
    return msgspec.json.encode(merge.changed(_document(cls, source), decode(cls, source), obj))


def decoded_from(obj: Object) -> bytes:
    """Return the bytes that `obj` was decoded from; b"" if it was not."""
    source: bytes = vars(obj).get(_SOURCE, b"")
    return source


def document(obj: Object) -> JSONObject:
    """Return the document that `obj` was decoded from, unknown fields included; otherwise the same as `to_dict`."""
    source = decoded_from(obj)
    return _document(type(obj), source) if source else to_dict(obj)


def to_dict(obj: Object) -> JSONObject:
    """Convert `obj` to a plain document."""
    return {"apiVersion": obj.api_version, **plain(obj)}


def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    decoder: msgspec.json.Decoder[T] | None = _decoders.get(cls)
    if decoder is None:
        with _one_at_a_time:
            decoder = _decoders[cls] = msgspec.json.Decoder(cls, dec_hook=from_json)
    return decoder


@cache
def _head(cls: type[Object]) -> bytes:
    """Return the start of a document; msgspec writes the kind next."""
    return b'{"apiVersion":"%s",' % cls.__api__.api_version.encode()


def _document(cls: type[Object], data: bytes) -> JSONObject:
    try:
        return read_object(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError(f"{cls.__name__}: not a JSON object: {error}") from error


_decoders: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
_one_at_a_time: Final = Lock()
"""msgspec stores information on a class while it still collects it. A second thread that builds a decoder for a class
with the same parts would use incomplete information, and crash the process."""
_FAULT: Final = r"(?P<what>.*) - at `(?P<key>key in )?\$(?P<path>.*)`"


def _error_text(error: str) -> str:
    """Rewrite a message of msgspec to start with the field: `spec.replicas: expected int, got str`."""
    found = re.fullmatch(_FAULT, error, re.DOTALL)
    if found is None:
        return error
    what = found["what"].replace("`", "")
    return f"{found['path'].lstrip('.')}: {what[:1].lower()}{what[1:]}"


def _name(cls: type[Object], document: JSONObject) -> str:
    metadata = document.get("metadata")
    if not is_object(metadata) or "name" not in metadata:
        return cls.__name__
    parts = (metadata.get("namespace"), metadata["name"])
    return f'{cls.__api__.kind} "{"/".join(str(each) for each in parts if each)}"'
