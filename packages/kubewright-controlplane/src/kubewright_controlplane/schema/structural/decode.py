"""Decodes a document as Go would: drops and reports unknown fields, rejects wrong types, normalizes values.

A decoder changes one node's value in place. It returns the paths of the unknown fields that it dropped, relative to
that value; None if there were none. Paths are built on the way out, so a valid document pays nothing for them.

Built-in kinds follow encoding/json with their Go structs. Custom kinds follow
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from kubewright.machinery import time
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONArray, JSONObject, is_array, is_object
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.schema import base64
from kubewright_controlplane.schema.node import NO_DEFAULT, ZEROES, Node, Special

Decoder: TypeAlias = Callable[[Any], list[str] | None]
_Converter: TypeAlias = Callable[[Any], Any]
_Field: TypeAlias = tuple[type | None, Decoder | None, _Converter | None, bool, str]
"""How to decode a field: the class of its value and the decoder for that class, or else a converter; whether an empty
value counts as absent; the Go type for error messages. It is a tuple because it is unpacked for each value.
"""

_CLASSES: Final = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}
_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_GO_KINDS: Final = {
    "array": ("slice", "[]interface {}"),
    "bool": ("bool", "bool"),
    "null": ("invalid", "<nil>"),
    "number": ("int64", "int64"),
    "object": ("map", "map[string]interface {}"),
    "string": ("string", "string"),
}
"""How Go calls the kind and the type of a decoded JSON value."""
_OBJECT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class WrongType(DecodeError):
    """A value has another type than its field. The message is that of decoding JSON."""

    def __init__(self, message: str, unconverted: str) -> None:
        super().__init__(message)
        self.unconverted = unconverted
        """The message for a document that a strategic merge patch made, which Go does not decode from JSON."""


class _TypeMismatch(Exception):
    """A value does not fit its Go type. Collects the names of the fields around it while it propagates."""

    def __init__(self, found: str, go_type: str) -> None:
        self.found = found
        self.go_type = go_type
        self.fields: list[str] = []
        self.struct = ""

    def __str__(self) -> str:
        if not self.fields:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.go_type}"
        place = ".".join((self.struct.rpartition(".")[2], *reversed(self.fields)))
        return f"json: cannot unmarshal {self.found} into Go struct field {place} of type {self.go_type}"

    @property
    def unconverted(self) -> str:
        """The message of a conversion between documents and structs."""
        kind, go_type = _GO_KINDS.get(self.found.partition(" ")[0], ("int64", "int64"))
        if self.go_type.startswith("map["):
            return f"cannot restore map from {kind}"
        if self.go_type.startswith("[]"):
            return f"cannot restore slice from {kind}"
        if "." in self.go_type:
            return f"cannot restore struct from: {kind}"
        if kind in ("bool", "map", "slice", "string") or self.go_type == "bool":
            return f"unrecognized type: {self.go_type}"
        return f"cannot convert {go_type} to {self.go_type}"


def compile_decoder(root: Node) -> Decoder:
    """Compile the decoder of a whole document. It raises DecodeError with Go's message for a wrong type."""
    walk = _Compiler().decoder(root)

    def decode(obj: Any) -> list[str] | None:
        try:
            return walk(obj)
        except _TypeMismatch as error:
            raise WrongType(str(error), error.unconverted) from None
        except _MalformedText as error:
            raise DecodeError(str(error)) from None

    return decode


class _MalformedText(ValueError):
    """A string does not have the text form of its type."""


