"""Sprig's functions of regular expressions, by RE2, whose time is linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._strconv import decoded, encoded
from kubewright.templates._values import FunctionError, NilStrings, Strings, reserve, spend, spend_on

_META: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
_REFERENCE: Final = re.compile(rb"\$(?:\$|\{(\w+)\}|(\w+))", re.ASCII)
_SPEND: Final = 100


def _compiled(expression: str) -> Any:
    try:
        import re2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise FunctionError("regular expressions need google-re2; install 'kubewright[templates]'") from None
    spend(_SPEND + len(expression))
    if r"\C" in expression.replace("\\\\", ""):  # RE2 has it for a byte, Go has not
        raise FunctionError(f"bad regular expression {expression!r}: \\C is not supported")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(encoded(expression), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise FunctionError(f"bad regular expression {expression!r}: {reason}") from None


def _width(data: bytes, position: int) -> int:
    """Return the length of the character at a position."""
    end = position + 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return end - position


def _matches(expression: Any, data: bytes, count: int = -1) -> Iterator[Any]:
    """Yield the matches that Go finds: no empty one right after another match."""
    position, before, found = 0, -1, 0
    while position <= len(data) and found != count:
        spend(1)
        match = expression.search(data, position)
        if match is None:
            return
        start, end = match.span()
        is_accepted = True
        if end == position:
            is_accepted = start != before
            position += _width(data, position) if position < len(data) else 1
        else:
            position = end
        before = end
        if is_accepted:
            found += 1
            yield match


def _match(expression: str, text: str) -> bool:
    return _compiled(expression).search(encoded(text)) is not None


def _match_or_false(expression: str, text: str) -> bool:
    try:
        return _match(expression, text)
    except FunctionError:
        return False


def _find(expression: str, text: str) -> str:
    match = _compiled(expression).search(encoded(text))
    return "" if match is None else decoded(match.group())


def _find_all(expression: str, text: str, count: int) -> Strings | NilStrings:
    spend_on(text)
    data = encoded(text)
    found = [decoded(each.group()) for each in _matches(_compiled(expression), data, count)]
    return Strings(found) if found else NilStrings()


def _split(expression: str, text: str, count: int) -> Strings | NilStrings:
    if count == 0:
        return NilStrings()
    spend_on(text)
    compiled, data = _compiled(expression), encoded(text)
    if expression and not data:
        return Strings(("",))
    out, start, end = Strings(), 0, 0
    for match in _matches(compiled, data, count):
        if count > 0 and len(out) == count - 1:
            break
        end = match.start()
        if match.end():
            out.append(decoded(data[start:end]))
        start = match.end()
    if end != len(data):
        out.append(decoded(data[start:]))
    return out or NilStrings()


def _replaced(expression: str, text: str, replace: Callable[[Any], bytes]) -> str:
    spend_on(text)
    compiled, data = _compiled(expression), encoded(text)
    out, last, position, size = list[bytes](), 0, 0, 0
    while position <= len(data):
        spend(1)
        match = compiled.search(data, position)
        if match is None:
            break
        start, end = match.span()
        out.append(data[last:start])
        if end > last or start == 0:
            out.append(replace(match))
            size += len(out[-1])
            reserve(size)
        last = end
        width = _width(data, position) if position < len(data) else 1
        position = max(position + width, end) if end < position + width else end
    out.append(data[last:])
    return decoded(b"".join(out))


def _replace_all(expression: str, text: str, replacement: str) -> str:
    template = encoded(replacement)

    def replace(match: Any) -> bytes:
        return _REFERENCE.sub(lambda reference: _referenced(match, reference), template)

    return _replaced(expression, text, replace if b"$" in template else lambda match: template)


def _referenced(match: Any, reference: re.Match[bytes]) -> bytes:
    name = reference.group(1) or reference.group(2)
    if name is None:
        return b"$"
    if name.isdigit():
        if len(name) > 1 and name.startswith(b"0"):
            return b""
        group: Any = int(name) if len(name) < 9 else -1
        value = match.group(group) if 0 <= group <= match.re.groups else None
    else:
        group = match.re.groupindex.get(name) or match.re.groupindex.get(name.decode())
        value = match.group(group) if group else None
    return value or b""


def _replace_all_literal(expression: str, text: str, replacement: str) -> str:
    data = encoded(replacement)
    return _replaced(expression, text, lambda match: data)


def _quote_meta(text: str) -> str:
    return _META.sub(lambda match: f"\\{match.group()}", text)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "regexMatch": f(_match_or_false, "string", "string"),
    "mustRegexMatch": f(_match, "string", "string"),
    "regexFind": f(_find, "string", "string"),
    "mustRegexFind": f(_find, "string", "string"),
    "regexFindAll": f(_find_all, "string", "string", "int"),
    "mustRegexFindAll": f(_find_all, "string", "string", "int"),
    "regexReplaceAll": f(_replace_all, "string", "string", "string"),
    "mustRegexReplaceAll": f(_replace_all, "string", "string", "string"),
    "regexReplaceAllLiteral": f(_replace_all_literal, "string", "string", "string"),
    "mustRegexReplaceAllLiteral": f(_replace_all_literal, "string", "string", "string"),
    "regexSplit": f(_split, "string", "string", "int"),
    "mustRegexSplit": f(_split, "string", "string", "int"),
    "regexQuoteMeta": f(_quote_meta, "string"),
}
