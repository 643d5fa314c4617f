"""`kubewright uninstall`: the project's CRDs out of a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.cli.options import config_of, kubeconfig_options
from kubewright.cli.project import Project
from kubewright.client.client import Client
from kubewright.client.config import Config
from kubewright.machinery.errors import NotFound


@click.command("uninstall")
@kubeconfig_options
def command(kubeconfig: Path | None, context: str | None) -> None:
    """Remove the CRDs of this project. The API server deletes every object of their kinds with them."""
    project = Project.load()
    asyncio.run(_uninstall(project, config_of(kubeconfig, context)))


async def _uninstall(project: Project, config: Config) -> None:
    client = Client(config, user_agent="kubewright-cli")
    try:
        for name in sorted({f"{kind.__api__.plural}.{kind.__api__.group}" for kind in project.kinds}):
            try:
                await client.delete(CustomResourceDefinition, name)
                click.echo(f"customresourcedefinition.apiextensions.k8s.io/{name} deleted")
            except NotFound:
                click.echo(f"customresourcedefinition.apiextensions.k8s.io/{name} is not there")
    finally:
        await client.close()
