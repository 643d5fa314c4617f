"""`kubewright install`: the project's CRDs into a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.cli.options import config_of, kubeconfig_options
from kubewright.cli.project import Project
from kubewright.client.client import Client
from kubewright.client.config import Config
from kubewright.client.wait import wait_for
from kubewright.models import codec
from kubewright.models.crd import custom_resource_definitions


@click.command("install")
@kubeconfig_options
def command(kubeconfig: Path | None, context: str | None) -> None:
    """Install the CRDs of this project, or bring them up to date, and wait until they are served.

    Uses the cluster of --kubeconfig or $KUBECONFIG. A second install changes nothing.
    """
    project = Project.load()
    asyncio.run(install(project, config_of(kubeconfig, context)))


async def install(project: Project, config: Config) -> None:
    """Apply the CRDs of `project`, and wait until they are served."""
    client = Client(config, user_agent="kubewright-cli", field_manager="kubewright-cli")
    try:
        for definition in custom_resource_definitions(project.kinds):
            desired = codec.from_dict(CustomResourceDefinition, definition)
            applied = await client.apply(desired)
            await wait_for(client, CustomResourceDefinition, applied.metadata.name, is_established, timeout=30)
            click.echo(f"customresourcedefinition.apiextensions.k8s.io/{applied.metadata.name} is served")
    finally:
        await client.close()


def is_established(crd: CustomResourceDefinition) -> bool:
    return any(each.type == "Established" and each.status == "True" for each in crd.status.conditions)
