"""`kubewright init`: create a project in an empty folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.asking import SWITCH, Name, not_here, required
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.names import domain_errors, package_name, project_errors
from kubewright_cli.scaffold.record import FILE, Record


def python_errors(version: str) -> list[str]:
    if not re.fullmatch(r"3\.[1-9][0-9]?", version) or int(version[2:]) < 11:
        return ["must be a version like 3.12, and at least 3.11"]
    return []


@click.command("init")
@click.option("--domain", type=Name(domain_errors), help="Domain of the API groups.")
@click.option(
    "--project-name", type=Name(project_errors), help="Name of the project.  [default: the name of the folder]"
)
@click.option("--namespaced", default=False, help="Restrict the operator to its own namespace.", **SWITCH)
@click.option("--multigroup", default=False, help="Allow several API groups.", **SWITCH)
@click.option(
    "--python",
    type=Name(python_errors),
    help="Oldest supported Python. The image and CI use 3.14 or newer.  [default: this one]",
)
@click.option("--owner", default="", help="Author, for pyproject.toml.")
@click.option("--license", default="", help="SPDX name of the license, for pyproject.toml.")
@not_here("--repo", "a Python project has no module path; omit the option")
@not_here("--plugins", "there is only one layout; omit the option")
def command(
    domain: str | None,
    project_name: str | None,
    namespaced: bool,
    multigroup: bool,
    python: str | None,
    owner: str,
    license: str,
) -> None:
    """Create an operator's project in the current folder, which must be empty.

    Hidden files, README.md and LICENSE may exist, and are not changed.

    \b
    Examples:
      kubewright init --domain example.com
      kubewright init --domain my.domain --project-name webserver-operator
      kubewright init --domain example.com --namespaced --multigroup --license Apache-2.0
    """
    root = Path.cwd()
    refuse_full(root)
    errors = project_errors(root.name)
    own = None if errors else root.name
    domain = required("--domain", domain, "What domain do the names of your API groups end with", domain_errors)
    if not (project_name or own):
        console.warn(f'the name of the folder cannot be the name of the project: "{root.name}" {errors[0]}')
    name = project_name or own or required("--project-name", None, "What is the project called", project_errors)
    record = Record(name, domain, package_name(name), multigroup=multigroup, namespaced=namespaced)
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    changes = plan.project(root, record, plan.Packaging(python or current, license, owner))
    written = changes.paths
    changes.write()
    for path in written:
        console.say(f"wrote {path}")
    console.say("\nNext: add a kind and its controller:\n\n  kubewright create api --version v1 --kind <Kind>")


def refuse_full(root: Path) -> None:
    """Raise ConfigError if the folder has files that do not belong to a new project."""
    if (root / FILE).exists():
        raise ConfigError(f"{root} already is a project; `kubewright create` adds to it, `kubewright edit` changes it")
    found = sorted(each.name for each in root.iterdir() if not each.name.startswith(".") and each.name not in plan.KEPT)
    if found:
        listed = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise ConfigError(f"{root} is not empty ({listed}); create a folder for the project, and run this in it")
