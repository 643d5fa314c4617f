"""Messages, compiled on first use from the table of their fields.

Decoding returns what Go's JSON encoder would make of the decoded struct, without the fields that it writes as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.protobuf import wire
from kubewright_controlplane.apiserver.protobuf.values import SPECIAL, UNIONS, Codec, decode_bytes, encode_bytes, union

Row = Sequence[Any]
"""A row of the table: number, JSON name, type, and cardinality of the field (`tools/extract/protobuf.py`)."""

# Cardinality of a field. Plain integers, because decoding compares them for every field of every object.
_UNLESS_ZERO: Final = 0
_ALWAYS: Final = 1
_REPEATED: Final = 2
_MAP: Final = 3
_INLINE: Final = 4
_PACKED: Final = 5
_OCCURS: Final = {"": _UNLESS_ZERO, "=": _ALWAYS, "*": _REPEATED, "{": _MAP, "+": _INLINE}

_BYTES: Final = wire.BYTES
_DOUBLE: Final = Struct("<d")


class _FieldDecoder(NamedTuple):
    """How to decode the field of one tag.

    A length-delimited value is decoded by `decode(content)`, or as a string if `decode` is None. Any other value is
    decoded by `decode(data, position)`, which returns the value and the position after it.
    """

    name: str
    occurs: int
    decode: Callable[..., Any] | None


class _FieldEncoder(NamedTuple):
    name: str
    occurs: int
    tag: bytes
    encode: Callable[[Any], bytes]


class Messages:
    """All messages of the table, by name."""

    def __init__(self, table: Mapping[str, Sequence[Row]]) -> None:
        self._table = table
        self._messages: dict[str, Message] = {}

    def __getitem__(self, name: str) -> Message:
        message = self._messages.get(name)
        if message is None:
            message = self._messages[name] = Message(self._table[name], self)
        return message

    def codec(self, kind: str) -> Codec:
        """Return how to decode and encode a length-delimited value."""
        if kind == "string":
            return Codec(_decode_string, str.encode)
        if kind == "bytes":
            return Codec(decode_bytes, encode_bytes)
        if kind in SPECIAL:
            return SPECIAL[kind]
        message = self[kind]
        plain = Codec(message.decode, message.encode)
        return union(kind, plain) if kind in UNIONS else plain


class Message:
    """One message: `decode` turns bytes into a dict, `encode` a dict into bytes. Any thread may call them."""

    def __init__(self, rows: Sequence[Row], messages: Messages) -> None:
        self._rows = rows
        self._messages = messages
        self._readers: dict[int, _FieldDecoder] = {}
        self._writers: list[_FieldEncoder] = []

    def decode(self, data: bytes) -> JSONObject:
        """Decode the fields in `data`. Raises IndexError or wire.Truncated if it ends too early."""
        if not self._writers:
            self._compile()
        out: JSONObject = {}
        readers, end, position = self._readers, len(data), 0
        while position < end:
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = wire.read_varint(data, position - 1)
            reader = readers.get(tag)
            if reader is None:
                position = wire.skip(data, position, tag, end)
                continue
            name, occurs, decode = reader
            value: Any
            if tag & 7 == _BYTES:
                size = data[position]
                position += 1
                if size > 0x7F:
                    size, position = wire.read_varint(data, position - 1)
                content = data[position : position + size]
                position += size
                if position > end:
                    raise wire.Truncated
                value = content.decode("utf-8", "replace") if decode is None else decode(content)
            else:
                assert decode is not None
                value, position = decode(data, position)
            if occurs == _UNLESS_ZERO:
                if value:
                    out[name] = value
            elif occurs == _ALWAYS:
                if value is not None:
                    out[name] = value
            elif occurs == _REPEATED:
                out.setdefault(name, []).append(value)
            elif occurs == _MAP:
                key, each = value
                out.setdefault(name, {})[key] = each
            elif occurs == _INLINE:
                out.update(value)
            else:
                out.setdefault(name, []).extend(value)
        return out

    def encode(self, obj: JSONObject) -> bytes:
        """Encode `obj` in the order of the field numbers. Unknown fields are omitted.

        Raises TypeError, AttributeError or ValueError for a value of the wrong type.
        """
        if not self._writers:
            self._compile()
        out = bytearray()
        for name, occurs, tag, encode in self._writers:
            if occurs == _INLINE:
                content = encode(obj)
                if content:
                    out += tag + wire.length_delimited(content)
                continue
            value = obj.get(name)
            if value is None:
                continue
            if occurs == _REPEATED:
                for each in value:
                    out += tag + encode(each)
            elif occurs == _MAP:
                for item in value.items():
                    out += tag + encode(item)
            else:
                out += tag + encode(value)
        return bytes(out)

    def _compile(self) -> None:
        fields = _Fields()
        for number, name, kind, label in self._rows:
            occurs = _OCCURS[label]
            if kind in _NUMBERS:
                fields.add_number(number, name, occurs, _NUMBERS[kind])
            elif occurs == _MAP:
                fields.add_length_delimited(number, name, occurs, _entry(self._messages.codec(kind)))
            elif occurs == _UNLESS_ZERO and kind not in ("string", "bytes"):
                # Go's omitempty never omits a struct.
                fields.add_length_delimited(number, name, _ALWAYS, self._messages.codec(kind))
            else:
                fields.add_length_delimited(number, name, occurs, self._messages.codec(kind))
        self._readers = fields.readers
        self._writers = fields.writers  # last, because other threads take them for the sign that all is compiled


class _Fields:
    """The fields of a message, while they are compiled."""

    def __init__(self) -> None:
        self.readers: dict[int, _FieldDecoder] = {}
        self.writers: list[_FieldEncoder] = []

    def add_length_delimited(self, number: int, name: str, occurs: int, codec: Codec) -> None:
        decode = None if codec.decode is _decode_string else codec.decode
        self.readers[number << 3 | _BYTES] = _FieldDecoder(name, occurs, decode)
        encode = codec.encode if occurs == _INLINE else _behind_size(codec.encode)
        self.writers.append(_FieldEncoder(name, occurs, wire.tag(number, wire.BYTES), encode))

    def add_number(self, number: int, name: str, occurs: int, kind: _NumberKind) -> None:
        self.readers[number << 3 | kind.wire_type] = _FieldDecoder(name, occurs, kind.read)
        if occurs == _REPEATED:  # the sender chooses whether it is packed
            self.readers[number << 3 | _BYTES] = _FieldDecoder(name, _PACKED, _unpack(kind))
        self.writers.append(_FieldEncoder(name, occurs, wire.tag(number, kind.wire_type), kind.encode))


class _NumberKind(NamedTuple):
    """A type whose values are not length-delimited."""

    wire_type: int
    read: Callable[[bytes, int], tuple[float, int]]
    encode: Callable[[Any], bytes]


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value, position = wire.read_varint(data, position)
    return wire.signed(value), position


def _read_bool(data: bytes, position: int) -> tuple[bool, int]:
    value, position = wire.read_varint(data, position)
    return value != 0, position


def _read_double(data: bytes, position: int) -> tuple[float, int]:
    if position + _DOUBLE.size > len(data):
        raise wire.Truncated
    return _DOUBLE.unpack_from(data, position)[0], position + _DOUBLE.size


def _unpack(kind: _NumberKind) -> Callable[[bytes], list[float]]:
    def decode(data: bytes) -> list[float]:
        values: list[float] = []
        position = 0
        while position < len(data):
            value, position = kind.read(data, position)
            values.append(value)
        return values

    return decode


_NUMBERS: Final = {
    "int": _NumberKind(wire.VARINT, _read_int, wire.varint),
    "bool": _NumberKind(wire.VARINT, _read_bool, wire.varint),
    "double": _NumberKind(wire.FIXED64, _read_double, _DOUBLE.pack),
}


def _decode_string(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _behind_size(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda value: wire.length_delimited(encode(value))


def _entry(codec: Codec) -> Codec:
    """Return an entry of a map as a message with the key, a string, in field 1 and the value in field 2."""

    def decode(data: bytes) -> tuple[str, Any]:
        fields = wire.read_length_delimited(data)
        return fields.get(1, b"").decode("utf-8", "replace"), codec.decode(fields.get(2, b""))

    def encode(item: tuple[str, Any]) -> bytes:
        key, value = item
        return b"\x0a" + wire.length_delimited(key.encode()) + b"\x12" + wire.length_delimited(codec.encode(value))

    return Codec(decode, encode)
