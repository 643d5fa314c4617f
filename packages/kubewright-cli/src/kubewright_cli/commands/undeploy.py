"""`kubewright undeploy`: remove the project's operator from a cluster."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from kubewright.client import Client
from kubewright_cli import console
from kubewright_cli.deployed import (
    Target,
    confirmed,
    namespace_option,
    print_deletions,
    timeout_option,
    unfinished,
    yes_option,
)
from kubewright_cli.deployment.apply import undeploy
from kubewright_cli.deployment.crds import customs, listed, unconvertible
from kubewright_cli.deployment.embedded import forget_images
from kubewright_cli.deployment.ownership import require_own
from kubewright_cli.deployment.pods import images_of

_OTHER: Final = (
    "Nothing was changed. Run this command in the folder of the other project; `kubewright uninstall` removes the CRDs "
    "of this one"
)
_REMAINS: Final = (
    "what is listed above is deleted, the rest is being deleted or remains; run the same command to finish"
)


@click.command("undeploy")
@click.option("--keep-crds", is_flag=True, help="Keep the CRDs and every object of their kinds.")
@yes_option
@timeout_option(120)
@namespace_option
def command(
    keep_crds: bool, yes: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Remove the operator of this project and its CRDs from the cluster of the kubeconfig.

    Objects of its kinds, in any version, are deleted first, while the manager runs and can finalize them. The command
    asks at a terminal before it deletes them. Without a terminal, --yes or --keep-crds is required. Missing objects are
    not an error. The command waits until everything is gone.

    \b
    Examples:
      kubewright undeploy
      kubewright undeploy --keep-crds        the objects of its kinds remain
    """
    target = Target.of(kubeconfig, context, namespace=namespace)
    done = asyncio.run(_undeploy(target, keep_crds=keep_crds, yes=yes, timeout=timeout))
    sys.exit(0 if done else 1)


async def _undeploy(target: Target, *, keep_crds: bool, yes: bool, timeout: int) -> bool:
    manifests = target.manifests
    async with target.client() as client:
        await require_own(client, manifests, _OTHER)
        if not keep_crds and not await confirmed(
            client, manifests.crds, yes=yes, or_else=", or --keep-crds to keep them"
        ):
            console.note("Nothing was deleted.")
            return False
        if keep_crds:
            await _warn_of_finalizers(client, target)
        images = {manifests.settings.image, *await images_of(client, manifests)}
        with unfinished(_REMAINS) as done, console.progress("Deleting") as step:
            changes = undeploy(client, manifests, keep_crds=keep_crds, timeout=timeout)
            await print_deletions(changes, done, step)
        if not done.changes:
            settings = manifests.settings
            console.say(f"Nothing of {settings.name} is deployed in namespace {settings.namespace}")
    forget_images(target.config, target.project.root, manifests.settings.manager, images)
    return True


async def _warn_of_finalizers(client: Client, target: Target) -> None:
    """Objects with finalizers that remain cannot be deleted until the operator runs again."""
    definitions = target.manifests.crds
    broken = await unconvertible(client, definitions)
    known = [crd for crd in definitions if crd["metadata"]["name"] not in broken]
    held = [each for each in await customs(client, known) if each.finalizers]
    if held:
        what = "1 object has" if len(held) == 1 else f"{len(held)} objects have"
        console.warn(f"{what} finalizers, and cannot be deleted until the operator runs again: {listed(held)}")
