"""`kubewright create controller`: add a controller for an existing kind."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright.machinery.errors import ConfigError
from kubewright_cli.asking import Name, required
from kubewright_cli.commands.create.writing import say_next, write_with_controller
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.kinds import known_kind
from kubewright_cli.scaffold.names import kind_errors, version_errors
from kubewright_cli.scaffold.record import Record, project_root


@click.command("controller")
@click.option(
    "--group",
    default="",
    help="API group. For kinds of this project, without the domain.  [default: that of the kind]",
)
@click.option("--version", type=Name(version_errors), help="Version of the kind.")
@click.option("--kind", type=Name(kind_errors), help="The kind.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(group: str, version: str | None, kind: str | None, force: bool) -> None:
    """Add a controller for an existing kind of this project or of Kubernetes.

    \b
    Examples:
      kubewright create controller --group ship --version v1beta1 --kind Frigate
      kubewright create controller --group apps --version v1 --kind Deployment
      kubewright create controller --version v1 --kind Pod
    """
    root = project_root()
    record = Record.load(root)
    version = required("--version", version, "What version", version_errors)
    kind = required("--kind", kind, "What kind", kind_errors)
    create_controller(root, record, group, version, kind, force=force)


def create_controller(root: Path, record: Record, group: str, version: str, kind: str, *, force: bool) -> None:
    """Write a controller for the kind that the options name."""
    resource = known_kind(record, group, version, kind)
    holders = [each for each in record.versions_of(resource.group, kind) if each.controller]
    if holders and not (force and resource in holders):
        raise ConfigError(f"{kind} already has a controller, for {holders[0].api_version}; a kind has one controller")
    write_with_controller(plan.controller(root, record, resource), force=force)
    say_next("the controller and its test")
