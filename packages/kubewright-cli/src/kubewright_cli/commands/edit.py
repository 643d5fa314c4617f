"""`kubewright edit`: change the layout of a project."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.asking import SWITCH
from kubewright_cli.scaffold.changes import Changes
from kubewright_cli.scaffold.record import FILE, Record, project_root
from kubewright_cli.scaffold.settings import with_setting

_SETTINGS: Final = "pyproject.toml"


@click.command("edit")
@click.option("--multigroup", help="Allow several API groups.", **SWITCH)
@click.option("--namespaced", help="Restrict the operator to its own namespace.", **SWITCH)
def command(multigroup: bool | None, namespaced: bool | None) -> None:
    """Change the layout of this project: one or several API groups, one or all namespaces.

    With several groups, kinds that you create later get a package for their group. Existing kinds stay where they are.

    \b
    Examples:
      kubewright edit --multigroup
      kubewright edit --namespaced=false
    """
    if multigroup is None and namespaced is None:
        raise click.UsageError("nothing to change; pass --multigroup or --namespaced")
    root = project_root()
    record = Record.load(root)
    changes = Changes(root)
    if namespaced is not None and namespaced != record.namespaced:
        record = replace(record, namespaced=namespaced)
        changes.edit(_SETTINGS, _settings(root, namespaced))
    if multigroup is not None:
        if not multigroup:
            _require_one_group(record)
        record = replace(record, multigroup=multigroup)
    changes.edit(FILE, record.text())
    written = changes.paths
    changes.write()
    for path in written:
        console.say(f"wrote {path}")
    if namespaced and written:
        _warn_about_cluster_scope(record)
    if not written:
        console.say("nothing to change")
    elif _SETTINGS in written:
        console.say("\nNext: make manifests")


def _settings(root: Path, namespaced: bool) -> str:
    """Return pyproject.toml with the operator in its own namespace or in all namespaces."""
    try:
        return with_setting((root / _SETTINGS).read_text(), "watch-namespaces", "own" if namespaced else None)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{root / _SETTINGS}: {error}") from error


def _warn_about_cluster_scope(record: Record) -> None:
    """Warn of controllers whose objects belong to no namespace: their children may be in any."""
    found = [each.kind for each in record.resources if each.controller and each.is_cluster_scoped]
    if found:
        console.warn(
            f"{', '.join(found)}: objects of this kind belong to no namespace, and the operator now reads and writes "
            "namespaced objects in its own namespace only. If a controller has children in other namespaces, undo this "
            "with `kubewright edit --namespaced=false`, or list the namespaces in watch-namespaces of [tool.kubewright]"
        )


def _require_one_group(record: Record) -> None:
    groups = sorted({each.api_group for each in record.resources if each.api})
    if len(groups) > 1:
        raise ConfigError(f"--multigroup=false: the project has kinds in several groups: {', '.join(groups)}")
