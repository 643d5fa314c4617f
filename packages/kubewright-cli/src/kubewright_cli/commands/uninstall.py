"""`kubewright uninstall`: remove the project's CRDs from a cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from kubewright.client import Config
from kubewright.models import custom_resource_definitions
from kubewright_cli import console
from kubewright_cli.deployed import NO_CRDS, client_of, confirmed, timeout_option, unfinished, yes_option
from kubewright_cli.deployment import crds
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

_REMAINS: Final = "the CRDs listed above are deleted, the others are being deleted; run the same command to finish"


@click.command("uninstall")
@yes_option
@timeout_option(60)
@kubeconfig_options
def command(yes: bool, timeout: int, kubeconfig: Path | None, context: str | None) -> None:
    """Remove the CRDs of this project and every object of their kinds, in any version.

    Asks at a terminal before objects are deleted. Without a terminal, --yes is required. Missing CRDs are not an
    error. The command waits until the CRDs are gone. Objects with finalizers need their running operator
    for that.

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
    if not definitions:
        console.say(NO_CRDS)
        return True
    async with client_of(config) as client:
        if not await confirmed(client, definitions, yes=yes):
            console.note("Nothing was deleted.")
            return False
        with unfinished(_REMAINS) as done, console.progress("Deleting") as step:
            async for change in crds.uninstall(client, definitions, timeout=timeout):
                done.changes += change.outcome == "deleted"
                if change.outcome == "deleting":
                    step(str(change))
                else:
                    console.say(str(change))
    return True
