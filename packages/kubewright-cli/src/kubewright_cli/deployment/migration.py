"""Storage migration: write every stored object of a kind once, so that all are stored in the storage version.

Guarantees: a version leaves `status.storedVersions` only after every object was written, and only if the CRD did not
change meanwhile. A migration that was interrupted can be run again. Objects are not changed.

Not guaranteed: with several API servers, one that has not seen a new storage version yet may still write the old one.
Wait some seconds after the CRD was changed.

The API server's own migrator writes the objects if it is on and makes progress; see `servermigration`. Its kind,
StorageVersionMigration, is beta and off by default. Otherwise this module writes them, the same on every API server.

Follows the storage version migrator of Kubernetes: objects that were deleted or that others write meanwhile are done.
Source: https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, MergePatch, PartialObjectMetadata
from kubewright.machinery.errors import APIError, ConfigError, Conflict, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment.crds import (
    api_of,
    installed_crd,
    is_established,
    require_not_terminating,
    served_versions,
    storage_version,
)
from kubewright_cli.deployment.objects import called
from kubewright_cli.deployment.servermigration import migrate_by_server

_AT_ONCE: Final = 8
"""Objects that are written at the same time."""
_ATTEMPTS: Final = 5
"""Writes of `status.storedVersions` that may conflict."""
_SHOWN: Final = 5
"""Objects that a message names."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What the migration of a kind does."""

    crd: CustomResourceDefinition
    api: APIResource
    """The kind in its storage version."""
    objects: tuple[PartialObjectMetadata, ...]
    """All objects; none if no other version is stored."""

    @property
    def name(self) -> str:
        """The name of the CRD."""
        return self.crd.metadata.name

    @property
    def old_versions(self) -> list[str]:
        """The versions, other than the storage version, that objects may be stored in."""
        return [each for each in self.crd.status.stored_versions if each != self.api.version]


async def old_versions(client: Client, crd: JSONObject) -> list[str]:
    """Return the versions, other than the storage version, that objects may be stored in."""
    installed = await installed_crd(client, crd)
    return Migration(installed, api_of(crd), ()).old_versions if installed is not None else []


async def plan(client: Client, crd: JSONObject) -> Migration:
    """Return what the migration of the kind of `crd`, a CRD of the project, has to do.

    Raises ConfigError if the cluster's CRD is missing, not served, being deleted, or has another storage version.
    """
    await require_not_terminating(client, [crd])
    installed = await installed_crd(client, crd)
    api, name = api_of(crd), crd["metadata"]["name"]
    if installed is None or not is_established(installed):
        state = "is not installed" if installed is None else "is not served"
        raise ConfigError(f"CustomResourceDefinition {name} {state}; run `kubewright install` first")
    stored = storage_version(installed)
    if stored != api.version:
        raise ConfigError(
            f"CustomResourceDefinition {name} stores objects in {stored} in the cluster, and in {api.version} in this "
            "project; run `kubewright install` first"
        )
    if stored not in served_versions(installed):
        raise ConfigError(
            f"CustomResourceDefinition {name} does not serve its storage version {stored}, and a write through another "
            f"version can lose fields; serve {stored} during the migration"
        )
    migration = Migration(installed, api, ())
    if not migration.old_versions:
        return migration
    return Migration(installed, api, tuple(await client.list(PartialObjectMetadata.of(api))))


async def migrate(client: Client, migration: Migration, report: Callable[[str], None]) -> str:
    """Write the objects, then remove the old versions from `status.storedVersions`. `report` gets the progress.

    Returns "" if the API server's migrator wrote the objects, or else why this command did.
    Raises ConfigError if the API server refuses writes, or if the CRD changed meanwhile. Running it again is safe.
    """
    reason = await migrate_by_server(client, migration.crd, migration.api, migration.objects, report)
    if reason:
        await _write_all(client, migration, report)
    await _forget_versions(client, migration)
    return reason


async def _write_all(client: Client, migration: Migration, report: Callable[[str], None]) -> None:
    objects = migration.objects
    failed: list[str] = []
    for start in range(0, len(objects), _AT_ONCE):
        batch = objects[start : start + _AT_ONCE]
        failed += filter(None, await asyncio.gather(*(_write(client, each) for each in batch)))
        if len(failed) > _SHOWN:
            break
        done = f"{start + len(batch)} of {len(objects)} objects written"
        report(f"Migrating {migration.name} to {migration.api.version}: {done}")
    if failed:
        more = " (and more)" if len(failed) > _SHOWN else ""
        raise ConfigError(
            f"{migration.name}: objects were not written: {'; '.join(failed[:_SHOWN])}{more}. Correct them (kubectl "
            "edit) or your permissions, and run the same command again"
        )


async def _write(client: Client, target: PartialObjectMetadata) -> str | None:
    """Write an object without a change, and return why that failed; None if it is stored in the storage version.

    The API server encodes the object again, and stores it if its version changes.
    """
    meta = target.metadata
    try:
        await client.patch(target, MergePatch({}))
    except (Conflict, NotFound):  # others wrote or deleted it meanwhile
        return None
    except APIError as error:
        return f"{called(target.__api__, meta.name, meta.namespace)}: {error}"
    return None


async def _forget_versions(client: Client, migration: Migration) -> None:
    """Set `status.storedVersions` to the storage version. Raises ConfigError if the CRD changed since `plan`."""
    for _ in range(_ATTEMPTS):
        crd = await client.get(CustomResourceDefinition, migration.name)
        before, now = migration.crd.metadata, crd.metadata
        if (now.uid, now.generation) != (before.uid, before.generation):
            break
        if crd.status.stored_versions == [migration.api.version]:
            return
        meta = {"resourceVersion": now.resource_version}
        patch = MergePatch({"metadata": meta, "status": {"storedVersions": [migration.api.version]}})
        try:
            await client.patch(CustomResourceDefinition, patch, name=migration.name, subresource="status")
        except Conflict:
            continue
        return
    raise ConfigError(
        f"CustomResourceDefinition {migration.name} changed during the migration; status.storedVersions still has "
        f"{', '.join(migration.old_versions)}. Run the same command again"
    )