class _Compiler:
    def __init__(self) -> None:
        self._structs: dict[int, Decoder] = {}

    def decoder(self, node: Node) -> Decoder:
        """Compile the decoder of an object or array. The decoder of any other node does nothing."""
        if not node.builtin:
            return self._custom(node)
        if node.special or node.type not in ("object", "array"):
            return _do_nothing
        if node.items is not None:
            return self._array(node, node.items)
        if node.values is not None:
            return self._map(node, node.values)
        return self._struct(node)

    def _struct(self, node: Node) -> Decoder:
        known = self._structs.get(id(node.properties))
        if known is not None:
            return known
        fields: dict[str, _Field] = {}
        decode = _struct_decoder(node.go_type, fields)
        self._structs[id(node.properties)] = decode
        for key, child in node.properties.items():
            # An empty managedFields asks to remove all of them.
            fields[key] = self._field(child, optional=key not in node.required and key != "managedFields")
        return decode

    def _field(self, node: Node, *, optional: bool) -> _Field:
        if node.special == "any":
            convert = _same if node.alternative is None else self._schema_or(node, node.alternative)
            return (None, None, convert, False, node.go_type)
        if node.special:
            return (None, None, _CONVERTERS[node.special], False, node.go_type)
        if node.type == "number":
            return (None, None, _number, False, node.go_type)
        has_empty_form = node.items is not None or node.is_map
        empty_is_absent = _zero_is_absent(node) or (optional and has_empty_form)
        walk = _ranged(node.go_type) if node.type == "integer" else None
        if node.type in ("object", "array"):
            walk = self.decoder(node)
        return (_CLASSES[node.type], walk, None, empty_is_absent, node.go_type)

    def _schema_or(self, node: Node, schema: Node) -> _Converter:
        """Compile the converter of a JSON schema, or of what may be in its place. Go decodes such a schema apart, so
        unknown fields in it are dropped silently.
        """
        walk = self.decoder(schema)
        allows_bool, allows_texts = node.go_type.endswith("OrBool"), node.go_type.endswith("OrStringArray")

        def convert(value: Any) -> Any:
            if is_object(value):
                walk(value)
            elif allows_bool:
                if value.__class__ is not bool:
                    raise _MalformedText("boolean or JSON schema expected")
            elif not is_array(value):
                return None
            else:
                for item in value:
                    if not allows_texts:
                        walk(item)
                    elif item.__class__ is not str:
                        raise _TypeMismatch(json_kind(item), "string")
            return value

        return convert

    def _array(self, node: Node, items: Node) -> Decoder:
        expected, walk, convert, _, item_type = self._field(items, optional=False)
        go_type, zero = node.go_type, _zero(items)

        def decode(value: JSONArray) -> list[str] | None:
            if value.__class__ is not list:
                raise _TypeMismatch(json_kind(value), go_type)
            unknown: list[str] | None = None
            for index, item in enumerate(value):
                if item.__class__ is expected:
                    found = walk(item) if walk is not None else None
                    if found:
                        unknown = _extended(unknown, [f"[{index}]{_joined(path)}" for path in found])
                elif item is None:
                    value[index] = zero()
                elif convert is not None:
                    value[index] = convert(item)
                else:
                    raise _TypeMismatch(_found(item, item_type), item_type)
            return unknown

        return decode

    def _map(self, node: Node, values: Node) -> Decoder:
        expected, walk, convert, _, value_type = self._field(values, optional=False)
        go_type, zero = node.go_type, _zero(values)

        def decode(value: JSONObject) -> list[str] | None:
            if value.__class__ is not dict:
                raise _TypeMismatch(json_kind(value), go_type)
            unknown: list[str] | None = None
            for key, item in value.items():
                if item.__class__ is expected:
                    found = walk(item) if walk is not None else None
                    if found:
                        unknown = _extended(unknown, [f"{key}{_joined(path)}" for path in found])
                elif item is None:
                    value[key] = zero()
                elif convert is not None:
                    value[key] = convert(item)
                else:
                    raise _TypeMismatch(_found(item, value_type), value_type)
            return unknown

        return decode

    def _custom(self, node: Node, *, preserve: bool = False) -> Decoder:
        """Compile a decoder that only prunes. The values of a custom kind are checked by its validation.

        With `preserve`, unknown fields are preserved because those of the list around are.
        """
        preserve = preserve or node.preserve
        children = {key: self.decoder(child) for key, child in node.properties.items()}
        typed = frozenset(key for key, child in node.properties.items() if child.builtin and child.properties)
        values = self.decoder(node.values) if node.values is not None else None
        items: Decoder | None = None
        if node.items is not None:
            items = self._custom(node.items, preserve=True) if preserve else self.decoder(node.items)
        free = _OBJECT_FIELDS - children.keys() if node.embedded else frozenset[str]()
        return _custom_decoder(children, values, items, free, typed, preserve=preserve)


def _extended(found: list[str] | None, more: list[str]) -> list[str]:
    """Return both lists as one; None is an empty one, which most documents never need."""
    if found is None:
        return more
    found += more
    return found


def _struct_decoder(go_type: str, fields: dict[str, _Field]) -> Decoder:
    def decode(value: JSONObject) -> list[str] | None:
        if value.__class__ is not dict:
            raise _TypeMismatch(json_kind(value), go_type)
        unknown: list[str] | None = None
        dropped: list[str] | None = None
        key = ""
        try:
            for key, item in value.items():
                field = fields.get(key)
                if field is None:
                    unknown = _extended(unknown, [key])
                    dropped = _extended(dropped, [key])
                    continue
                expected, walk, convert, empty_is_absent, field_type = field
                if item.__class__ is expected:
                    if empty_is_absent and not item:
                        dropped = _extended(dropped, [key])
                    elif walk is not None and (found := walk(item)):
                        unknown = _extended(unknown, [f"{key}{_joined(path)}" for path in found])
                elif item is None:
                    dropped = _extended(dropped, [key])
                elif convert is not None:
                    value[key] = convert(item)
                else:
                    raise _TypeMismatch(_found(item, field_type), field_type)
        except _TypeMismatch as error:
            error.struct = error.struct or go_type
            error.fields.append(key)
            raise
        if dropped is not None:
            for key in dropped:
                del value[key]
        return unknown

    return decode


