"""`kubewright run`: the project's operator, as a process on this machine."""

from __future__ import annotations

import click

from kubewright.cli.project import Project
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.manager.program import run_program


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the operator of this project against the cluster of $KUBECONFIG.

    Takes the flags of the operator itself: `kubewright run --help` lists them.
    """
    run_program(_manager(arguments), arguments)


def _manager(arguments: tuple[str, ...]) -> Manager:
    """The project's; where there is no project, one that can tell the flags that all have."""
    try:
        return Project.load().manager
    except ConfigError:
        if {"-h", "--help"}.isdisjoint(arguments):
            raise
        return Manager(name="kubewright run")
