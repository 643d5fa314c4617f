"""`kubewright catalog`: check file-based catalogs for OLM."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright_cli import console
from kubewright_cli.commands.bundle.validate import report
from kubewright_cli.olm.validation import validate_catalog


@click.group("catalog")
def command() -> None:
    """Check file-based catalogs for OLM. `kubewright generate catalog` writes one."""


@command.command("validate", short_help="Check a file-based catalog by the rules of OLM.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="catalog")
@console.output_option
def validate(folder: Path, output: str) -> None:
    """Check the file-based catalog in FOLDER [default: catalog] by the rules of `opm validate`.

    Checks packages, channels with their upgrades, bundles, properties and deprecations. Prints each finding with its
    file, field and value, and what to do. Exit status 1 if there is one.

    \b
    Examples:
      kubewright catalog validate
      kubewright catalog validate my-catalog --output json
    """
    report(folder, validate_catalog(folder), output)
