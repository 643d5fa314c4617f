"""Upper and lower case, as Go and Sprig change it: each character alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final

from kubewright.templates._strconv import valid
from kubewright.templates._values import spend_on

WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


def upper(character: str) -> str:
    """Return a character in upper case."""
    changed = character.upper()
    return changed if len(changed) == 1 else character


def lower(character: str) -> str:
    """Return a character in lower case."""
    changed = character.lower()
    return changed if len(changed) == 1 else changed[0]


def titled(character: str) -> str:
    """Return a character in title case."""
    changed = character.title()
    return changed if len(changed) == 1 else character


def is_title(character: str) -> bool:
    """Return whether a character is in title case."""
    return unicodedata.category(character) == "Lt"


def _is_upper(character: str) -> bool:
    return character.isupper()


def _is_letter(character: str) -> bool:
    """Return whether a character is a letter of an alphabet: those of Chinese are not."""
    is_chinese = (
        "\u4e00" <= character <= "\u9fcc"
        or "\u3400" <= character <= "\u4d85"
        or "\U00020000" <= character <= "\U0002b81d"
    )
    return character.isalpha() and not is_chinese


def _is_number(character: str) -> bool:
    return unicodedata.category(character)[0] == "N"


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


def _is_connector(character: str) -> bool:
    return character in "-_" or character in WHITE_SPACE


def title(value: str) -> str:
    """Return a string with the first letter of each word in title case."""
    spend_on(value)
    out, before = list[str](), " "
    for character in valid(value):
        out.append(titled(character) if _separates(before) else character)
        before = character
    return "".join(out)


def _separates(character: str) -> bool:
    if character.isascii():
        return not (character.isalnum() or character == "_")
    if character.isalpha() or unicodedata.category(character) == "Nd":
        return False
    return character in WHITE_SPACE


def camel(value: str) -> str:
    """Return a string in upper camel case."""
    spend_on(value)
    characters = list(valid(value))
    out, index = list[str](), 0
    while index < len(characters) and _is_connector(characters[index]):
        out.append(characters[index])
        index += 1
    if index == len(characters):
        return "".join((*out, *out[-1:]))  # Sprig writes the last one twice
    current = upper(characters[index])
    lowering = _is_upper(characters[index])
    for following in characters[index + 1 :]:
        before, current = current, following
        if _is_connector(current) and _is_connector(before):
            out.append(before)
        elif _is_connector(before):
            lowering = _is_upper(current)
            current = upper(current)
        else:
            if lowering and _is_upper(current):
                current = lower(current)
            else:
                lowering = False
            out.append(before)
    return "".join((*out, current))


_Word = tuple[str, str]


def snake(value: str, connector: str) -> str:
    """Return a string in lower case, with a connector between its words."""
    spend_on(value)
    return _Snake(value, connector).text()


class _Snake:
    """Conversion of one string. Words have the kinds number, upper, letters, connector, punctuation and other."""

    def __init__(self, value: str, connector: str) -> None:
        self._value = value
        self._position = 0
        self._connector = connector
        self._out: list[str] = []

    def text(self) -> str:
        if not self._value:
            return ""
        word = self._next()
        while self._has_more():
            word = self._step(word)
        self._write(word)
        return "".join(self._out)

    def _step(self, before: _Word) -> _Word:
        """Write a word, and return the next that is to be written."""
        if before[0] != "connector":
            self._write(before)
        word = self._next()
        if before[0] == "number":
            return self._after_letters(word)
        if before[0] == "connector":
            self._write(before)
            return word
        if before[0] == "punctuation":
            return word
        if word[0] != "number":
            self._separate(word)
            return word
        return self._number(word)

    def _number(self, number: _Word) -> _Word:
        """Write a number after a word. It belongs to the word, unless lower case letters follow."""
        if not self._has_more():
            return number
        word = self._next()
        if word[0] != "letters":
            self._write(number)
            self._separate(word)
            return word
        self._out.append(self._connector)
        self._write(number)
        return self._after_letters(word)

    def _after_letters(self, word: _Word) -> _Word:
        while word[0] in ("letters", "number"):
            self._write(word)
            word = self._next()
        if word[0] != "none":
            self._separate(word)
        return word

    def _separate(self, word: _Word) -> None:
        if word[0] not in ("connector", "punctuation"):
            self._out.append(self._connector)

    def _write(self, word: _Word) -> None:
        kind, text = word
        if kind == "connector":
            self._out.append(self._connector * len(text))
        elif kind == "upper":
            self._out.append("".join(map(lower, text)))
        else:
            self._out.append(text)

    def _next(self) -> _Word:
        """Take a word off the rest."""
        if not self._has_more():
            return "none", ""
        kind, end = _measure(self._value, self._position)
        word = self._value[self._position : end]
        self._position = end
        return kind, word

    def _has_more(self) -> bool:
        return self._position < len(self._value)


def _run(text: str, start: int, belongs: Callable[[str], bool]) -> int:
    end = start
    while end < len(text) and belongs(text[end]):
        end += 1
    return end


def _is_lower_part(character: str) -> bool:
    return _is_letter(character) and not _is_upper(character)


def _measure(text: str, start: int) -> tuple[str, int]:
    """Return the kind and the end of the word that starts at a position."""
    first, after = text[start], start + 1
    if _is_connector(first):
        return "connector", _run(text, after, _is_connector)
    if _is_punctuation(first):
        return "punctuation", _run(text, after, _is_punctuation)
    if _is_upper(first):
        end = _run(text, after, _is_upper)
        if end > after:
            return "upper", end - 1 if end < len(text) and _is_letter(text[end]) else end
        return "upper", _run(text, after, _is_lower_part)
    if _is_letter(first):
        return "letters", _run(text, after, _is_lower_part)
    if _is_number(first):
        return "number", _run(text, after, _is_number)
    return "other", _run(text, after, _is_other)


def _is_other(character: str) -> bool:
    return not (
        _is_connector(character) or _is_letter(character) or _is_number(character) or _is_punctuation(character)
    )
