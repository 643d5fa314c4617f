"""`kubewright install`: install the project's CRDs in a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from kubewright.client import Client, Config
from kubewright.models import custom_resource_definitions
from kubewright.webhooks import webhook_objects
from kubewright_cli import console
from kubewright_cli.deployed import NO_CRDS, client_of, unfinished
from kubewright_cli.deployment import crds
from kubewright_cli.deployment.conversions import is_converted
from kubewright_cli.manifests.versions import lost_fields
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

_REMAINS: Final = "the CRDs listed above are applied, the others are not; run the same command to finish"


@click.command("install")
@kubeconfig_options
def command(kubeconfig: Path | None, context: str | None) -> None:
    """Install or update the CRDs of this project, and wait until they are served.

    Uses the cluster of --kubeconfig or $KUBECONFIG. A second install changes nothing. CRDs keep the conversion webhook
    of a deployed operator, and get none otherwise: then, the command warns if versions have different fields.

    \b
    Examples:
      kubewright install
      kubewright install --context staging
    """
    asyncio.run(_run(Project.load(), config_of(kubeconfig, context)))


async def _run(project: Project, config: Config) -> None:
    async with client_of(config) as client:
        await install(project, client)
        await _warn_of_missing_conversions(project, client)


async def install(project: Project, client: Client) -> None:
    """Apply the CRDs of `project`, and wait until they are served."""
    definitions = custom_resource_definitions(project.kinds)
    if not definitions:
        console.say(NO_CRDS)
        return
    with unfinished(_REMAINS) as done, console.progress("Installing"):
        async for change in crds.install(client, definitions):
            done.changes += change.outcome != "unchanged"
            console.say(str(change))


async def _warn_of_missing_conversions(project: Project, client: Client) -> None:
    """Warn of versions with different fields that the program converts, and no running operator does."""
    names = webhook_objects(project.program.webhooks).definitions if project.program is not None else ()
    definitions = [crd for crd in custom_resource_definitions(project.kinds) if crd["metadata"]["name"] in names]
    unconverted = [crd for crd in definitions if not await is_converted(client, crd)]
    for kind in dict.fromkeys(each.kind for each in lost_fields(unconverted)):
        console.warn(
            f"{kind}: until `kubewright run` or `kubewright deploy` converts its objects, a write through one version "
            "deletes fields of the others"
        )
