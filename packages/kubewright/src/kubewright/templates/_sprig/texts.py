"""Sprig's functions of strings."""

from __future__ import annotations

import random
import secrets
import string
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubewright.templates._format import text_of
from kubewright.templates._functions import Function, f
from kubewright.templates._sprig.cases import WHITE_SPACE, camel, is_title, lower, snake, title, titled, upper
from kubewright.templates._strconv import decoded, encoded, quote, valid
from kubewright.templates._values import FunctionError, StringMap, Strings, reserve, spend, spend_on

_RANDOM_LIMIT: Final = 100_000


def text(value: Any) -> str:
    """Return the text of any value."""
    return value if isinstance(value, str) else text_of(value)


def texts(value: Any) -> Strings:
    """Return the texts of the values in a list, without those that are nil."""
    if isinstance(value, Strings):
        return value
    if isinstance(value, list):
        spend(len(value))
        return Strings(text(each) for each in value if each is not None)
    return Strings() if value is None else Strings((text(value),))


def _part(value: str, start: int, end: int) -> str:
    """Return bytes of a string, as Go's s[start:end] does."""
    if value.isascii():
        if not 0 <= start <= end <= len(value):
            raise FunctionError(f"bytes {start} to {end} are not in a string of {len(value)} bytes")
        return value[start:end]
    data = encoded(value)
    if not 0 <= start <= end <= len(data):
        raise FunctionError(f"bytes {start} to {end} are not in a string of {len(data)} bytes")
    return decoded(data[start:end])


def _length(value: str) -> int:
    return len(value) if value.isascii() else len(encoded(value))


def _abbrev(width: int, value: str) -> str:
    return value if width < 4 else _abbreviated(value, 0, width)


def _abbrevboth(left: int, right: int, value: str) -> str:
    return value if right < 4 or (left > 0 and right < 7) else _abbreviated(value, left, right)


def _abbreviated(value: str, offset: int, width: int) -> str:
    length = _length(value)
    if length <= width:
        return value
    offset = min(offset, length)
    if length - offset < width - 3:
        offset = length - (width - 3)
    if offset <= 4:
        return _part(value, 0, width - 3) + "..."
    if width < 7:
        return ""
    if offset + width - 3 < length:
        rest = _part(value, offset, length)
        return "..." + (_abbreviated(rest, 0, width - 3) if width - 3 >= 4 else "")
    return "..." + _part(value, length - (width - 3), length)


def _trunc(count: int, value: str) -> str:
    length = _length(value)
    if count < 0 and length + count > 0:
        return _part(value, length + count, length)
    return _part(value, 0, count) if 0 <= count < length else value


def _substr(start: int, end: int, value: str) -> str:
    length = _length(value)
    if start < 0:
        return _part(value, 0, end)
    return _part(value, start, length if end < 0 or end > length else end)


def repeated(count: int, value: str) -> str:
    """Return a string several times."""
    if count < 0:
        raise FunctionError(f"the count must not be negative, got {count}")
    reserve(count * len(value))
    return value * count


def indented(spaces: int, value: str) -> str:
    """Return text with each line indented."""
    pad = repeated(spaces, " ")
    reserve(len(value) + (value.count("\n") + 1) * len(pad))
    return pad + value.replace("\n", "\n" + pad)


def _replace(old: str, new: str, value: str) -> str:
    reserve(len(value) + (len(value) + 1 if not old else value.count(old)) * max(len(new) - len(old), 0))
    return value.replace(old, new)


def _initials(value: str) -> str:
    spend_on(value)
    out, after_space = "", True
    for byte in encoded(value):
        character = chr(byte)
        if character in WHITE_SPACE:
            after_space = True
        elif after_space:
            out += character
            after_space = False
    return out


def _nospace(value: str) -> str:
    spend_on(value)
    kept = "".join(chr(byte) for byte in encoded(value) if chr(byte) not in WHITE_SPACE)
    return value if len(kept) == _length(value) else kept


def _untitle(value: str) -> str:
    spend_on(value)
    out, first = list[str](), True
    for character in valid(value):
        is_space = character in WHITE_SPACE
        out.append(lower(character) if first and not is_space else character)
        first = is_space
    return "".join(out)


def _swapcase(value: str) -> str:
    spend_on(value)
    out, after_space = list[str](), True
    for character in valid(value):
        if character.isupper() or is_title(character):
            out.append(lower(character))
            after_space = False
        elif character.islower():
            out.append(titled(character) if after_space else upper(character))
            after_space = False
        else:
            out.append(character)
            after_space = character in WHITE_SPACE
    return "".join(out)


def _upper(value: str) -> str:
    if value.isascii():
        return value.upper()
    spend_on(value)
    return "".join(map(upper, valid(value)))


def _lower(value: str) -> str:
    if value.isascii():
        return value.lower()
    spend_on(value)
    return "".join(map(lower, valid(value)))


def _quote(*values: Any) -> str:
    texts_of = [text(each) for each in values if each is not None]
    for each in texts_of:
        spend_on(each)
    return " ".join(map(quote, texts_of))


def _squote(*values: Any) -> str:
    return " ".join(f"'{text(each)}'" for each in values if each is not None)


def _cat(*values: Any) -> str:
    return " ".join(text(each) for each in values if each is not None)


def _join(separator: str, value: Any) -> str:
    pieces = texts(value)
    reserve(sum(map(len, pieces)) + len(separator) * len(pieces))
    return separator.join(pieces)


