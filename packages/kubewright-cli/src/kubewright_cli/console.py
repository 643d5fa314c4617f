"""Output of commands: lines, warnings, tables, progress, and JSON documents.

Results go to standard output; warnings and progress go to standard error. Colors and moving progress are for terminals:
a pipe or a file gets plain lines. `NO_COLOR` and `--no-color` turn colors off (https://no-color.org). Color never
carries meaning alone.
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

_DELAY: Final = 1.0
"""Seconds before progress is shown."""
_INTERVAL: Final = 0.2
"""Seconds between two updates of the progress."""
_GAP: Final = "   "


def say(text: str) -> None:
    """Print a line on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """Print a line on standard error: for people, not for scripts."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    click.echo(f"{click.style('Warning:', fg='yellow')} {text}", err=True)


def good(text: str) -> str:
    """Return `text` in the color of success."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """Return `text` in the color of a problem."""
    return click.style(text, fg="red")


def strong(text: str) -> str:
    """Return `text` in bold."""
    return click.style(text, bold=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header, in columns, like kubectl."""
    lines = [header, *rows]
    widths = [max(len(click.unstyle(line[column])) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(line, widths, strict=True)]
        click.echo(_GAP.join(cells).rstrip())


def output_option(function: F) -> F:
    """Add `--output text|json` to a command that scripts use. `document` prints the JSON."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Output format.",
    )(function)


def document(content: object) -> None:
    """Print a JSON document on standard output: the whole output of `--output json`."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))


@contextmanager
def progress(what: str) -> Generator[Progress]:
    """Show on standard error what the block waits for, if it takes longer than a second.

    A terminal shows one line that counts the seconds and disappears at the end. Other outputs get one line for each
    step. The block reports a new step by calling the result: `step("2 of 3 Pods are ready")`.
    """
    shown = Progress(what)
    thread = threading.Thread(target=shown.run, name="progress", daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        shown.end()
        thread.join()


class Progress:
    """The progress display; see `progress`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ended = threading.Event()
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        """Show `what` as the current step."""
        self._what = what

    def end(self) -> None:
        """Remove the display."""
        self._ended.set()

    def run(self) -> None:
        """Display the progress until `end` is called."""
        waited = _DELAY
        printed = ""
        if self._ended.wait(_DELAY):
            return
        while True:
            what = self._what
            if self._is_terminal:
                click.echo(f"\r\x1b[K{what} ... {waited:.0f} s", err=True, nl=False)
            elif what != printed:
                click.echo(f"{what} ...", err=True)
            printed = what
            if self._ended.wait(_INTERVAL):
                break
            waited += _INTERVAL
        if self._is_terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