def _custom_decoder(
    children: dict[str, Decoder],
    values: Decoder | None,
    items: Decoder | None,
    free: frozenset[str],
    typed: frozenset[str],
    *,
    preserve: bool,
) -> Decoder:
    def decode(value: Any) -> list[str] | None:
        unknown: list[str] = []
        if value.__class__ is dict:
            dropped: list[str] = []
            for key, item in value.items():
                walk = children.get(key, values)
                if walk is None:
                    if not preserve and key not in free:
                        dropped.append(key)
                elif (item.__class__ is dict or item.__class__ is list or key in typed) and (found := walk(item)):
                    unknown += [f"{key}{_joined(path)}" for path in found]
            for key in dropped:
                del value[key]
            unknown += dropped
        elif value.__class__ is list and items is not None:
            for index, item in enumerate(value):
                if (item.__class__ is dict or item.__class__ is list) and (found := items(item)):
                    unknown += [f"[{index}]{_joined(path)}" for path in found]
        return unknown or None

    return decode


def _zero_is_absent(node: Node) -> bool:
    """Return whether an explicit zero counts as absent, and so is dropped or replaced by the default."""
    return node.zero == "omitted" or (node.zero == "written" and node.default is not NO_DEFAULT)


def _zero(node: Node) -> Callable[[], Any]:
    """Return a function that makes what Go decodes from a null in a list or a map."""
    if node.special == "any":
        return lambda: None
    if node.special == "quantity":
        return lambda: "0"
    if node.type == "array":
        return list
    value = ZEROES.get(node.type)
    return dict if value is None else lambda: value


def _joined(path: str) -> str:
    return path if path.startswith("[") else f".{path}"


def _do_nothing(value: Any) -> None:
    """Change nothing: the decoder of a node without fields."""


def json_kind(value: object) -> str:
    """Return what Go's decoder calls the type of a value that does not fit."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


def _found(value: object, go_type: str) -> str:
    """Return what Go's decoder found instead of a `go_type`: a number with its value, if only an integer fits."""
    return f"number {value}" if isinstance(value, float) and go_type in _RANGES else json_kind(value)


def _ranged(go_type: str) -> Decoder:
    low, high = _RANGES.get(go_type, _RANGES["int64"])

    def check(value: int) -> None:
        if not low <= value <= high:
            raise _TypeMismatch(f"number {value}", go_type)

    return check


def _same(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    if value.__class__ is int or value.__class__ is float:
        return value
    raise _TypeMismatch(json_kind(value), "float64")


def _quantity(value: Any) -> str:
    if value.__class__ is int or value.__class__ is float:
        return _canonical_quantity(str(value))
    return _canonical_quantity(value if value.__class__ is str else "")


@lru_cache(maxsize=1024)  # a cluster has few different quantities
def _canonical_quantity(text: str) -> str:
    try:
        return str(Quantity.parse(text))
    except ValueError as error:
        raise _MalformedText(str(error)) from None


def _int_or_string(value: Any) -> int | str:
    if value.__class__ is int:
        low, high = _RANGES["int32"]
        if low <= value <= high:
            return int(value)
        raise _MalformedText(f"json: cannot unmarshal number {value} into Go value of type int32")
    if value.__class__ is str:
        return str(value)
    raise _MalformedText(f"json: cannot unmarshal {json_kind(value)} into Go value of type int32")


def _time(value: Any) -> str:
    return _canonical_time(_text(value))


@lru_cache(maxsize=1024)  # every update of an object contains the same times
def _canonical_time(text: str) -> str:
    try:
        return time.format(time.parse(text))
    except ValueError:
        raise _MalformedText(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None


def _micro_time(value: Any) -> str:
    text = _text(value)
    try:
        return time.format_micro(time.parse(text))
    except ValueError:
        raise _MalformedText(
            f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{text}" as "2006"'
        ) from None


def _duration(value: Any) -> str:
    text = _text(value)
    try:
        return time.format_duration(time.parse_duration(text))
    except ValueError as error:
        raise _MalformedText(str(error)) from None


def _bytes(value: Any) -> str:
    try:
        return base64.canonical(_text(value))
    except ValueError as error:
        raise _MalformedText(str(error)) from None


def _text(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    raise _MalformedText(f"json: cannot unmarshal {json_kind(value)} into Go value of type string")


_CONVERTERS: Final[dict[Special, _Converter]] = {
    "bytes": _bytes,
    "duration": _duration,
    "int-or-string": _int_or_string,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "time": _time,
}
