"""Messages, as the table of their fields describes them: compiled when first used, then read and written.

Decoding gives what Go's JSON encoder would make of the decoded struct, but leaves out what that writes as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from kubewright.apiserver.protobuf import wire
from kubewright.apiserver.protobuf.values import SPECIAL, UNIONS, Codec, decode_bytes, encode_bytes, union
from kubewright.machinery.json import JSONObject

Row = Sequence[Any]
"""A line of the table: number, name in JSON, type, and how the field occurs (`tools/extract/protobuf.py`)."""

# How a field occurs. Plain integers: decoding compares them for every field of every object.
_UNLESS_ZERO: Final = 0
_ALWAYS: Final = 1
_REPEATED: Final = 2
_MAP: Final = 3
_INLINE: Final = 4
_PACKED: Final = 5
_OCCURS: Final = {"": _UNLESS_ZERO, "=": _ALWAYS, "*": _REPEATED, "{": _MAP, "+": _INLINE}

_DOUBLE: Final = Struct("<d")
_NUMBERS: Final = {"int": wire.VARINT, "bool": wire.VARINT, "double": wire.FIXED64}
"""Types whose values have no length before them, and their wire types."""


class _Sized(NamedTuple):
    """A field whose value has its length before it. Without `decode` it is a string."""

    name: str
    occurs: int
    decode: Callable[[bytes], Any] | None


class _Number(NamedTuple):
    name: str
    occurs: int
    type: str


class _Writer(NamedTuple):
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
        """How to read and write a value that has its length before it."""
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
    """One message: `decode` its bytes into a dict, `encode` a dict into its bytes."""

    def __init__(self, rows: Sequence[Row], messages: Messages) -> None:
        self._rows = rows
        self._messages = messages
        self._sized: dict[int, _Sized] = {}
        self._numbers: dict[int, _Number] = {}
        self._writers: list[_Writer] = []

    def decode(self, data: bytes) -> JSONObject:
        """The fields in `data`. Raises IndexError or wire.Truncated where it ends too early."""
        if not self._writers:
            self._compile()
        out: JSONObject = {}
        sized, end, position = self._sized, len(data), 0
        while position < end:
            tag = data[position]
            position += 1
            if tag > 0x7F:
                tag, position = wire.read_varint(data, position - 1)
            field = sized.get(tag)
            if field is None:
                position = self._decode_number(data, position, tag, out)
                continue
            size = data[position]
            position += 1
            if size > 0x7F:
                size, position = wire.read_varint(data, position - 1)
            stop = position + size
            if stop > end:
                raise wire.Truncated
            name, occurs, decode = field
            content = data[position:stop]
            value: Any = content.decode("utf-8", "replace") if decode is None else decode(content)
            position = stop
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
        """`obj` in the order of the field numbers; what the message does not know is left out.

        A value of the wrong type raises TypeError, AttributeError or ValueError.
        """
        if not self._writers:
            self._compile()
        out = bytearray()
        for name, occurs, tag, encode in self._writers:
            if occurs == _INLINE:
                content = encode(obj)
                if content:
                    out += tag + wire.sized(content)
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

    def _decode_number(self, data: bytes, position: int, tag: int, out: JSONObject) -> int:
        """Read a number, or skip a field that is not known; the position after it."""
        field = self._numbers.get(tag)
        if field is None:
            return wire.skip(data, position, tag, len(data))
        value, position = _read_number(data, position, field.type)
        if field.occurs == _REPEATED:
            out.setdefault(field.name, []).append(value)
        elif value or field.occurs == _ALWAYS:
            out[field.name] = value
        return position

    def _compile(self) -> None:
        for number, name, kind, label in self._rows:
            occurs = _OCCURS[label]
            if kind in _NUMBERS:
                self._add_number(number, name, kind, occurs)
            elif occurs == _MAP:
                self._add_sized(number, name, occurs, _entry(self._messages.codec(kind)))
            elif occurs == _UNLESS_ZERO and kind not in ("string", "bytes"):
                # Go's omitempty never leaves out a struct.
                self._add_sized(number, name, _ALWAYS, self._messages.codec(kind))
            else:
                self._add_sized(number, name, occurs, self._messages.codec(kind))

    def _add_sized(self, number: int, name: str, occurs: int, codec: Codec) -> None:
        decode = None if codec.decode is _decode_string else codec.decode
        self._sized[number << 3 | wire.BYTES] = _Sized(name, occurs, decode)
        encode = codec.encode if occurs == _INLINE else _behind_size(codec.encode)
        self._writers.append(_Writer(name, occurs, wire.tag(number, wire.BYTES), encode))

    def _add_number(self, number: int, name: str, kind: str, occurs: int) -> None:
        self._numbers[number << 3 | _NUMBERS[kind]] = _Number(name, occurs, kind)
        if occurs == _REPEATED:  # packed or not is the writer's choice
            self._sized[number << 3 | wire.BYTES] = _Sized(name, _PACKED, _unpack(kind))
        self._writers.append(_Writer(name, occurs, wire.tag(number, _NUMBERS[kind]), _ENCODE_NUMBER[kind]))


def _read_number(data: bytes, position: int, kind: str) -> tuple[float, int]:
    if kind == "double":
        if position + 8 > len(data):
            raise wire.Truncated
        return _DOUBLE.unpack_from(data, position)[0], position + 8
    value = data[position]
    if value < 0x80:
        position += 1
    else:
        value, position = wire.read_varint(data, position)
        value = wire.signed(value)
    return (bool(value) if kind == "bool" else value), position


def _unpack(kind: str) -> Callable[[bytes], list[float]]:
    def decode(data: bytes) -> list[float]:
        values: list[float] = []
        position = 0
        while position < len(data):
            value, position = _read_number(data, position, kind)
            values.append(value)
        return values

    return decode


_ENCODE_NUMBER: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "int": wire.varint,
    "bool": wire.varint,
    "double": _DOUBLE.pack,
}


def _decode_string(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _behind_size(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda value: wire.sized(encode(value))


def _entry(codec: Codec) -> Codec:
    """An entry of a map: a message with the key, a string, in field 1 and the value in field 2."""

    def decode(data: bytes) -> tuple[str, Any]:
        fields = wire.read_sized(data)
        return fields.get(1, b"").decode("utf-8", "replace"), codec.decode(fields.get(2, b""))

    def encode(item: tuple[str, Any]) -> bytes:
        key, value = item
        return b"\x0a" + wire.sized(key.encode()) + b"\x12" + wire.sized(codec.encode(value))

    return Codec(decode, encode)
