"""How the commands that write files write them, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from kubewright.cli import console
from kubewright.manifests.generated import Change

F = TypeVar("F", bound=Callable[..., object])


def options(function: F) -> F:
    """`--check`, `--verbose` and `--output`: what `write` is given."""
    check = click.option("--check", is_flag=True, help="Write nothing; fail when a file is not what it would be.")
    verbose = click.option("--verbose", "-v", is_flag=True, help="Show how files differ.")
    return check(verbose(console.output_option(function)))


def write(root: Path, changes: Sequence[Change], *, check: bool, verbose: bool, output: str) -> None:
    """Make the changes, or with `check` fail when there are any. Paths are told from `root`."""
    names = {change: change.path.relative_to(root).as_posix() for change in changes}
    if output == "json":
        listed = [{"path": name, "action": change.action} for change, name in names.items()]
        console.document({"upToDate": not changes, "changes": listed})
    for change, name in names.items():
        if verbose and output == "text":
            console.say(change.diff(name).rstrip("\n"))
        if not check:
            change.apply()
            if output == "text":
                console.say(f"{'removed' if change.action == 'remove' else 'wrote'} {name}")
    if changes and check:
        raise click.ClickException(f"not up to date: {', '.join(names.values())}; run this without --check")
    if not changes and output == "text":
        console.say("everything is up to date")
