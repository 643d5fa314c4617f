"""Writes the files of an addition, and tells their author what is left to do."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.changes import Changes, WouldOverwrite


def write_with_controller(addition: plan.Addition, *, force: bool) -> None:
    """Write the files of an addition with a controller. Says what to add to a main.py that was not edited."""
    by_hand = addition.by_hand
    left = by_hand and (
        "main.py has changed since `kubewright init` wrote it, and was not edited. Add these lines to it:\n\n"
        f"  {by_hand.statement}\n\n  and to the Manager's controllers: {by_hand.reference()}"
    )
    write(addition.changes, (left,) if left else (), force=force)


def write(changes: Changes, by_hand: Sequence[str], *, force: bool) -> None:
    """Write files, and say what is left to their author."""
    written = changes.paths
    try:
        changes.write(overwrite=force)
    except WouldOverwrite as error:
        console.note(error.difference)
        raise ConfigError(f"{error}; --force overwrites it") from error
    for path in written:
        console.say(f"wrote {path}")
    for each in by_hand:
        console.warn(each)


def say_next(edited: str) -> None:
    """Say what to do after `create`."""
    console.say(f"\nNext: edit {edited}, then run\n\n  make manifests\n  make test")
