"""Sprig's functions of JSON, Base64 and Base32, and `toYaml`."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from kubewright.machinery import yaml
from kubewright.templates._functions import Function, f
from kubewright.templates._strconv import decoded, encoded, format_float, valid
from kubewright.templates._values import NIL_TYPES, FunctionError, Object, reserve, spend, spend_on

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\u2028\u2029\ud800-\udfff]')
_ESCAPED_HTML: Final = re.compile(r'["\\\x00-\x1f\u2028\u2029\ud800-\udfff<>&]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


# ---- JSON


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if character in _SHORT:
        return _SHORT[character]
    if "\ud800" <= character <= "\udfff":
        return "\\ufffd"
    return f"\\u{ord(character):04x}"


def _string(text: str, html: bool) -> str:
    pattern = _ESCAPED_HTML if html else _ESCAPED
    return f'"{pattern.sub(_escape, text)}"'


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise FunctionError(f"JSON has no number {value}")
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        return re.sub(r"e-0(\d)$", r"e-\1", format_float(value, "e"))
    return format_float(value, "f")


class _Writer:
    """Writer of JSON, with or without line breaks."""

    def __init__(self, *, html: bool, indent: str = "") -> None:
        self._html = html
        self._indent = indent

    def text(self, value: Any, line: str = "\n") -> str:
        """Return a value as JSON. `line` is a line break with the indentation of the value."""
        if isinstance(value, str):
            return _string(value, self._html)
        if value is None or type(value) in NIL_TYPES:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return _number(value)
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, complex):
            raise FunctionError("JSON has no complex numbers")
        return self._container(value, line)

    def _container(self, value: Any, line: str) -> str:
        if isinstance(value, Object):
            return self.text(value.json(), line)
        spend(1 + len(value))
        inner = line + self._indent
        if isinstance(value, dict):
            colon = ": " if self._indent else ":"
            items = [f"{_string(key, self._html)}{colon}{self.text(value[key], inner)}" for key in sorted(value)]
            brackets = "{}"
        else:
            items, brackets = [self.text(each, inner) for each in value], "[]"
        out = self._joined(items, brackets, line, inner)
        reserve(len(out))
        return out

    def _joined(self, items: list[str], brackets: str, line: str, inner: str) -> str:
        if not items or not self._indent:
            return brackets[0] + ",".join(items) + brackets[1]
        return brackets[0] + inner + f",{inner}".join(items) + line + brackets[1]


def to_json(value: Any) -> str:
    """Return a value as JSON, with <, > and & escaped."""
    return _Writer(html=True).text(value)


def to_pretty_json(value: Any) -> str:
    """Return a value as JSON, indented by two spaces."""
    return _Writer(html=True, indent="  ").text(value)


def to_raw_json(value: Any) -> str:
    """Return a value as JSON, without escapes for HTML."""
    return _Writer(html=False).text(value)


def _or_empty(write: Any) -> Any:
    def written(value: Any) -> str:
        try:
            return str(write(value))
        except FunctionError:
            return ""

    return written


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is too large")
    return value


def _cleaned(value: Any) -> Any:
    """Replace lone surrogates, which Go does not have."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    return value


def from_json(text: str) -> Any:
    """Return the value of a JSON text. All numbers are floats."""
    spend(len(text) // 4)
    try:
        value = json.loads(valid(text), parse_int=_float, parse_float=_float, parse_constant=_reject)
    except ValueError as error:
        raise FunctionError(f"not JSON: {error}") from None
    return _cleaned(value) if "\\u" in text else value


def _from_json(text: str) -> Any:
    try:
        return from_json(text)
    except FunctionError:
        return None


# ---- YAML


def to_yaml(value: object) -> str:
    """Return a value as YAML, sorted by key: the function `toYaml` of KUDO and Helm."""
    return yaml.dump(_plain(value)).removesuffix("...\n")


def _plain(value: Any) -> Any:
    spend(1)
    if isinstance(value, Object):
        return _plain(value.json())
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return valid(value) if isinstance(value, str) else value


# ---- Base64 and Base32

_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE32: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def base64_bytes(text: str) -> bytes:
    """Decode Base64. Raises FunctionError with Go's message, which Sprig's b64dec returns as its result."""
    spend_on(text)
    data = encoded(text)
    position = _bad_base64(data)
    if position is not None:
        raise FunctionError(f"illegal base64 data at input byte {position}")
    return base64.b64decode(data)


def _bad_base64(data: bytes) -> int | None:
    """Return the position of the first byte that is not Base64."""
    kept = [(index, byte) for index, byte in enumerate(data) if byte not in b"\r\n"]
    for place, (index, byte) in enumerate(kept):
        if byte in _BASE64:
            continue
        if byte != ord("=") or place % 4 < 2:
            return index
        return _bad_padding(data, kept, place)
    rest = len(kept) % 4
    return len(data) - rest if rest else None


def _bad_padding(data: bytes, kept: list[tuple[int, int]], place: int) -> int | None:
    if place % 4 == 2:
        place += 1
        if place == len(kept):
            return len(data)
        if kept[place][1] != ord("="):
            return kept[place][0] - 1
    return kept[place + 1][0] if place + 1 < len(kept) else None


def _base64_text(text: str) -> str:
    try:
        return decoded(base64_bytes(text))
    except FunctionError as error:
        return str(error)


def _base32_text(text: str) -> str:
    spend_on(text)
    data = encoded(text).replace(b"\r", b"").replace(b"\n", b"")
    position = _bad_base32(data)
    if position is not None:
        return f"illegal base32 data at input byte {position}"
    return decoded(base64.b32decode(data))


def _bad_base32(data: bytes) -> int | None:
    total = len(data)
    for index, byte in enumerate(data):
        place, rest = index % 8, total - index - 1
        if byte == ord("=") and place >= 2 and rest < 8:
            return _bad_base32_padding(data, index, place, rest)
        if byte not in _BASE32:
            return index
    return total - total % 8 if total % 8 else None


def _bad_base32_padding(data: bytes, index: int, place: int, rest: int) -> int | None:
    total = len(data)
    if rest + place < 7:
        return total
    for offset in range(7 - place):
        if rest > offset and data[index + 1 + offset] != ord("="):
            return total - rest + offset - 1
    return total - rest - 1 if place in (1, 3, 6) else None


FUNCTIONS: Final[Mapping[str, Function]] = {
    "fromJson": f(_from_json, "string"),
    "mustFromJson": f(from_json, "string"),
    "toJson": f(_or_empty(to_json), "any"),
    "mustToJson": f(to_json, "any"),
    "toPrettyJson": f(_or_empty(to_pretty_json), "any"),
    "mustToPrettyJson": f(to_pretty_json, "any"),
    "toRawJson": f(to_raw_json, "any"),
    "mustToRawJson": f(to_raw_json, "any"),
    "b64enc": f(lambda text: base64.b64encode(encoded(text)).decode(), "string"),
    "b64dec": f(_base64_text, "string"),
    "b32enc": f(lambda text: base64.b32encode(encoded(text)).decode(), "string"),
    "b32dec": f(_base32_text, "string"),
}
