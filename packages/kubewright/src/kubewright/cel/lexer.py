"""Splits source text into tokens.

Follows the lexical grammar of https://github.com/google/cel-spec/blob/master/doc/langdef.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from kubewright.cel.syntax import CompileError, shown
from kubewright.cel.values import UInt


@dataclass(frozen=True, slots=True)
class Token:
    kind: Literal["end", "escaped", "ident", "literal", "symbol"]
    text: str
    at: int
    value: object = None
    """The value of a literal."""


_WORDS: Final = {"true": True, "false": False, "null": None}
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>(?P<prefix>[rR]?[bB]?|[bB][rR])(?P<body>
        \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?''' | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'))
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
  | (?P<ident>[A-Za-z_]\w*)
  | (?P<escaped>`[\w./ -]+`)
  | (?P<symbol>\|\||&&|[<>=!]=|\.\?|\[\?|\{\?|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_RAW: Final = re.compile(
    r"[rR][bB]?(?:\"\"\"(.*?)\"\"\"|'''(.*?)'''|\"([^\"\n]*)\"|'([^'\n]*)')", re.DOTALL
)  # in a raw string a backslash is literal, also before a quote
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.|$))",
    re.DOTALL,
)
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokenize(source: str) -> list[Token]:
    """Return the tokens of `source`; the last one marks the end. Raises CompileError."""
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        raw = _RAW.match(source, at)
        if raw is not None:
            text = next(each for each in raw.groups() if each is not None)
            is_bytes = raw[0][1:2] in ("b", "B")
            tokens.append(Token("literal", raw[0], at, text.encode() if is_bytes else text))
            at = raw.end()
            continue
        found = _TOKEN.match(source, at)
        if found is None:
            raise _error(source, at, f"token recognition error at: '{source[at]}'")
        if found.lastgroup != "space":
            tokens.append(_token(source, found, at))
        at = found.end()
    tokens.append(Token("end", "<EOF>", at))
    return tokens


def _token(source: str, found: re.Match[str], at: int) -> Token:
    text = found[0]
    if found["string"] is not None:
        return Token("literal", text, at, _string(source, found, at))
    if found["float"] is not None:
        return Token("literal", text, at, float(text))
    if found["int"] is not None:
        return Token("literal", text, at, _integer(source, text, at))
    if found["ident"] is not None:
        if text in _WORDS:
            return Token("literal", text, at, _WORDS[text])
        return Token("ident", text, at)
    if found["escaped"] is not None:
        return Token("escaped", text, at)
    return Token("symbol", text, at)


_DIGITS: Final = 20
"""Digits of the largest integer."""


def _integer(source: str, text: str, at: int) -> int:
    digits = text.rstrip("uU")
    if len(digits.lstrip("0xX")) > _DIGITS:
        raise _error(source, at, f"invalid {'int' if digits == text else 'uint'} literal")
    value = int(digits, 16 if digits[:2].lower() == "0x" else 10)
    if digits != text:
        if value >= 2**64:
            raise _error(source, at, "invalid uint literal")
        return UInt(value)
    if value > 2**63:  # with a minus sign it may still be an int
        raise _error(source, at, "invalid int literal")
    return value


def _string(source: str, found: re.Match[str], at: int) -> str | bytes:
    is_bytes = "b" in found["prefix"].lower()
    body = found["body"]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    inner = body[quotes:-quotes]
    if "\\" not in inner:
        return inner.encode() if is_bytes else inner
    parts: list[bytes] = []
    end = 0
    for escape in _ESCAPE.finditer(inner):
        parts.append(inner[end : escape.start()].encode())
        parts.append(_escaped(source, escape, at, is_bytes=is_bytes))
        end = escape.end()
    parts.append(inner[end:].encode())
    joined = b"".join(parts)
    return joined if is_bytes else joined.decode()


def _escaped(source: str, escape: re.Match[str], at: int, *, is_bytes: bool) -> bytes:
    simple, hexadecimal, short, long, octal, unknown = escape.groups()
    if unknown is not None:
        raise _error(source, at, "unable to unescape string")
    if simple is not None:
        return _SIMPLE.get(simple, simple).encode()
    code = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
    if is_bytes and (hexadecimal or octal):
        return bytes([code])
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise _error(source, at, "invalid unicode code point")
    return chr(code).encode()


def _error(source: str, at: int, text: str) -> CompileError:
    return CompileError(shown(source, [(at, f"Syntax error: {text}")]))
