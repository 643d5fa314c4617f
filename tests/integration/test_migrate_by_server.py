"""`kubewright migrate` on a control plane that serves StorageVersionMigration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from integration.command import COMMAND, environment
from integration.fleets import Project, prepared
from kubewright import Client, Config, CustomResource, Model
from kubewright._runtime.clock import SystemClock
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.storagemigration.v1beta1 import StorageVersionMigration
from kubewright.client._patch import MergePatch
from kubewright.machinery.json import JSONObject
from kubewright.models import custom_resource_definitions
from kubewright.testing import eventually
from kubewright.testing._cluster import connected
from kubewright.testing._plugin import _on_a_thread  # pyright: ignore[reportPrivateUsage]
from kubewright_cli.deployment import migration
from kubewright_controlplane import Environment, ServerOptions

API = {"storagemigration.k8s.io/v1beta1": True}
QUIET = timedelta(minutes=5)
MOMENT = "2026-01-01T00:00:00Z"


class Late(SystemClock):
    """The server's clock, which a test sets back, so that a CRD seems to be older later."""

    def __init__(self) -> None:
        self.behind = timedelta()

    def now(self) -> datetime:
        return super().now() - self.behind


class Skipping(SystemClock):
    """A clock on which each sleep ends at once."""

    def __init__(self) -> None:
        self._slept = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._slept

    async def sleep(self, seconds: float) -> None:
        self._slept += seconds


@asynccontextmanager
async def _environment(clock: Late, *, controllers: bool) -> AsyncGenerator[Config]:
    server = ServerOptions(runtime_config=API, clock=clock)
    async with Environment(server=server, controllers=controllers) as cluster:
        yield cluster.config


@pytest.fixture(scope="module")
def clock() -> Late:
    return Late()


@pytest.fixture(scope="module")
def with_migrator(clock: Late) -> Iterator[Config]:
    with _on_a_thread(_environment(clock, controllers=True)) as config:
        yield config


@pytest.fixture(scope="module")
def without_migrator(clock: Late) -> Iterator[Config]:
    """A control plane that serves the kind, but no controller makes progress."""
    with _on_a_thread(_environment(clock, controllers=False)) as config:
        yield config


@pytest_asyncio.fixture
async def project(tmp_path: Path, with_migrator: Config) -> AsyncIterator[Project]:
    async with connected(with_migrator) as cluster:
        yield Project(tmp_path, cluster)


@pytest_asyncio.fixture
async def stuck(tmp_path: Path, without_migrator: Config) -> AsyncIterator[Project]:
    """A project on the control plane that has no migrator."""
    async with connected(without_migrator) as cluster:
        yield Project(tmp_path, cluster)


async def long_ago(clock: Late, project: Project, **versions: str) -> None:
    """Store objects in one version, and make another the storage version, five minutes ago."""
    clock.behind = QUIET
    await prepared(project, "default", **versions)
    clock.behind = timedelta()


async def migrations(project: Project) -> list[StorageVersionMigration]:
    found = await project.cluster.client.list(StorageVersionMigration)
    return [each for each in found if each.spec.resource.group == project.group]


class ShipSpec(Model):
    size: int = 0


async def migrated(project: Project) -> str:
    """Migrate on a clock that skips pauses. Returns why the command wrote the objects."""

    class Ship(CustomResource, group=project.group, version="v2"):
        spec: ShipSpec

    (crd,) = custom_resource_definitions([Ship])
    async with Client(project.cluster.config, clock=Skipping()) as client:
        return await migration.migrate(client, await migration.plan(client, crd), print)


async def test_the_api_server_writes_the_objects(project: Project, clock: Late) -> None:
    await long_ago(clock, project)
    said = await project.good("migrate")
    assert said == f"{project.crd}: 12 objects written in v2 by the API server, v1 removed from status.storedVersions\n"
    crd = await project.installed()
    assert crd.status.stored_versions == ["v2"]
    found = next(each for each in crd.status.conditions if each.type == "StorageMigrating")
    assert (found.status, found.reason) == ("False", "MigrationSucceeded")
    assert not await migrations(project)


