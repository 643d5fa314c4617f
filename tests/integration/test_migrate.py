"""`kubewright migrate`: stored objects move to the storage version."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.fleets import Project, ShipSpec, prepared, ship
from kubewright import CustomResource
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._patch import MergePatch
from kubewright.machinery.errors import ConfigError
from kubewright.models import custom_resource_definitions
from kubewright.testing import Cluster
from kubewright_cli.deployment import migration


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Project:
    return Project(tmp_path, cluster)


async def test_objects_are_written_and_the_old_version_is_removed(project: Project, namespace: str) -> None:
    await prepared(project, namespace)
    before = await project.cluster.client.list(ship(project.group), namespace=namespace)
    planned = await project.good("migrate", "--dry-run")
    assert planned == f"{project.crd}: would write 12 objects in v2, and remove v1 from status.storedVersions\n"
    assert await project.stored_versions() == ["v1", "v2"]
    said = await project.good("migrate", "ship")
    assert said == f"{project.crd}: 12 objects written in v2 by this command, v1 removed from status.storedVersions\n"
    assert await project.stored_versions() == ["v2"]
    after = await project.cluster.client.list(ship(project.group), namespace=namespace)
    assert [(each.metadata.uid, each.metadata.generation) for each in after] == [
        (each.metadata.uid, each.metadata.generation) for each in before
    ]
    assert await project.good("migrate") == f"{project.crd}: all objects are stored in v2\n"


async def test_a_crd_that_is_missing_or_older_is_refused(project: Project, namespace: str) -> None:
    project.write(storage="v1")
    status, said = await project.run("migrate")
    assert (status, f"{project.crd} is not installed; run `kubewright install` first" in said) == (1, True)
    await project.good("install")
    project.write(storage="v2")
    status, said = await project.run("migrate")
    assert (status, "stores objects in v1 in the cluster, and in v2 in this project" in said) == (1, True)
    status, said = await project.run("migrate", "Boat")
    assert (status, "Boat: not a kind of this project; its kinds are Ship" in said) == (1, True)


async def test_objects_that_the_api_server_refuses_keep_the_old_version(project: Project, namespace: str) -> None:
    await prepared(project, namespace)
    project.write(storage="v2", size='Annotated[int, m.XValidation("self > oldSelf")]')
    await project.good("install")
    status, said = await project.run("migrate")
    assert status == 1
    assert f"{project.crd}: objects were not written: ship.{project.group}/ship-0 (in {namespace}): " in said
    assert "spec.size" in said
    assert "(and more)" in said
    assert await project.stored_versions() == ["v1", "v2"]


async def test_a_change_of_the_crd_during_the_migration_keeps_the_old_version(project: Project, namespace: str) -> None:
    await prepared(project, namespace)
    client = project.cluster.client

    class Ship(CustomResource, group=project.group, version="v2"):
        spec: ShipSpec

    (crd,) = custom_resource_definitions([Ship])
    planned = await migration.plan(client, crd)
    short = MergePatch({"spec": {"names": {"shortNames": ["sh"]}}})
    await client.patch(CustomResourceDefinition, short, name=project.crd)
    with pytest.raises(ConfigError, match=r"changed during the migration; status\.storedVersions still has v1"):
        await migration.migrate(client, planned, print)
    assert await project.stored_versions() == ["v1", "v2"]


async def test_objects_that_are_deleted_meanwhile_are_done(project: Project, namespace: str) -> None:
    await prepared(project, namespace)
    client = project.cluster.client

    class Ship(CustomResource, group=project.group, version="v2"):
        spec: ShipSpec

    (crd,) = custom_resource_definitions([Ship])
    planned = await migration.plan(client, crd)
    await client.delete(planned.objects[0])
    steps: list[str] = []
    await migration.migrate(client, planned, steps.append)
    assert steps[-1] == f"Migrating {project.crd} to v2: 12 of 12 objects written"
    assert await project.stored_versions() == ["v2"]
