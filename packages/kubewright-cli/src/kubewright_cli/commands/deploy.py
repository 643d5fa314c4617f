"""`kubewright deploy`: deploy the project's operator to a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from kubewright.client import Client
from kubewright.machinery.errors import Forbidden, InternalError
from kubewright.machinery.json import JSONObject
from kubewright_cli import console
from kubewright_cli.commands.migrate import migrate
from kubewright_cli.deployed import Target, failing_log, namespace_option, print_changes, timeout_option, unfinished
from kubewright_cli.deployment import crds, migration
from kubewright_cli.deployment.apply import deploy
from kubewright_cli.deployment.compatibility import undecodable_objects
from kubewright_cli.deployment.crds import TerminatingCRD
from kubewright_cli.deployment.embedded import image_of, mark, put_image, table_of
from kubewright_cli.deployment.ownership import claim, require_own
from kubewright_cli.deployment.pods import Workload
from kubewright_cli.deployment.rollout import (
    replace_pods,
    wait_for_leader,
    wait_for_rollout,
    wait_for_webhooks,
)
from kubewright_cli.image.imports import missing_requirements
from kubewright_cli.image.project import ImageProject
from kubewright_cli.manifests.versions import lost_fields
from kubewright_cli.options import image_option

_WHILE_APPLYING: Final = "what is listed above is applied, the rest is not; run the same command to finish"
_TAKE_OVER: Final = (
    "Nothing was changed. Rename this project (name in [project]), or replace the other operator with --take-over"
)
_WHILE_FINALIZING: Final = "the manager is applied, the CRDs are not; run the same command to finish"
_WHILE_WAITING: Final = "everything is applied, and Kubernetes continues; `kubewright status` shows the progress"


@click.command("deploy")
@image_option
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the manager runs.")
@click.option("--migrate", "migrates", is_flag=True, help="Then store all objects in the storage version.")
@click.option("--take-over", is_flag=True, help="Replace the operator of another project with the same name.")
@timeout_option(180)
@namespace_option
def command(
    image: str,
    wait: bool,
    migrates: bool,
    take_over: bool,
    timeout: int,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Deploy the operator of this project to the cluster of the kubeconfig, or update it.

    Applies what `kubewright generate` writes: namespace, CRDs, RBAC, Deployment, services and webhooks. Deletes objects
    of an earlier deploy that are no longer part of the deployment. Then waits for the manager's Pods, and reports why
    they do not start, and until the API server can call their webhooks. Warns of objects that the new types cannot
    decode, of fields that only some versions of a kind have, and of objects that are stored in an old version. With
    --migrate it stores them in the storage version, as `kubewright migrate` does.

    On an embedded control plane (`kubewright up`) no image is needed: the Pods run the project's code directly.

    \b
    Examples:
      kubewright deploy
      kubewright deploy --image ghcr.io/me/operator:1.0 --namespace operators
    """
    target = Target.of(kubeconfig, context, namespace=namespace, image=image)
    target.project.require_known_flags()
    if migrates and not wait:
        raise click.UsageError("--migrate needs the running manager; omit --no-wait")
    asyncio.run(_deploy(target, timeout if wait else None, take_over=take_over, migrates=migrates))


async def _deploy(target: Target, timeout: int | None, *, take_over: bool, migrates: bool) -> None:
    documents = target.manifests.objects()
    for each in documents:
        if each["kind"] == "Deployment":
            claim(each, target.manifests)
    async with target.client() as client:
        if not take_over:
            await require_own(client, target.manifests, _TAKE_OVER)
        await _warn(client, target)
        doomed = await _terminating(client, target, wait=timeout is not None)
        await crds.require_installable(client, target.manifests.crds, doomed=[each.name for each in doomed])
        new_code = await _use_embedded_image(client, target, documents)
        with unfinished(_WHILE_APPLYING) as done, console.progress("Applying"):
            names = [each.name for each in doomed]
            changed = await print_changes(deploy(client, target.manifests.settings, documents, doomed=names), done)
        if timeout is None:
            return
        if doomed:
            await _replace_terminating(client, target, doomed, timeout)
        with unfinished(_WHILE_WAITING):
            if doomed or "deployment.apps" not in changed:
                await replace_pods(client, Workload.of(target.manifests), failing=not new_code, timeout=timeout)
            await _wait(client, target, timeout)
        if migrates:
            await migrate(client, target.manifests.crds)
        else:
            await _warn_of_old_versions(client, target)


async def _warn_of_old_versions(client: Client, target: Target) -> None:
    for crd in target.manifests.crds:
        old = await migration.old_versions(client, crd)
        if old:
            name = crd["metadata"]["name"]
            console.warn(f"{name}: objects may be stored in {', '.join(old)}; run `kubewright migrate`")


async def _warn(client: Client, target: Target) -> None:
    for lost in lost_fields(target.manifests.crds, target.project.program):
        console.warn(str(lost))
    try:
        async for each in undecodable_objects(client, target.manifests):
            console.warn(str(each))
    except (Forbidden, InternalError) as error:
        console.warn(f"existing objects were not checked against the types: {error}")


async def _terminating(client: Client, target: Target, *, wait: bool) -> list[TerminatingCRD]:
    """Return the CRDs that are being deleted, after a warning. Raises ConfigError if the command must not wait."""
    if not wait:
        await crds.require_not_terminating(client, target.manifests.crds)
        return []
    found = await crds.terminating(client, target.manifests.crds)
    for each in found:
        console.warn(f"{each}. It is installed again when the manager has finalized its objects")
    return found


async def _replace_terminating(client: Client, target: Target, doomed: list[TerminatingCRD], timeout: int) -> None:
    """Replace failing Pods, which finalize nothing, and install the CRDs again as soon as they are gone."""
    with unfinished(_WHILE_FINALIZING) as done, console.progress("Waiting for the deletion of CRDs"):
        done.changes += 1  # the manager is applied
        await replace_pods(client, Workload.of(target.manifests), failing=True, timeout=timeout)
        definitions = [each for each in target.manifests.objects() if each["kind"] == "CustomResourceDefinition"]
        changes = crds.replace_terminating(
            client, definitions, doomed, namespace=target.manifests.settings.namespace, timeout=timeout
        )
        async for change in changes:
            console.say(str(change))


async def _use_embedded_image(client: Client, target: Target, documents: Iterable[JSONObject]) -> bool:
    """On an embedded control plane, map the manager's image to this project. Returns whether that changed anything."""
    table = table_of(target.config)
    if table is None:
        return False
    root = target.project.root
    for missing in missing_requirements(ImageProject.read(root)):
        console.warn(f"{missing}. It works here because this environment has it; an image would not")
    image = image_of(root, target.manifests.settings.manager)
    changed = await put_image(client, table, target.manifests, image)
    for each in documents:
        if each["kind"] == "Deployment":
            mark(each, root, image)
    return changed


async def _wait(client: Client, target: Target, timeout: int) -> None:
    settings = target.manifests.settings
    with failing_log(), console.progress("Waiting for the manager") as report:
        await wait_for_rollout(client, target.manifests, timeout=timeout, report=report)
        led = await wait_for_leader(client, target.manifests, timeout=timeout, report=report)
        unknown = await wait_for_webhooks(client, target.manifests, timeout=timeout, report=report)
    if not led:
        console.warn("no Pod of the manager leads yet; `kubewright doctor` finds the reason")
    if unknown:
        console.warn(f"it was not checked whether the API server can call the webhooks: {unknown}")
    console.say(console.good(f"{settings.name} runs in namespace {settings.namespace}"))
