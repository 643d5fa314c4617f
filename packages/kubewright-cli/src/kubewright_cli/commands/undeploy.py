"""`kubewright undeploy`: the project's operator out of a cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from kubewright_cli import console
from kubewright_cli.deployed import Target, agreed, namespace_option, timeout_option, when_interrupted, yes_option
from kubewright_cli.deployment.apply import undeploy
from kubewright_cli.deployment.embedded import table_of
from kubewright_cli.deployment.pods import images_of

_INTERRUPTED: Final = "what is named above goes, the rest is still there; the same command removes it"


@click.command("undeploy")
@click.option("--keep-crds", is_flag=True, help="Leave the CRDs there, and with them every object of their kinds.")
@yes_option
@timeout_option(120)
@namespace_option
def command(
    keep_crds: bool, yes: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Remove the operator of this project from the cluster of the kubeconfig, with its CRDs.

    The objects of its kinds are deleted first, while the manager runs and can finish them. At a terminal it asks before
    they are lost; --yes answers, --keep-crds leaves them. What is not there is fine. It ends when all is gone.

    \b
    Examples:
      kubewright undeploy
      kubewright undeploy --keep-crds        the objects of its kinds stay
    """
    target = Target.of(kubeconfig, context, namespace=namespace)
    done = asyncio.run(_undeploy(target, keep_crds=keep_crds, yes=yes, timeout=timeout))
    sys.exit(0 if done else 1)


async def _undeploy(target: Target, *, keep_crds: bool, yes: bool, timeout: int) -> bool:
    manifests = target.manifests
    async with target.client() as client:
        if not keep_crds and not await agreed(client, manifests.crds, yes=yes):
            console.note("Nothing was removed.")
            return False
        images = await images_of(client, manifests)
        removed = 0
        with when_interrupted(_INTERRUPTED), console.progress("Removing"):
            changes = undeploy(client, manifests.settings, manifests.objects(), keep_crds=keep_crds, timeout=timeout)
            async for change in changes:
                if change.outcome == "deleted":
                    removed += 1
                    console.say(str(change))
        if not removed:
            settings = manifests.settings
            console.say(f"Nothing of {settings.name} is deployed in namespace {settings.namespace}")
    table = table_of(target.config)
    if table is not None:
        for image in images:
            table.remove(image)
    return True
