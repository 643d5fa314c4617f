"""Lint the project's prose against the words in prose.toml: `python tools/prose.py [PATH ...]`.

Checks
    Python: comments, docstrings, other strings that contain a space, and the names of tests.
    Markdown: everything but code, links and comments.
    Jinja templates, Makefiles, TOML: their text, comments and messages.
Skips
    Texts in Kubernetes' own words, and generated texts: see `EXEMPT`.

A finding is printed as `file:line: "word": write ... instead`, and the exit status is 1. To keep a word, add a comment
`prose: allow WORD: REASON` on the line of the finding or on the line above it. An exemption needs a reason and must be
necessary.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

VOCABULARY: Final = Path(__file__).with_suffix(".toml")
DEFAULT_PATHS: Final = ("packages", "src", "tests", "tools", "examples", "docs", "designs", "benchmarks", "Makefile")
EXEMPT: Final = (
    r"/kubewright/apis/(?!__init__)",
    r"/apiserver/data/",
    r"^tests/golden/|/tests/golden/",
    r"(?:^|/)(?:\.[^/.]+|site-packages|node_modules|__pycache__|build|dist)/",
    r"(?:^|/)prose\.toml$|(?:^|/)test_prose\.py$",
    r"(?:^|/)LICENSE$",
)
"""Paths, as regular expressions, of texts that the project does not write by hand."""

_ALLOW: Final = re.compile(
    r"(?P<opener>#|<!--) *prose: allow *(?P<word>[^:\n]*?) *(?:: *(?P<reason>\S.*?))? *(?:-->|#\}|$)", re.MULTILINE
)
"""The comment that keeps a word."""
_SPACE: Final = re.compile(r"[ \t]*\n[ \t]*|[ \t]+")


class Pattern(NamedTuple):
    """Words to avoid, and what to write instead."""

    find: re.Pattern[str]
    write: str
    where: str
    """`everywhere`, `docstring` or `function`, as in the vocabulary."""

    def applies_to(self, text: Text, *, python: bool) -> bool:
        """Return whether the words count in this text."""
        return self.where == "everywhere" or (python and (self.where == "docstring" or text.describes_function))


class Text(NamedTuple):
    """A piece of prose. Character `i` of `content` stands in line `lines[i]` of the file."""

    content: str
    lines: list[int]
    describes_function: bool = False
    """Whether the text is the docstring of a function."""


class Finding(NamedTuple):
    """A word to replace."""

    line: int
    word: str
    write: str


def vocabulary(path: Path = VOCABULARY) -> list[Pattern]:
    """Return the patterns of a vocabulary file."""
    entries = tomllib.loads(path.read_text())["pattern"]
    return [
        Pattern(
            re.compile(each["find"], 0 if each.get("case") else re.IGNORECASE),
            each["write"],
            each.get("where", "everywhere"),
        )
        for each in entries
    ]


def lint(name: str, source: str, patterns: Iterable[Pattern]) -> list[Finding]:
    """Return the findings of one file, in the order of its lines. The file's name selects how it is read."""
    python = name.endswith(".py")
    texts = list(_python(source) if python else _markdown(source) if name.endswith(".md") else _lines(source))
    found = {
        Finding(text.lines[match.start()], " ".join(match[0].split()), each.write)
        for each in patterns
        for text in texts
        if each.applies_to(text, python=python)
        for match in each.find.finditer(text.content)
    }
    return sorted(_without_exempted(found, source, "<!--" if name.endswith(".md") else "#"))


def _without_exempted(found: Iterable[Finding], source: str, opener: str) -> Iterator[Finding]:
    exemptions = {
        number: allowed
        for number, line in enumerate(source.splitlines(), 1)
        if (allowed := _ALLOW.search(line)) and allowed["opener"] == opener
    }
    used: set[int] = set()
    for finding in found:
        for number in (finding.line, finding.line - 1):
            allowed = exemptions.get(number)
            if allowed and allowed["word"].lower() in finding.word.lower():
                used.add(number)
                break
        else:
            yield finding
    for number, allowed in exemptions.items():
        if not allowed["word"] or not allowed["reason"]:
            yield Finding(number, "prose: allow", "the word and a reason: prose: allow WORD: REASON")
        elif number not in used:
            yield Finding(number, allowed[0].strip(), "nothing: no finding needs this exemption")


# ---- texts of a file ---------------------------------------------------------------------------------------------


