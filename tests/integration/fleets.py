"""A project of one kind in two versions, to change its storage version in a cluster."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from integration.command import run
from kubewright import CustomResource, Model, ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.testing import Cluster

API = """
from typing import Annotated

from kubewright import CustomResource, Model
from kubewright import markers as m


class ShipSpec(Model):
    size: {size}


class Ship(CustomResource, group="{group}", version="v1", storage={old}):
    spec: ShipSpec


class ShipV2(CustomResource, group="{group}", version="v2", kind="Ship", storage={new}):
    spec: ShipSpec
"""


class Project:
    """A project of one kind in two versions, installed in a cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.group = f"fleet-{secrets.token_hex(3)}.test"
        self.crd = f"ships.{self.group}"
        settings = '[project]\nname = "fleet"\n[tool.kubewright]\nkinds = "fleet_api"\n'
        (folder / "pyproject.toml").write_text(settings)
        self.kubeconfig = cluster.kubeconfig()

    def write(self, *, storage: str, size: str = "int") -> None:
        is_old = storage == "v1"
        text = API.format(group=self.group, old=is_old, new=not is_old, size=size)
        (self.folder / "fleet_api.py").write_text(text)

    async def run(self, *arguments: str) -> tuple[int, str]:
        return await asyncio.to_thread(run, *arguments, folder=self.folder, kubeconfig=self.kubeconfig)

    async def good(self, *arguments: str) -> str:
        status, said = await self.run(*arguments)
        assert status == 0, said
        return said

    async def installed(self) -> CustomResourceDefinition:
        return await self.cluster.client.get(CustomResourceDefinition, self.crd)

    async def stored_versions(self) -> list[str]:
        return (await self.installed()).status.stored_versions


class ShipSpec(Model):
    size: int = 0


def ship(group: str) -> type[CustomResource]:
    class Ship(CustomResource, group=group, version="v1"):
        spec: ShipSpec

    return Ship


async def create(project: Project, namespace: str, *names: str) -> None:
    kind = ship(project.group)
    for name in names:
        meta = ObjectMeta(name=name, namespace=namespace)
        await project.cluster.client.create(kind(metadata=meta, spec=ShipSpec(size=3)))  # pyright: ignore[reportCallIssue]


async def prepared(project: Project, namespace: str, *, old: str = "v1", new: str = "v2") -> None:
    """Store objects in the version `old`, and make `new` the storage version."""
    project.write(storage=old)
    await project.good("install")
    await create(project, namespace, *(f"ship-{number}" for number in range(12)))
    project.write(storage=new)
    await project.good("install")
    assert await project.stored_versions() == [old, new]
