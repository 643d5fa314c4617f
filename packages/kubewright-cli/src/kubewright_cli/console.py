"""How commands speak: lines, warnings, tables, progress, and documents for machines.

On standard output stands what a command was asked for; on standard error what it has to say about its work. Colours and
progress that moves are for terminals: into a pipe or a file goes plain text, a line at a time. `NO_COLOR` and
`--no-color` turn colours off (https://no-color.org); nothing is said by colour alone.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

_PATIENCE: Final = 1.0
"""Seconds until somebody who waits is told for what."""
_FRAME: Final = 0.2
_GAP: Final = "   "


def say(text: str) -> None:
    """A line on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """A line on standard error: of interest to a person, in the way of a machine."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """What went another way than one would expect, but is no failure."""
    click.echo(f"{click.style('Warning:', fg='yellow')} {text}", err=True)


def good(text: str) -> str:
    """`text` in the colour of what is as it should be."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """`text` in the colour of what somebody has to do something about."""
    return click.style(text, fg="red")


def strong(text: str) -> str:
    """`text` as what the eye should find first."""
    return click.style(text, bold=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under their header, in columns, as kubectl prints them."""
    lines = [header, *rows]
    widths = [max(len(click.unstyle(line[column])) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(line, widths, strict=True)]
        click.echo(_GAP.join(cells).rstrip())


def output_option(function: F) -> F:
    """`--output text|json`, for a command whose answer machines read too: see `document`."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the answer.",
    )(function)


def document(content: object) -> None:
    """A JSON document on standard output: the whole of what `--output json` prints."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))


@contextmanager
def progress(what: str) -> Generator[Progress]:
    """Tell on standard error what is waited for, while the block runs and once it has taken longer than a second.

    A terminal sees one line that counts the seconds, and is gone at the end; anything else gets a line for each thing.
    The block may go on to another thing: `step("2 of 3 Pods are ready")`.
    """
    telling = Progress(what)
    thread = threading.Thread(target=telling.run, name="progress", daemon=True)
    thread.start()
    try:
        yield telling
    finally:
        telling.end()
        thread.join()


class Progress:
    """What is being waited for; see `progress`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ended = threading.Event()
        self._moves = sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        """`what` is waited for from now on."""
        self._what = what

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        waited = _PATIENCE
        told = ""
        if self._ended.wait(_PATIENCE):
            return
        while True:
            what = self._what
            if self._moves:
                click.echo(f"\r\x1b[K{what} ... {waited:.0f} s", err=True, nl=False)
            elif what != told:
                click.echo(f"{what} ...", err=True)
            told = what
            if self._ended.wait(_FRAME):
                break
            waited += _FRAME
        if self._moves:
            click.echo("\r\x1b[K", err=True, nl=False)
