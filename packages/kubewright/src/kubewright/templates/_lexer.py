"""The tokens of a template.

Follows Go's text/template/parse/lex.go. Positions count characters; errors are TemplateErrors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

SPACES: Final = " \t\r\n"
KEYWORDS: Final = frozenset(
    ("block", "break", "continue", "define", "else", "end", "if", "range", "nil", "template", "with")
)
_LEFT, _RIGHT = "{{", "}}"
_DIGITS: Final = tuple("0123456789")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*(?:\.[0-7_]*)?|0[bB][01_]*(?:\.[01_]*)?"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_QUOTED: Final = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_CHARACTER: Final = re.compile(r"'(?:[^'\\\n]|\\[^\n])*'")
_RAW: Final = re.compile(r"`[^`]*`")
_QUOTES: Final = {
    '"': (_QUOTED, "string", 'the string has no closing "'),
    "'": (_CHARACTER, "constant", "the character constant has no closing '"),
    "`": (_RAW, "raw", "the raw string has no closing `"),
}


class Token(NamedTuple):
    """A token: its type, position and text. The type of a keyword is the keyword."""

    type: str
    position: int
    text: str


class LexError(Exception):
    """The text is not a template. `position` is where."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def is_word(character: str) -> bool:
    """Return whether a character may be in a name."""
    if character.isascii():
        return character.isalnum() or character == "_"
    return character.isalpha() or unicodedata.category(character) == "Nd"


def tokens(text: str, is_function: Callable[[str], bool]) -> Iterator[Token]:
    """Yield the tokens of a text. The last one has the type `end of file`. Raises LexError."""
    position, start = 0, 0
    while True:
        position = text.find(_LEFT, start)
        if position < 0:
            if start < len(text):
                yield Token("text", start, text[start:])
            yield Token("end of file", len(text), "")
            return
        trims = _trims_left(text, position + 2)
        end = _without_trailing(text, start, position) if trims else position
        if end > start:
            yield Token("text", start, text[start:end])
        after = position + 2 + (2 if trims else 0)
        if text.startswith("/*", after):
            start = _comment(text, after)
            continue
        yield Token("{{", position, _LEFT)
        lexer = _Action(text, after, position, is_function)
        yield from lexer.tokens()
        start = lexer.end


def _trims_left(text: str, position: int) -> bool:
    return text[position : position + 1] == "-" and text[position + 1 : position + 2] in tuple(SPACES)


def _trims_right(text: str, position: int) -> bool:
    return text[position : position + 1] in tuple(SPACES) and text.startswith("-}}", position + 1)


def _without_trailing(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in SPACES:
        end -= 1
    return end


def _without_leading(text: str, start: int) -> int:
    while start < len(text) and text[start] in SPACES:
        start += 1
    return start


def _comment(text: str, position: int) -> int:
    """Return the position after a comment and its delimiter."""
    end = text.find("*/", position + 2)
    if end < 0:
        raise LexError("the comment has no closing */", position)
    if _trims_right(text, end + 2):
        return _without_leading(text, end + 6)
    if not text.startswith(_RIGHT, end + 2):
        raise LexError("a comment must be alone in its action: }} must follow */ at once", position)
    return end + 4


class _Action:
    """Lexer of one action. `end` is the position after it."""

    def __init__(self, text: str, position: int, start: int, is_function: Callable[[str], bool]) -> None:
        self._text = text
        self._position = position
        self._start = start
        self._is_function = is_function
        self._parentheses = 0
        self.end = position

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens up to and including the right delimiter."""
        text = self._text
        while True:
            position = self._position
            trims = _trims_right(text, position)
            if trims or text.startswith(_RIGHT, position):
                if self._parentheses:
                    raise LexError("a parenthesis is not closed: add )", position)
                yield Token("}}", position, _RIGHT)
                self.end = _without_leading(text, position + 4) if trims else position + 2
                return
            token = self._next(position)
            self._position = token.position + len(token.text)
            yield token

    def _next(self, position: int) -> Token:
        text = self._text
        if position >= len(text):
            raise LexError("the action is not closed: add }}", self._start)
        character = text[position]
        if character in SPACES:
            return self._space(position)
        if character == ":":
            if not text.startswith("=", position + 1):
                raise LexError("expected := after the variable", position)
            return Token(":=", position, ":=")
        if character in "=|":
            return Token(character, position, character)
        if character in _QUOTES:
            return self._quoted(position, character)
        if character == "$":
            return self._name("variable", position)
        if character == "." and text[position + 1 : position + 2] not in _DIGITS:
            return self._name("field", position)
        if character in "+-." or ("0" <= character <= "9"):
            return self._number(position)
        if is_word(character):
            return self._identifier(position)
        return self._other(position, character)

    def _other(self, position: int, character: str) -> Token:
        if character == "(":
            self._parentheses += 1
        elif character == ")":
            self._parentheses -= 1
            if self._parentheses < 0:
                raise LexError("unexpected ): no parenthesis is open", position)
        elif not (character.isascii() and character.isprintable()):
            raise LexError(f"unexpected character {character!r} in an action", position)
        return Token(character if character in "()" else "character", position, character)

    def _space(self, position: int) -> Token:
        end = _without_leading(self._text, position)
        if self._text.startswith("-}}", end):  # the last space belongs to the trim marker
            end -= 1
        return Token("space", position, self._text[position:end])

    def _quoted(self, position: int, quote: str) -> Token:
        pattern, kind, error = _QUOTES[quote]
        if match := pattern.match(self._text, position):
            return Token(kind, position, match.group())
        raise LexError(error, position)

    def _name(self, kind: str, position: int) -> Token:
        end = self._word_end(position + 1)
        self._check_terminator(end)
        text = self._text[position:end]
        return Token("dot" if text == "." else kind, position, text)

    def _identifier(self, position: int) -> Token:
        end = self._word_end(position)
        self._check_terminator(end)
        word = self._text[position:end]
        if word in KEYWORDS and not (word in ("break", "continue") and self._is_function(word)):
            return Token(word, position, word)
        return Token("bool" if word in ("true", "false") else "identifier", position, word)

    def _word_end(self, position: int) -> int:
        while position < len(self._text) and is_word(self._text[position]):
            position += 1
        return position

    def _check_terminator(self, position: int) -> None:
        text = self._text
        if position < len(text) and text[position] not in " \t\r\n.,|:)(" and not text.startswith(_RIGHT, position):
            raise LexError(f"unexpected character {text[position]!r}: separate the words with a space", position)

    def _number(self, position: int) -> Token:
        end = self._number_end(position)
        if self._text[end : end + 1] in ("+", "-"):
            end = self._number_end(end)
            if self._text[end - 1] != "i":
                raise LexError(f"bad number {self._text[position:end]!r}", position)
            return Token("complex", position, self._text[position:end])
        return Token("number", position, self._text[position:end])

    def _number_end(self, position: int) -> int:
        match = _NUMBER.match(self._text, position)
        end = match.end() if match else position
        if end < len(self._text) and is_word(self._text[end]):
            raise LexError(f"bad number {self._text[position : end + 1]!r}", position)
        return end
