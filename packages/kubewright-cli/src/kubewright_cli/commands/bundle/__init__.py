"""`kubewright bundle`: check bundles for OLM, and install them without OLM."""

from __future__ import annotations

import click

from kubewright_cli.commands.bundle import cleanup, run, upgrade, validate


@click.group("bundle")
def command() -> None:
    """Check bundles for OLM, and install them in a cluster without OLM. `kubewright generate bundle` writes one.

    \b
    Examples:
      kubewright bundle validate
      kubewright bundle run
      kubewright bundle upgrade
      kubewright bundle cleanup
    """


for each in (validate.command, run.command, upgrade.command, cleanup.command):
    command.add_command(each)
