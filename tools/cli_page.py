"""Writes the reference in `docs/cli.md`: the `--help` of each command, below the heading `## Commands`.

cli_page.py [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click

from kubewright_cli.main import cli

PAGE: Final = Path(__file__).parent.parent / "docs" / "cli.md"
HEADING: Final = "## Commands\n"


def page(introduction: str) -> str:
    """Return the page: the introduction, then the reference."""
    context = click.Context(cli, info_name="kubewright")
    sections = [_section(each) for each in _commands(context) if each.parent is not None]
    return f"{introduction}{HEADING}\n" + "\n".join(sections)


def _commands(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from _commands(click.Context(command, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    text = cleandoc(context.command.help or "").replace("\b\n", "\b")
    paragraphs = [_paragraph(each) for each in text.split("\n\n")]
    options = [each for each in context.command.params if isinstance(each, click.Option) and each.help]
    rows = "".join(_row(each, context) for each in options)
    table = f"\n| option | |\n|---|---|\n{rows}" if rows else ""
    return f"### {context.command_path}\n\n    {usage}\n\n" + "\n\n".join(paragraphs) + f"\n{table}"


def _paragraph(text: str) -> str:
    if not text.startswith("\b"):
        return " ".join(text.split("\n"))
    lines = text.removeprefix("\b").splitlines()
    if lines[0] in ("Examples:", "Example:"):
        lines = [each.removeprefix("  ") for each in lines[1:]]
    return "\n".join(f"    {each}".rstrip() for each in lines)


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    names, text = (re.sub(r"\s+", " ", each).replace("|", "\\|").replace("] [", "; ") for each in record)
    return f"| `{names}` | {text} |\n"


def main() -> int:
    written = PAGE.read_text()
    introduction, heading, _ = written.partition(HEADING)
    if not heading:
        sys.exit(f"{PAGE} has no line {HEADING!r}")
    made = page(introduction)
    if made == written:
        return 0
    if "--check" in sys.argv:
        print("docs/cli.md differs from --help; run `make generate`")
        return 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
