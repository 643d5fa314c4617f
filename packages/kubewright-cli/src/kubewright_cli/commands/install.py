"""`kubewright install`: the project's CRDs into a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kubewright.client._config import Config
from kubewright.models import custom_resource_definitions
from kubewright_cli import console
from kubewright_cli.deployed import client_of
from kubewright_cli.deployment import crds
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project


@click.command("install")
@kubeconfig_options
def command(kubeconfig: Path | None, context: str | None) -> None:
    """Install the CRDs of this project, or bring them up to date, and wait until they are served.

    Uses the cluster of --kubeconfig or $KUBECONFIG. A second install changes nothing.

    \b
    Examples:
      kubewright install
      kubewright install --context staging
    """
    project = Project.load()
    asyncio.run(install(project, config_of(kubeconfig, context)))


async def install(project: Project, config: Config) -> None:
    """Apply the CRDs of `project`, and wait until they are served."""
    definitions = custom_resource_definitions(project.kinds)
    async with client_of(config) as client:
        with console.progress("Installing"):
            async for change in crds.install(client, definitions):
                console.say(str(change))
