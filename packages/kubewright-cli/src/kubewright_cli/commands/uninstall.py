"""`kubewright uninstall`: the project's CRDs out of a cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from kubewright.client._config import Config
from kubewright.models import custom_resource_definitions
from kubewright_cli import console
from kubewright_cli.deployed import agreed, client_of, timeout_option, yes_option
from kubewright_cli.deployment import crds
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project


@click.command("uninstall")
@yes_option
@timeout_option(60)
@kubeconfig_options
def command(yes: bool, timeout: int, kubeconfig: Path | None, context: str | None) -> None:
    """Remove the CRDs of this project, and with them every object of their kinds.

    At a terminal it asks before objects are lost; --yes answers. CRDs that are not there are fine. It ends when they
    are gone: objects with finalizers need their operator for that.

    \b
    Examples:
      kubewright uninstall
      kubewright uninstall --yes --context staging
    """
    project = Project.load()
    done = asyncio.run(_uninstall(project, config_of(kubeconfig, context), yes=yes, timeout=timeout))
    sys.exit(0 if done else 1)


async def _uninstall(project: Project, config: Config, *, yes: bool, timeout: int) -> bool:
    definitions = custom_resource_definitions(project.kinds)
    async with client_of(config) as client:
        if not await agreed(client, definitions, yes=yes):
            console.note("Nothing was removed.")
            return False
        with console.progress("Removing"):
            async for change in crds.uninstall(client, definitions, timeout=timeout):
                console.say(str(change))
    return True
