"""Options and output of the commands that write files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from kubewright_cli import console
from kubewright_cli.manifests.crd_changes import BreakingChange
from kubewright_cli.manifests.generated import Change

F = TypeVar("F", bound=Callable[..., object])


def check_options(function: F) -> F:
    """`--check` and `--verbose`."""
    check = click.option("--check", is_flag=True, help="Write nothing; fail if a file is out of date.")
    verbose = click.option("--verbose", "-v", is_flag=True, help="Show the differences.")
    return check(verbose(function))


def options(function: F) -> F:
    """Add `--check`, `--verbose` and `--output text|json`: the options of `write`."""
    return check_options(console.output_option(function))


def folder_option(function: F) -> F:
    """Add `--output FOLDER`."""
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("--output", "-o", "folder", type=kind, required=True, help="Folder to write.")(function)


def write(
    changes: Sequence[Change],
    *,
    check: bool,
    verbose: bool,
    output: str = "text",
    warnings: Sequence[str] = (),
    breaking: Sequence[BreakingChange] = (),
) -> None:
    """Make the changes and print the warnings. With `check`, fail if there are changes.

    Fails if there are `breaking` changes: what differs from the released CRDs.
    """
    for each in warnings:
        console.warn(each)
    if output == "json":
        listed = [{"path": change.name, "action": change.action} for change in changes]
        console.document(
            {
                "upToDate": not changes,
                "changes": listed,
                "warnings": list(warnings),
                "breakingChanges": [asdict(each) for each in breaking],
            }
        )
    for change in changes:
        if verbose and output == "text":
            console.say(change.diff().rstrip("\n"))
        if not check:
            change.apply()
            if output == "text":
                console.say(f"{'removed' if change.action == 'remove' else 'wrote'} {change.name}")
    if output == "text":
        for broken in breaking:
            console.say(f"{console.bad('Breaking change')}: {broken}")
    errors = _errors(changes if check else (), breaking)
    if errors:
        raise click.ClickException("; ".join(errors))
    if not changes and output == "text":
        console.say("everything is up to date")


def _errors(changes: Sequence[Change], breaking: Sequence[BreakingChange]) -> list[str]:
    errors: list[str] = []
    if changes:
        names = ", ".join(change.name for change in changes)
        errors.append(f"not up to date: {names}; run this without --check")
    if breaking:
        crds = ", ".join(sorted({each.crd for each in breaking}))
        count = f"{len(breaking)} change{'s' if len(breaking) > 1 else ''}"
        errors.append(f"{count} of {crds} would break users of the released CRDs; each is listed with a way out")
    return errors
