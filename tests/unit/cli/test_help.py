"""`--help`: each command shows how it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from kubewright_cli.main import cli


def leaves(context: click.Context) -> Iterator[click.Context]:
    """Yield the commands without subcommands."""
    if not isinstance(context.command, click.Group):
        yield context
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        assert command is not None
        yield from leaves(click.Context(command, info_name=name, parent=context))


LEAVES = list(leaves(click.Context(cli, info_name="kubewright")))


@pytest.mark.parametrize("context", LEAVES, ids=lambda each: each.command_path)
def test_help_has_examples_whose_options_exist(context: click.Context) -> None:
    shown = context.get_help()
    examples = re.findall(rf"^ +{context.command_path}(?: .*)?$", shown.partition("Example")[2], flags=re.M)
    assert examples
    options = {option for each in context.command.params for option in (*each.opts, *each.secondary_opts)}
    for example in examples:
        named = set(re.findall(r"(?<= )--?[a-z][a-z-]*", example))
        assert context.command.context_settings.get("ignore_unknown_options") or named <= options, example
