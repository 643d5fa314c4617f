"""`kubewright deploy`: the project's operator into a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import click

from kubewright.client._client import Client
from kubewright.machinery.json import JSONObject
from kubewright_cli import console
from kubewright_cli.deployed import Target, namespace_option, timeout_option, when_interrupted
from kubewright_cli.deployment.apply import deploy
from kubewright_cli.deployment.embedded import image_of, mark, same_project, table_of
from kubewright_cli.deployment.rollout import RolloutFailed, wait_for_rollout
from kubewright_cli.options import image_option

_WHILE_APPLYING: Final = "what is named above is applied, the rest not yet; the same command goes on from there"
_WHILE_WAITING: Final = "all is applied, and Kubernetes goes on with it; `kubewright status` says how far it is"


@click.command("deploy")
@image_option
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the manager runs.")
@timeout_option(180)
@namespace_option
def command(image: str, wait: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Deploy the operator of this project to the cluster of the kubeconfig, or bring it up to date.

    Applies what `kubewright generate` writes: namespace, CRDs, RBAC, Deployment, services; removes what an earlier
    deploy left there that is no more of it; and waits for the manager's Pods. When they do not come up it says why.

    On an embedded control plane (`kubewright up`) no image is needed: the Pods run the project's code as it is.

    \b
    Examples:
      kubewright deploy
      kubewright deploy --image ghcr.io/me/operator:1.0 --namespace operators
    """
    target = Target.of(kubeconfig, context, namespace=namespace, image=image)
    asyncio.run(_deploy(target, timeout if wait else None))


async def _deploy(target: Target, timeout: int | None) -> None:
    documents = _documents(target)
    async with target.client() as client:
        outcomes: Counter[str] = Counter()
        with when_interrupted(_WHILE_APPLYING), console.progress("Applying"):
            async for change in deploy(client, target.manifests.settings, documents):
                outcomes[change.outcome] += 1
                if change.outcome != "unchanged":
                    console.say(str(change))
        if unchanged := outcomes["unchanged"]:
            console.say(f"{unchanged} {'object' if unchanged == 1 else 'objects'} unchanged")
        if timeout is not None:
            with when_interrupted(_WHILE_WAITING):
                await _wait(client, target, timeout)


def _documents(target: Target) -> list[JSONObject]:
    """What to apply. On an embedded control plane the image's command is put down there."""
    settings, documents = target.manifests.settings, target.manifests.objects()
    table = table_of(target.config)
    if table is not None:
        root = target.project.root
        image = image_of(root, settings.manager)
        before = table.get(settings.image)
        if before is not None and not same_project(before, image):
            console.warn(
                f"until now the image {settings.image} was another project's on this control plane: its Pods will run "
                "this one's code when they start again; give one of them another image (--image, or [tool.kubewright])"
            )
        table.put(settings.image, image)
        for each in documents:
            if each["kind"] == "Deployment":
                mark(each, root, image)
    return documents


async def _wait(client: Client, target: Target, timeout: int) -> None:
    settings = target.manifests.settings
    try:
        with console.progress("Waiting for the manager") as tell:
            await wait_for_rollout(client, target.manifests, timeout=timeout, tell=tell)
    except RolloutFailed as failure:
        if failure.log:
            console.note("The last that it wrote:")
        for line in failure.log:
            console.note(f"  {line}")
        raise
    console.say(console.good(f"{settings.name} runs in namespace {settings.namespace}"))
