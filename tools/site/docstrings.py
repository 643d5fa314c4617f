"""Docstrings as Markdown.

Docstrings are plain text with a few conventions, each of which has a form in Markdown:

    a line, then lines indented below it      a term, and a list about it
    lines that each begin with a `name`       a list
    columns that are two spaces apart         preformatted text
    an indented block                         code, or preformatted text if it is not Python
    `Name` in backticks                       a link, if the name is in the reference
    Raises Name, Other                        links
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

Link: TypeAlias = Callable[[str], str]
"""Maps text in backticks to a path in the reference, or to ""."""

_CODE: Final = re.compile(r"`([^`]+)`")
_COLUMNS: Final = re.compile(r"^\S.*?\S? {2,}\S")
_URL: Final = re.compile(r"https?://[^\s`)]*[^\s`).,;:]")
_RAISED: Final = re.compile(r"(?<=\bRaises[ \n])[A-Z]\w+(?:(?:,| and| or|, or)\s[A-Z]\w+)*")
_ERROR: Final = re.compile(r"[A-Z]\w+")
_SPECIAL: Final = re.compile(r"([\\*_<\[\]#|~])")


def markdown(text: str, link: Link) -> str:
    """Return a docstring without indentation as Markdown."""
    blocks = [_block(each.splitlines(), link) for each in re.split(r"\n\s*\n", text.strip("\n"))]
    return "\n\n".join(blocks)


def names(text: str) -> Iterator[str]:
    """Yield the texts in backticks, except for code."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if not block.startswith("    "):
            yield from _CODE.findall(block)


def raised(text: str) -> Iterator[str]:
    """Yield the errors after "Raises"."""
    for errors in _RAISED.findall(text):
        yield from _ERROR.findall(errors)


def is_columns(lines: list[str]) -> bool:
    """Return whether a block is a table of names and descriptions."""
    return sum(1 for line in lines if _COLUMNS.match(line)) * 2 > len(lines)


def _block(lines: list[str], link: Link) -> str:
    if all(line.startswith("    ") for line in lines):
        return _verbatim(lines)
    if is_columns(lines):
        return _fenced(lines, "text")
    parts = [_term(part, link) for part in _terms(lines)]
    return "\n\n".join(parts)


def _verbatim(lines: list[str]) -> str:
    code = textwrap.dedent("\n".join(lines))
    try:
        ast.parse(code)
    except SyntaxError:
        language = "text"
    else:
        language = "python"
    return _fenced(code.splitlines(), language)


def _fenced(lines: list[str], language: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def _terms(lines: list[str]) -> Iterator[list[str]]:
    """Yield the parts of a block. A part ends where indentation ends."""
    part: list[str] = []
    for line in lines:
        if part and part[-1].startswith("    ") and not line.startswith("    "):
            yield part
            part = []
        part.append(line)
    yield part


def _term(lines: list[str], link: Link) -> str:
    body = [line for line in lines if line.startswith("    ")]
    head = lines[: len(lines) - len(body)]
    if not body:
        return _paragraph(head, link)
    items = _sentences(textwrap.dedent("\n".join(body)).splitlines())
    return f"**{prose(' '.join(head), link)}**\n\n" + _list(items, link)


def _paragraph(lines: list[str], link: Link) -> str:
    """Return prose. Lines that begin with a name in backticks become a list, up to a line with "Raises"."""
    first = next((index for index, line in enumerate(lines) if line.startswith("`")), len(lines))
    last = next((index for index, line in enumerate(lines) if index > first and line.startswith("Raises ")), len(lines))
    items = _items(lines[first:last])
    if len([each for each in items if re.match(r"`[^`]+`(:|,| says|, `)", each)]) < 2:
        return prose("\n".join(lines), link)
    around = [prose("\n".join(each), link) for each in (lines[:first], lines[last:])]
    return "\n\n".join(each for each in (around[0], _list(items, link), around[1]) if each)


def _items(lines: list[str]) -> list[str]:
    """Return the lines that begin with a name, each with its continuation lines."""
    items: list[str] = []
    for line in lines:
        if line.startswith("`") and (not items or items[-1].endswith((".", ":"))):
            items.append(line)
        else:
            items[-1] += f" {line}"
    return items


def _sentences(lines: list[str]) -> list[str]:
    """Return lines, each with its continuation lines."""
    items: list[str] = []
    for line in lines:
        if items and (line.startswith(" ") or not items[-1].endswith((".", ":")) or line[0].islower()):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line)
    return items


def _list(items: list[str], link: Link) -> str:
    return "\n".join(f"- {prose(each, link)}" for each in items)


def prose(text: str, link: Link) -> str:
    """Return text within a paragraph as Markdown."""

    def as_code(name: re.Match[str]) -> str:
        return f"`{name[0]}`" if link(name[0]) else name[0]

    text = _RAISED.sub(lambda errors: _ERROR.sub(as_code, errors[0]), text)
    parts = enumerate(_CODE.split(text))
    return "".join(_code(part, link) if index % 2 else _escaped(part) for index, part in parts)


def _code(text: str, link: Link) -> str:
    path = link(text)
    return f"[`{text}`][{path}]" if path else f"`{text}`"


def _escaped(text: str) -> str:
    out: list[str] = []
    place = 0
    for url in _URL.finditer(text):
        out += [_SPECIAL.sub(r"\\\1", text[place : url.start()]), f"<{url[0]}>"]
        place = url.end()
    return "".join([*out, _SPECIAL.sub(r"\\\1", text[place:])])
