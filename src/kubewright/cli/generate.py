"""`kubewright generate`: CRDs and RBAC from the program, as files; and with `models`, types from the CRDs of others."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright.cli import models
from kubewright.cli.manifests import manifests
from kubewright.cli.project import Project


@click.group("generate", invoke_without_command=True)
@click.option("--check", is_flag=True, help="Write nothing; fail when a file is not what it would be.")
@click.pass_context
def command(context: click.Context, check: bool) -> None:
    """Write CRDs and RBAC of this project to config/, from what its types and controllers declare.

    \b
    config/crd/bases/<group>_<plural>.yaml    a CRD for each kind
    config/rbac/*.yaml                        roles of the manager and for leader election, account, bindings
    """
    if context.invoked_subcommand is None:
        _generate(check)


def _generate(check: bool) -> None:
    project = Project.load()
    stale = [path for path, text in manifests(project) if not _is(path, text)]
    if check and stale:
        listed = ", ".join(str(path.relative_to(project.root)) for path in stale)
        raise click.ClickException(f"not up to date: {listed}; run `kubewright generate`")
    for path, text in manifests(project):
        if path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            click.echo(f"wrote {path.relative_to(project.root)}")
    if not stale:
        click.echo("everything is up to date")


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


command.add_command(models.command)