async def test_the_command_writes_the_objects_if_the_api_server_prefers_another_version(
    project: Project, clock: Late
) -> None:
    await long_ago(clock, project, old="v2", new="v1")
    said = await project.good("migrate")
    assert "12 objects written in v1 by this command, v2 removed" in said
    assert "the API server prefers v2 to v1" in said
    assert await project.stored_versions() == ["v1"]


async def test_the_command_writes_the_objects_of_a_crd_that_changed_a_moment_ago(project: Project) -> None:
    await prepared(project, "default")
    said = await project.good("migrate")
    assert "the API server did not write the objects: the CRD changed less than a minute ago" in said
    assert "12 objects written in v2 by this command" in said
    assert await project.stored_versions() == ["v2"]
    assert not await migrations(project)


async def test_without_progress_the_command_writes_the_objects(stuck: Project, clock: Late) -> None:
    await long_ago(clock, stuck)
    assert await migrated(stuck) == "the StorageVersionMigration made no progress for 30 s"
    assert await stuck.stored_versions() == ["v2"]
    assert not await migrations(stuck)


async def killed(project: Project) -> StorageVersionMigration:
    """Kill `kubewright migrate` while it waits, and return what it leaves behind."""
    silent = asyncio.subprocess.DEVNULL
    command = await asyncio.create_subprocess_exec(
        COMMAND, "migrate", cwd=project.folder, env=environment(project.kubeconfig), stdout=silent, stderr=silent
    )

    async def begun() -> StorageVersionMigration:
        found = await migrations(project)
        assert found
        return found[0]

    try:
        return await eventually(begun)
    finally:
        command.kill()
        await command.wait()


async def report(project: Project, found: StorageVersionMigration, kind: str) -> None:
    """Report the end of a migration, as the controller does."""
    ended: JSONObject = {"type": kind, "status": "True", "reason": "Ended", "message": "", "lastTransitionTime": MOMENT}
    patch = MergePatch({"status": {"conditions": [ended]}})
    await project.cluster.client.patch(found, patch, subresource="status")


async def test_the_next_command_continues_after_a_kill(stuck: Project, clock: Late) -> None:
    await long_ago(clock, stuck)
    await report(stuck, await killed(stuck), "Succeeded")
    assert "12 objects written in v2 by the API server, v1 removed" in await stuck.good("migrate")
    assert await stuck.stored_versions() == ["v2"]
    assert not await migrations(stuck)


async def test_a_success_for_an_older_crd_does_not_count(stuck: Project, clock: Late) -> None:
    await long_ago(clock, stuck)
    await report(stuck, await killed(stuck), "Succeeded")
    clock.behind = QUIET
    short = MergePatch({"spec": {"names": {"shortNames": ["sh"]}}})
    await stuck.cluster.client.patch(CustomResourceDefinition, short, name=stuck.crd)
    clock.behind = timedelta()
    assert await migrated(stuck) == "the StorageVersionMigration made no progress for 30 s"
    assert not await migrations(stuck)


async def test_a_failed_migration_does_not_count(stuck: Project, clock: Late) -> None:
    await long_ago(clock, stuck)
    await report(stuck, await killed(stuck), "Failed")
    lost = MergePatch({"status": {"storedVersions": ["v2"]}})  # as Kubernetes 1.36 does
    await stuck.cluster.client.patch(CustomResourceDefinition, lost, name=stuck.crd, subresource="status")
    clock.behind = QUIET  # the CRD seems to be new, so the command does not wait for the API server
    said = await stuck.good("migrate")
    clock.behind = timedelta()
    assert "12 objects written in v2 by this command, v1 removed" in said
    assert await stuck.stored_versions() == ["v2"]
    assert not await migrations(stuck)


async def test_what_a_killed_command_left_is_deleted_even_if_all_is_done(stuck: Project, clock: Late) -> None:
    await long_ago(clock, stuck)
    await report(stuck, await killed(stuck), "Succeeded")
    done = MergePatch({"status": {"storedVersions": ["v2"]}})
    await stuck.cluster.client.patch(CustomResourceDefinition, done, name=stuck.crd, subresource="status")
    assert await stuck.good("migrate") == f"{stuck.crd}: all objects are stored in v2\n"
    assert not await migrations(stuck)
