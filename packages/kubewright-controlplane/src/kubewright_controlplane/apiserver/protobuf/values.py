"""Kubernetes types whose JSON form differs from their protobuf message.

Each has a decoder, from the bytes of the message to the JSON value, and an encoder back. If a decoder returns None,
the value is omitted.

Follows the JSON and protobuf methods of the Go types in k8s.io/apimachinery and k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from kubewright.machinery import time
from kubewright_controlplane.apiserver.protobuf import wire


class Codec(NamedTuple):
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def _fields(data: bytes) -> dict[int, int | bytes]:
    """Decode a small message of varints and byte strings, each field at most once, by number."""
    found: dict[int, int | bytes] = {}
    position = 0
    while position < len(data):
        tag, position = wire.read_varint(data, position)
        if tag & 7 == wire.VARINT:
            value, position = wire.read_varint(data, position)
            found[tag >> 3] = wire.signed(value)
        elif tag & 7 == wire.BYTES:
            size, position = wire.read_varint(data, position)
            if position + size > len(data):
                raise wire.Truncated
            found[tag >> 3] = data[position : position + size]
            position += size
        else:
            position = wire.skip(data, position, tag, len(data))
    return found


def _text(value: int | bytes) -> str:
    if isinstance(value, int):
        raise wire.Truncated
    return value.decode("utf-8", "replace")


def _integer(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise wire.Truncated
    return value


def _decode_quantity(data: bytes) -> str:
    return _text(_fields(data).get(1, b"")) or "0"


def _encode_quantity(value: str | float) -> bytes:
    return wire.tag(1, wire.BYTES) + wire.length_delimited(str(value).encode())


def _decode_int_or_string(data: bytes) -> int | str:
    fields = _fields(data)
    return _text(fields.get(3, b"")) if fields.get(1) else _integer(fields.get(2, 0))


def _encode_int_or_string(value: int | str) -> bytes:
    if isinstance(value, int):
        return b"\x08\x00" + wire.tag(2, wire.VARINT) + wire.varint(value) + b"\x1a\x00"
    return b"\x08\x01\x10\x00" + wire.tag(3, wire.BYTES) + wire.length_delimited(value.encode())


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(data: bytes) -> datetime:
    fields = _fields(data)
    micros = _integer(fields.get(2, 0)) // 1000
    return _EPOCH + timedelta(seconds=_integer(fields.get(1, 0)), microseconds=micros)


def _decode_time(data: bytes) -> str | None:
    """Go writes its zero time as an empty message, and as null in JSON."""
    return time.format(_moment(data)) if data else None


def _decode_micro_time(data: bytes) -> str | None:
    return time.format_micro(_moment(data)) if data else None


def _encode_time(value: str) -> bytes:
    since = time.truncate(time.parse(value)) - _EPOCH
    return _timestamp(since // timedelta(seconds=1), 0)


def _encode_micro_time(value: str) -> bytes:
    seconds, rest = divmod(time.parse(value) - _EPOCH, timedelta(seconds=1))
    return _timestamp(seconds, rest.microseconds * 1000)


def _timestamp(seconds: int, nanos: int) -> bytes:
    return wire.tag(1, wire.VARINT) + wire.varint(seconds) + wire.tag(2, wire.VARINT) + wire.varint(nanos)


def _decode_duration(data: bytes) -> str:
    nanoseconds = _integer(_fields(data).get(1, 0))
    return time.format_duration(timedelta(microseconds=nanoseconds / 1000))


def _encode_duration(value: str) -> bytes:
    nanoseconds = time.parse_duration(value) // timedelta(microseconds=1) * 1000
    return wire.tag(1, wire.VARINT) + wire.varint(nanoseconds)


def _decode_json(data: bytes) -> Any:
    """Decode a message with JSON in its field 1: FieldsV1, RawExtension, apiextensions' JSON."""
    raw = _fields(data).get(1, b"")
    return msgspec.json.decode(_text(raw)) if raw else None


def _encode_json(value: Any) -> bytes:
    return wire.tag(1, wire.BYTES) + wire.length_delimited(msgspec.json.encode(value))


def _decode_strings(data: bytes) -> list[str]:
    """Decode a message that consists of a list of strings, in field 1."""
    strings: list[str] = []
    position = 0
    while position < len(data):
        tag, position = wire.read_varint(data, position)
        if tag != 1 << 3 | wire.BYTES:
            position = wire.skip(data, position, tag, len(data))
            continue
        size, position = wire.read_varint(data, position)
        if position + size > len(data):
            raise wire.Truncated
        strings.append(_text(data[position : position + size]))
        position += size
    return strings


def _encode_strings(values: list[str]) -> bytes:
    return b"".join(wire.tag(1, wire.BYTES) + wire.length_delimited(value.encode()) for value in values)


def decode_bytes(data: bytes) -> str:
    """Decode a field of type bytes: base64 in JSON."""
    return base64.b64encode(data).decode()


def encode_bytes(value: str) -> bytes:
    return base64.b64decode(value, validate=True)


_JSON: Final = Codec(_decode_json, _encode_json)
_STRINGS: Final = Codec(_decode_strings, _encode_strings)

SPECIAL: Final = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": Codec(_decode_quantity, _encode_quantity),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": Codec(_decode_int_or_string, _encode_int_or_string),
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": Codec(_decode_time, _encode_time),
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": Codec(_decode_micro_time, _encode_micro_time),
    "k8s.io.apimachinery.pkg.apis.meta.v1.Duration": Codec(_decode_duration, _encode_duration),
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": _JSON,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _JSON,
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": _JSON,
    "k8s.io.api.authentication.v1.ExtraValue": _STRINGS,
    "k8s.io.api.authorization.v1.ExtraValue": _STRINGS,
    "k8s.io.api.certificates.v1.ExtraValue": _STRINGS,
    "k8s.io.apimachinery.pkg.apis.meta.v1.Verbs": _STRINGS,
}
"""By message name."""


UNIONS: Final = {
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "allows",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "jSONSchemas",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "property",
}
"""Messages that are, in JSON, either their field `schema`, an object, or the field named here, a boolean or a list."""


def union(kind: str, message: Codec) -> Codec:
    """Return the codec of one of UNIONS, from that of its message."""
    other = UNIONS[kind]

    def decode(data: bytes) -> Any:
        fields = message.decode(data)
        return fields.get("schema", fields.get(other, False if other == "allows" else None))

    def encode(value: Any) -> bytes:
        if not isinstance(value, dict):
            return message.encode({other: value})
        return message.encode({"schema": value, "allows": True} if other == "allows" else {"schema": value})

    return Codec(decode, encode)