def _python(source: str) -> Iterator[Text]:
    comments: list[tokenize.TokenInfo] = []
    functions = set(_function_docstrings(source))
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token in zip([tokens[0], *tokens], tokens, strict=False):
        if token.type == tokenize.COMMENT:
            if comments and token.start != (comments[-1].start[0] + 1, comments[-1].start[1]):
                yield _comment(comments)
                comments = []
            comments.append(token)
        elif _is_string(token) and re.search(r"\w\s+\w", token.string):
            yield _string(token)._replace(describes_function=token.start[0] in functions)
        elif token.type == tokenize.NAME and before.string == "def" and token.string.startswith("test_"):
            yield _text(token.string.replace("_", " "), token.start[0])
    if comments:
        yield _comment(comments)


def _function_docstrings(source: str) -> Iterator[int]:
    """Yield the lines in which docstrings of functions begin. Tests, fixtures and properties do not count."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if re.match(r"(?!test_|__)[a-z_]", node.name) and not re.search(r"property|fixture", decorators):
                yield node.body[0].lineno


def _is_string(token: tokenize.TokenInfo) -> bool:
    """Return whether a token is a string, or from Python 3.12 on the literal part of a formatted string."""
    return token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"


def _string(token: tokenize.TokenInfo) -> Text:
    content = token.string
    if token.type == tokenize.STRING:
        if "f" in content.partition(content[-1])[0].lower():
            content = re.sub(r"\{[^{}\n]*\}", "{}", content)
        content = re.sub(r"^\w*(?:'''|\"\"\"|'|\")|(?:'''|\"\"\"|'|\")$", "", content)
    return _text(_without_code(content), token.start[0])


def _comment(tokens: list[tokenize.TokenInfo]) -> Text:
    lines = [re.sub(r"^#[:!]? ?(?:prose: allow.*)?", "", token.string) for token in tokens]
    return _text(_without_code("\n".join(lines)), tokens[0].start[0])


def _markdown(source: str) -> Iterator[Text]:
    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    prose = re.sub(r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)", _blank_block, source, flags=re.S | re.M)
    prose = re.sub(r"<!--.*?-->", blank, prose, flags=re.S)
    prose = re.sub(r"(?:(?<=\n\n)|^)(?:(?: {4}|\t)[^\n]*\n+)+", blank, prose)
    prose = re.sub(r"(?<=\])\([^)\s]*\)", "", prose)
    yield _text(_without_code(re.sub(r"^[ ]*(?:>|[-*+] |#+ |\|)", blank, prose, flags=re.M)), 1)


def _blank_block(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _lines(source: str) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), 1):
        yield _text(_without_code(_ALLOW.sub("", line)), number)


def _without_code(content: str) -> str:
    return re.sub(r"`[^`\n]+`", "`code`", content)


def _text(content: str, line: int) -> Text:
    """Return the text with each run of white space as one space, and empty lines as line breaks."""
    parts: list[str] = []
    lines: list[int] = []
    position = 0
    for space in _SPACE.finditer(content):
        word = content[position : space.start()]
        parts.append(word)
        lines += [line] * len(word)
        paragraph = "\n" in space[0] and (not content[space.end() :] or content[space.end()] == "\n")
        parts.append("\n" if paragraph else " ")
        lines.append(line)
        line += space[0].count("\n")
        position = space.end()
    parts.append(content[position:])
    lines += [line] * (len(content) - position + 1)
    return Text("".join(parts).replace("\n ", "\n\n"), lines)


# ---- files -------------------------------------------------------------------------------------------------------


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files to check below the given paths. A file that is given itself is checked in any case."""
    for path in paths:
        if path.is_dir():
            yield from (each for each in sorted(path.rglob("*")) if each.is_file() and _is_prose(each))
        else:
            yield path


def _is_prose(path: Path) -> bool:
    named = path.suffix in {".py", ".md", ".j2"} or path.name in {"Makefile", "pyproject.toml"}
    return named and not any(re.search(each, path.as_posix()) for each in EXEMPT)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lint prose against the project's vocabulary.")
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; default: the whole project")
    parser.add_argument("--count", action="store_true", help="print how often each word was found")
    options = parser.parse_args(arguments)
    paths = options.paths or [*(Path(each) for each in DEFAULT_PATHS if Path(each).exists()), *Path().glob("*.md")]
    patterns = vocabulary()
    counts: dict[str, int] = {}
    for path in files(paths):
        for finding in lint(path.name, path.read_text(), patterns):
            counts[finding.word.lower()] = counts.get(finding.word.lower(), 0) + 1
            if not options.count:
                print(f'{path}:{finding.line}: "{finding.word}": write {finding.write} instead')
    if options.count:
        for word, count in sorted(counts.items(), key=lambda each: -each[1]):
            print(f"{count:6} {word}")
    if counts:
        print(f"{sum(counts.values())} words to replace; see docs/style.md", file=sys.stderr)
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