def _sort_alpha(value: Any) -> Strings:
    if not isinstance(value, list):
        return Strings((text(value),))
    sorted_texts = texts(value)
    spend(8 * len(sorted_texts))
    sorted_texts.sort()
    return sorted_texts


def split(separator: str, value: str, count: int = -1) -> list[str] | None:
    """Split a string as Go does: an empty separator splits into characters. A count of 0 returns None."""
    if count == 0:
        return None
    spend(len(value) if not separator else value.count(separator))
    if separator:
        return value.split(separator, -1 if count < 0 else count - 1)
    characters = list(value)
    if 0 < count < len(characters):
        return [*characters[: count - 1], "".join(characters[count - 1 :])]
    return characters


def _split_map(separator: str, value: str, count: int = -1) -> StringMap:
    return StringMap((f"_{index}", each) for index, each in enumerate(split(separator, value, count) or ()))


def _wrap(width: int, value: str) -> str:
    return _wrapped(value, width, "\n", split_words=False)


def _wrap_with(width: int, separator: str, value: str) -> str:
    return _wrapped(value, width, separator or "\n", split_words=True)


def _wrapped(value: str, width: int, separator: str, *, split_words: bool) -> str:
    data, width, offset = encoded(value), max(width, 1), 0
    reserve(len(data) + len(separator) * len(data))
    spend_on(value)
    out, line_end = list[bytes](), encoded(separator)
    while len(data) - offset > width:
        if data[offset : offset + 1] == b" ":
            offset += 1
            continue
        space = data.rfind(b" ", offset, offset + width + 1)
        if space < 0 and not split_words:
            space = data.find(b" ", offset + width)
        if space >= 0:
            out += (data[offset:space], line_end)
            offset = space + 1
        elif split_words:
            out += (data[offset : offset + width], line_end)
            offset += width
        else:
            out.append(data[offset:])
            offset = len(data)
    out.append(data[offset:])
    return decoded(b"".join(out))


def _random(alphabet: str) -> Callable[[int], str]:
    def generate(count: int) -> str:
        if count > _RANDOM_LIMIT:
            raise FunctionError(f"at most {_RANDOM_LIMIT} random characters at once, not {count}")
        reserve(max(count, 0))
        spend(max(count, 0))
        return "".join(secrets.choice(alphabet) for _ in range(count))

    return generate


def _shuffle(value: str) -> str:
    spend_on(value)
    characters = list(valid(value))
    random.SystemRandom().shuffle(characters)
    return "".join(characters)


def _plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _fail(message: str) -> str:
    raise FunctionError(message)


def _trimmed(cutset: str, value: str) -> str:
    return value.strip(cutset) if cutset else value


_ASCII: Final = "".join(map(chr, range(32, 127)))
FUNCTIONS: Final[Mapping[str, Function]] = {
    "hello": f(lambda: "Hello!"),
    "abbrev": f(_abbrev, "int", "string"),
    "abbrevboth": f(_abbrevboth, "int", "int", "string"),
    "trunc": f(_trunc, "int", "string"),
    "trim": f(lambda value: value.strip(WHITE_SPACE), "string"),
    "upper": f(_upper, "string"),
    "lower": f(_lower, "string"),
    "title": f(title, "string"),
    "untitle": f(_untitle, "string"),
    "substr": f(_substr, "int", "int", "string"),
    "repeat": f(repeated, "int", "string"),
    "trimall": f(_trimmed, "string", "string"),
    "trimAll": f(_trimmed, "string", "string"),
    "trimSuffix": f(lambda suffix, value: value.removesuffix(suffix), "string", "string"),
    "trimPrefix": f(lambda prefix, value: value.removeprefix(prefix), "string", "string"),
    "nospace": f(_nospace, "string"),
    "initials": f(_initials, "string"),
    "randAlphaNum": f(_random(string.ascii_letters + string.digits), "int"),
    "randAlpha": f(_random(string.ascii_letters), "int"),
    "randAscii": f(_random(_ASCII), "int"),
    "randNumeric": f(_random(string.digits), "int"),
    "swapcase": f(_swapcase, "string"),
    "shuffle": f(_shuffle, "string"),
    "snakecase": f(lambda value: snake(value, "_"), "string"),
    "camelcase": f(camel, "string"),
    "kebabcase": f(lambda value: snake(value, "-"), "string"),
    "wrap": f(_wrap, "int", "string"),
    "wrapWith": f(_wrap_with, "int", "string", "string"),
    "contains": f(lambda part, value: part in value, "string", "string"),
    "hasPrefix": f(lambda prefix, value: value.startswith(prefix), "string", "string"),
    "hasSuffix": f(lambda suffix, value: value.endswith(suffix), "string", "string"),
    "quote": f(_quote, "any..."),
    "squote": f(_squote, "any..."),
    "cat": f(_cat, "any..."),
    "indent": f(indented, "int", "string"),
    "nindent": f(lambda spaces, value: "\n" + indented(spaces, value), "int", "string"),
    "replace": f(_replace, "string", "string", "string"),
    "plural": f(_plural, "string", "string", "int"),
    "toString": f(text, "any"),
    "toStrings": f(texts, "any"),
    "join": f(_join, "string", "any"),
    "sortAlpha": f(_sort_alpha, "any"),
    "split": f(_split_map, "string", "string"),
    "splitList": f(lambda separator, value: Strings(split(separator, value) or ()), "string", "string"),
    "splitn": f(lambda separator, count, value: _split_map(separator, value, count), "string", "int", "string"),
    "uuidv4": f(lambda: str(uuid.uuid4())),
    "fail": f(_fail, "string"),
}
