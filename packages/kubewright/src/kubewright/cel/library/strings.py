"""Strings: standard functions, the strings extension (version 2), regular expressions, URLs.

Follows cel-go's ext/strings.go and k8s.io/apiserver/pkg/cel/library (regex.go, urls.go).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from kubewright.cel.functions import Function, library
from kubewright.cel.library.standard import to_string
from kubewright.cel.values import COST_EXCEEDED, CostExceeded, EvaluationError, TypeValue, type_name
from kubewright.machinery.json import is_array, is_object
from kubewright.machinery.patterns import Pattern, compile_pattern

_ASCII_UPPER: Final = {each: each - 32 for each in range(ord("a"), ord("z") + 1)}
_WHITE_SPACE: Final = " \t\n\v\f\r\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_LONGEST: Final = 10_000_000
"""The maximum length of a text: reading it costs the limit of one evaluation."""
_PRECISION_DIGITS: Final = 3
_ASCII_LOWER: Final = {upper: lower for lower, upper in _ASCII_UPPER.items()}


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).matches(text)


def _pattern(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text) and part:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start) if part else start


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not start <= stop <= len(text):
        what = (
            f"index out of range: {stop}"
            if stop > len(text) or stop < 0
            else f"invalid substring range. start: {start}, end: {stop}"
        )
        raise EvaluationError(what)
    return text[start:stop]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = list(text) if not separator else text.split(separator)
    if 0 < limit < len(parts):
        return [*parts[: limit - 1], separator.join(parts[limit - 1 :])]
    return parts


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    if len(new) > len(old):
        count = text.count(old) if limit < 0 else min(limit, text.count(old))
        _check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, limit)


def _check_length(length: int) -> None:
    """Stop an evaluation before it makes a text that costs more than any budget."""
    if length > _LONGEST:
        raise CostExceeded(COST_EXCEEDED)


def _trim(text: str) -> str:
    return text.strip(_WHITE_SPACE)


def _join(parts: list[Any], separator: str = "") -> str:
    if not all(isinstance(each, str) for each in parts):
        raise EvaluationError("no such overload")
    _check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _find(text: str, pattern: str) -> str:
    return _pattern(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _pattern(pattern).find_all(text, limit)


_VERB: Final = re.compile(r"%(?:(%)|(?:\.(\d+))?([a-zA-Z])|)", re.DOTALL)


def _format(template: str, arguments: list[Any]) -> str:
    """`"%s: %d".format([name, count])`."""
    given = iter(arguments)
    taken = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal taken
        if found[1]:
            return "%"
        if not found[3]:
            raise EvaluationError(f"could not parse formatting clause: {found[0]}")
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError(f"index {taken} out of range") from None
        taken += 1
        if len(found[2] or "") > _PRECISION_DIGITS:
            raise EvaluationError(f"could not parse formatting clause: {found[0]}")
        return _formatted(found[3], value, int(found[2]) if found[2] else None)

    return _VERB.sub(fill, template)


def _formatted(verb: str, value: Any, precision: int | None) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match verb:
        case "s":
            return _value_text(value)
        case "d" if number:
            return str(value) if isinstance(value, int) else to_string(value)
        case "f" if number:
            return f"{float(value):.{6 if precision is None else precision}f}"
        case "e" if number:
            return f"{float(value):.{6 if precision is None else precision}e}"
        case "b" if isinstance(value, int):
            return f"{int(value):b}"
        case "o" if number and isinstance(value, int):
            return f"{value:o}"
        case "x" | "X" if isinstance(value, (str, bytes)) or (number and isinstance(value, int)):
            data = value.encode() if isinstance(value, str) else value
            text = data.hex() if isinstance(data, bytes) else f"{data:x}"
            return text.upper() if verb == "X" else text
        case _:
            raise EvaluationError(f"error during formatting: verb {verb} cannot show a {type_name(value)}")


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if is_array(value):
        return f"[{', '.join(map(_value_text, value))}]"
    if is_object(value):
        pairs = sorted((_value_text(key), _value_text(each)) for key, each in value.items())
        return f"{{{', '.join(f'{key}: {each}' for key, each in pairs)}}}"
    return str(value.name) if isinstance(value, TypeValue) else to_string(value)


@dataclass(frozen=True, slots=True)
class URL:
    """An absolute URL, or an absolute path."""

    CEL_TYPE: ClassVar[str] = "kubernetes.URL"
    text: str
    parts: SplitResult


def _url(text: str) -> URL:
    try:
        parts = urlsplit(text)
        well_formed = not re.search(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})", text) and (parts.port or True)
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None
    if not well_formed or not (parts.scheme or text.startswith("/")):
        why = "invalid URI for request" if text else "empty url"
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {why}')
    return URL(text, parts)


def _is_url(text: str) -> bool:
    try:
        _url(text)
    except EvaluationError:
        return False
    return True


def _host(url: URL) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _host_name(url: URL) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _port(url: URL) -> str:
    return str(url.parts.port) if url.parts.port is not None else ""


FUNCTIONS: Final[tuple[Function, ...]] = (
    *library(
        ("string.contains(string) -> bool", lambda text, part: part in text),
        ("string.startsWith(string) -> bool", str.startswith),
        ("string.endsWith(string) -> bool", str.endswith),
        ("string.matches(string) -> bool", _matches),
        ("matches(string, string) -> bool", _matches),
        ("string.charAt(int) -> string", _char_at),
        ("string.indexOf(string) -> int", _index_of),
        ("string.indexOf(string, int) -> int", _index_of),
        ("string.lastIndexOf(string) -> int", _last_index_of),
        ("string.lastIndexOf(string, int) -> int", _last_index_of),
        ("string.lowerAscii() -> string", lambda text: text.translate(_ASCII_LOWER)),
        ("string.upperAscii() -> string", lambda text: text.translate(_ASCII_UPPER)),
        ("string.replace(string, string) -> string", _replace),
        ("string.replace(string, string, int) -> string", _replace),
        ("string.split(string) -> list(string)", _split),
        ("string.split(string, int) -> list(string)", _split),
        ("string.substring(int) -> string", _substring),
        ("string.substring(int, int) -> string", _substring),
        ("string.trim() -> string", _trim),
        ("list(string).join() -> string", _join),
        ("list(string).join(string) -> string", _join),
        ("string.format(list(dyn)) -> string", _format),
        ("strings.quote(string) -> string", lambda text: json.dumps(text, ensure_ascii=False)),
        ("string.find(string) -> string", _find),
        ("string.findAll(string) -> list(string)", _find_all),
        ("string.findAll(string, int) -> list(string)", _find_all),
        ("url(string) -> kubernetes.URL", _url),
        ("isURL(string) -> bool", _is_url),
        linear=True,
    ),
    *library(
        ("kubernetes.URL.getScheme() -> string", lambda url: url.parts.scheme),
        ("kubernetes.URL.getHost() -> string", _host),
        ("kubernetes.URL.getHostname() -> string", _host_name),
        ("kubernetes.URL.getPort() -> string", _port),
        ("kubernetes.URL.getEscapedPath() -> string", lambda url: url.parts.path),
        (
            "kubernetes.URL.getQuery() -> map(string, list(string))",
            lambda url: parse_qs(url.parts.query, keep_blank_values=True),
        ),
    ),
)
