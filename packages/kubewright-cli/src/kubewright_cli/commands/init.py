"""`kubewright init`: a project in an empty folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.asking import SWITCH, Name, not_here, required
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.names import domain_faults, package_name, project_faults
from kubewright_cli.scaffold.record import FILE, Record


def python_faults(version: str) -> list[str]:
    if not re.fullmatch(r"3\.[1-9][0-9]?", version) or int(version[2:]) < 11:
        return ["must be like 3.12, and 3.11 or newer"]
    return []


@click.command("init")
@click.option("--domain", type=Name(domain_faults), help="Domain that the names of API groups end with.")
@click.option(
    "--project-name", type=Name(project_faults), help="Name of the project.  [default: the name of the folder]"
)
@click.option("--namespaced", default=False, help="Let the operator work in its own namespace alone.", **SWITCH)
@click.option("--multigroup", default=False, help="Make room for several API groups.", **SWITCH)
@click.option(
    "--python", type=Name(python_faults), help="Oldest Python to support, and that of the image.  [default: this one]"
)
@click.option("--owner", default="", help="Author, for pyproject.toml.")
@click.option("--license", default="", help="SPDX name of the license, for pyproject.toml.")
@not_here("--repo", "a Python project has no module path; leave it out")
@not_here("--plugins", "there is one layout; leave it out")
def command(
    domain: str | None,
    project_name: str | None,
    namespaced: bool,
    multigroup: bool,
    python: str | None,
    owner: str,
    license: str,
) -> None:
    """Make an operator's project of the current folder, which has to be empty.

    What a repository begins with may be there: hidden files, README.md, LICENSE. It is left as it is.

    \b
    Examples:
      kubewright init --domain example.com
      kubewright init --domain my.domain --project-name webserver-operator
      kubewright init --domain example.com --namespaced --multigroup --license Apache-2.0
    """
    root = Path.cwd()
    refuse_full(root)
    faults = project_faults(root.name)
    own = None if faults else root.name
    domain = required("--domain", domain, "What domain do the names of your API groups end with", domain_faults)
    if not (project_name or own):
        console.warn(f'the folder\'s name cannot be that of the project: "{root.name}" {faults[0]}')
    name = project_name or own or required("--project-name", None, "What is the project called", project_faults)
    record = Record(name, domain, package_name(name), multigroup=multigroup, namespaced=namespaced)
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    changes = plan.project(root, record, plan.Packaging(python or current, license, owner))
    written = changes.paths
    changes.write()
    for path in written:
        console.say(f"wrote {path}")
    console.say("\nNext: a kind, and its controller:\n\n  kubewright create api --version v1 --kind <Kind>")


def refuse_full(root: Path) -> None:
    """Raise ConfigError when there is something in the folder that a project would be mixed with."""
    if (root / FILE).exists():
        raise ConfigError(f"{root} is a project already; `kubewright create` adds to it, `kubewright edit` changes it")
    found = sorted(each.name for each in root.iterdir() if not each.name.startswith(".") and each.name not in plan.KEPT)
    if found:
        listed = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise ConfigError(f"{root} is not empty ({listed}); make a folder for the project, and run this in it")
