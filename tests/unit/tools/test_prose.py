"""The linter of prose: which texts it reads, where it finds a word, and how a word is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.prose import VOCABULARY, files, lint, vocabulary

PATTERNS = vocabulary()


def found(name: str, source: str) -> list[tuple[int, str]]:
    return [(each.line, each.word) for each in lint(name, source, PATTERNS)]


@pytest.mark.parametrize(
    "sentence",
    [
        "The queue is told of a change.",
        "The watch tells of deletes.",
        "A mapper gives it back.",
        "Somebody deletes the Pod.",
        "Whoever holds the Lease leads.",
        "The user whom the token names.",
        "Metrics for who scrapes them.",
        "The rights of the ServiceAccount.",
        "A right is missing.",
        "Connect anew.",
        "It waits for ever.",
        "The link is mended.",
        "The cache bears with lost events.",
        "The reconcile goes on.",
        "Pods that put up with the taint.",
        "Types of others.",
        "What is not there is ignored.",
        "Raises ValueError for what is none.",
        "Raises ValueError for a value that is no number.",
        "The object is no more.",
        "It is served no more.",
        "Each namespace is followed by itself.",
        "It waits in vain.",
        "The connection has had its day.",
        "The answer has come.",
        "ConfigMaps, Secrets and the like.",
        "It ends of its own accord.",
        "Flags that are heeded.",
        "A hindrance to syncing.",
        "A happening of the Pod.",
        "Ask once again.",
        "The process stands beside the server.",
        "The behaviour of the server.",
        "What becomes of a Pod.",
        "Replace what is there.",
        "Nothing is started any more.",
        "A namesake of the object.",
        "The request in hand.",
        "Immutable, but for the labels.",
        "The project has an own HTTP client.",
        "The session belongs into the lifespan.",
        "Its present generation is 2.",
        "Pods run as processes of this machine.",
        "The life cycle of a Pod.",
        "One look-up in the tool chain.",
    ],
)
def test_a_phrase_to_avoid_is_found(sentence: str) -> None:
    assert found("page.md", sentence) != []


@pytest.mark.parametrize(
    "sentence",
    [
        "The queue receives each change once.",
        "All rights reserved.",
        "The command on the right is the right one; right after it the test ends.",
        "There is no cache, and the value is no longer than 10 characters.",
        "There are no more pages; the limit is no more than ten.",
        "We recommend to amend the commit.",
        "Users who have a token can read forbidden pages.",
        "Give the Manager a name.",
        "The operator gives it up.",
        "The label goes on to the next column.",
        "It forgets nothing.",
        "Consider the outcome.",
        "Not for the cache but for users; are there any more pages?",
        "The condition is present, and the addresses of this machine are its own.",
    ],
)
def test_good_english_is_not_found(sentence: str) -> None:
    assert found("page.md", sentence) == []


def test_python_is_checked_in_docstrings_comments_messages_and_names_of_tests() -> None:
    source = '''\
"""Gives the port.

More about whoever asks.
"""

# A comment that goes
# on in the next line.
somebody = "whoever"
raise ValueError(f"{somebody!r} is no number")


def test_the_owner_is_told() -> None: ...
'''
    assert found("module.py", source) == [
        (1, "Gives"),
        (3, "whoever"),
        (6, "goes on"),
        (9, "is no"),
        (12, "told"),
    ]


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    source = '''\
"""The functions of a module."""


class Count:
    """The number of objects."""

    @property
    def total(self) -> int:
        """The number of all objects."""


def is_empty(values: list[str]) -> bool:
    """Whether there are no values."""


async def first(values: list[str]) -> str:
    """`values[0]`, the first one."""


def last(values: list[str]) -> str:
    """Return the last value."""


@fixture
def values() -> list[str]:
    """The values of the test."""
'''
    assert found("module.py", source) == [(13, "Whether"), (17, "`code`")]


def test_names_and_code_in_docstrings_are_not_prose() -> None:
    assert found("module.py", '"""Call `tell(somebody)` first."""\n\nanew = whoever(rights)\n') == []


def test_markdown_is_checked_outside_of_code() -> None:
    source = """\
# Who is told

| column | `somebody` |
|---|---|
| for ever | [a link](kinds-for-ever.md) |

```python
somebody = anew  # goes on
```

    $ kubewright whoever

A line that goes
on below.

- An item, anew.
"""
    assert found("page.md", source) == [(1, "told"), (5, "for ever"), (13, "goes on"), (16, "anew")]


def test_a_phrase_does_not_span_paragraphs() -> None:
    assert found("page.md", "It goes\n\non.\n") == []


@pytest.mark.parametrize("name", ["Makefile", "README.md.j2", "pyproject.toml"])
def test_other_files_are_checked_line_by_line(name: str) -> None:
    assert found(name, "name: ## Make it.\nrun: ## Run it for ever.\n") == [(2, "for ever")]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("module.py", "# prose: allow anew: the name of a film\ntext = 'begin anew'\n"),
        ("module.py", "text = 'begin anew'  # prose: allow anew: the name of a film\n"),
        ("page.md", "<!-- prose: allow anew: the name of a film -->\nBegin anew.\n"),
        ("page.md", "Begin anew. <!-- prose: allow anew: the name of a film -->\n"),
    ],
)
def test_a_comment_keeps_a_word(name: str, source: str) -> None:
    assert found(name, source) == []


def test_an_exemption_needs_a_reason() -> None:
    assert found("module.py", "text = 'begin anew'  # prose: allow anew\n") == [(1, "prose: allow")]


def test_an_exemption_that_is_not_needed_is_found() -> None:
    assert found("module.py", "text = 'begin'  # prose: allow anew: a film\n") == [(1, "# prose: allow anew: a film")]


def test_an_exemption_keeps_no_other_word() -> None:
    assert found("module.py", "text = 'begin anew, somebody'  # prose: allow anew: a film\n") == [(1, "somebody")]


def test_texts_that_are_not_ours_are_skipped(tmp_path: Path) -> None:
    for name in (
        "packages/kubewright/src/kubewright/apis/core/v1.py",
        "tests/golden/page.md",
        ".venv/lib/module.py",
        "docs/page.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [each.name for each in files([tmp_path])] == ["page.md"]


def test_findings_are_printed_and_are_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Well.\nBegin anew.\n")
    command = [sys.executable, VOCABULARY.with_suffix(".py"), page]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, f'{page}:2: "anew": write "again" instead\n')
    page.write_text("Well.\nBegin again.\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
