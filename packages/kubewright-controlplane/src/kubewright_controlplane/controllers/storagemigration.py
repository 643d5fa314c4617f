"""The storage version migrator: writes every object of a resource once, as a StorageVersionMigration requests.

The objects are then stored in the storage version. A migration goes through these steps, and records each in its
status, so that a restart continues with the first step that is not recorded.

    1. Running becomes True, and the CRD of the resource, if it has one, gets the condition StorageMigrating. One
       migration of a resource runs at a time, the oldest first.
    2. status.resourceVersion: objects with a newer version are already stored in the storage version.
    3. All older objects are written without a change. Then Succeeded or Failed becomes True.
    4. The other versions leave the CRD's status.storedVersions, unless the CRD has changed since step 1 or the
       migration failed. Running becomes False.

Guarantees
    A migration succeeds only after every object was written since step 2, or deleted.
    Objects are read in pages, and a few are written at the same time.
Not guaranteed
    Objects are written only once: after an error that may pass, and after a restart, all are written again. The API
    server stores nothing for an object that is already stored in the storage version.

Follows kubernetes/pkg/controller/storageversionmigrator, with three differences. It lists the objects instead of
waiting until the garbage collector has seen them. It writes them in the storage version of their CRD, even if the API
server prefers another version. And it keeps status.storedVersions unless the migration succeeds; Kubernetes 1.36
removes versions from it if a migration fails, and in step 1 if an earlier migration wrote it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.meta.v1 import ObjectMeta, set_condition
from kubewright.apis.storagemigration.v1beta1 import StorageVersionMigration
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata, Unstructured
from kubewright.client._mapper import RESTMapper, ServedResource
from kubewright.controllers import Backoff, Context, Controller, Request, Result, Retry, Watch, controller
from kubewright.machinery import time
from kubewright.machinery.errors import (
    APIError,
    Conflict,
    InternalError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
)
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.common.selection import lister_of

NAME: Final = "storage-version-migrator-controller"
_CRD_MANAGER: Final = "migration-runner-controller"
"""The field manager of the status of CRDs."""

_RESOURCE: Final = "resource"
"""The index of unfinished migrations, by the resource that they migrate."""
_NEEDED: Final = ("update", "patch", "list")
_APPEARS_WITHIN: Final = timedelta(minutes=1)
"""How long after its creation a migration waits for a resource that is not served."""
_PAUSE: Final = timedelta(seconds=2)
"""Between two looks at discovery."""
_PAGE: Final = 500
_AT_ONCE: Final = 8
"""Objects of one migration that are written at the same time."""
_WORKERS: Final = 4
_LONGEST_BACKOFF: Final = timedelta(minutes=1)
_PASSING: Final = (InternalError, ServerTimeout, ServiceUnavailable, TooManyRequests)
"""Errors after which the migration starts again, as after a failed connection."""


class Migrator:
    """Runs migrations."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._mapper = RESTMapper(client)

    async def reconcile(self, ctx: Context[StorageVersionMigration]) -> Result | None:
        """Take the next step of a migration. Its write leads to the reconcile that takes the one after."""
        migration = ctx.object
        if is_ended(migration):
            if is_running(migration):
                await self._finish(ctx)
        elif not is_running(migration):
            first = next_of(_resource(migration), lister_of(ctx, StorageVersionMigration))
            if first is not None and first.metadata.uid == migration.metadata.uid:
                await self._start(ctx)
        else:
            return await self._proceed(ctx)
        return None

    async def _start(self, ctx: Context[StorageVersionMigration]) -> None:
        migration = ctx.object
        crd = await self._crd(migration)
        if crd is not None:
            message = f"Migration {migration.metadata.name} is running"
            await self._report(crd, "True", "MigrationRunning", message, crd.status.stored_versions)
        now = self._clock.now()
        conditions = migration.status.conditions
        set_condition(
            conditions, "Running", "True", reason="MigrationRunning", message="The migration is running", now=now
        )
        await ctx.update_status(migration.status)

    async def _proceed(self, ctx: Context[StorageVersionMigration]) -> Result | None:
        migration = ctx.object
        served = await self._served(migration)
        if served is None:
            created = migration.metadata.creation_timestamp or self._clock.now()
            if self._clock.now() < created + _APPEARS_WITHIN:
                return Result(requeue_after=_PAUSE)
            await self._fail(ctx, "resource does not exist in discovery")
        elif not served.verbs.issuperset(_NEEDED):
            verbs = " ".join(_NEEDED)
            await self._fail(ctx, f'resource "{served.api.gvr}" does not support discovery operations: [{verbs}]')
        elif not migration.status.resource_version:
            page = await self._client.list_page(PartialObjectMetadata.of(served.api), limit=1)
            migration.status.resource_version = page.resource_version
            await ctx.update_status(migration.status)
        else:
            await self._migrate(ctx, served, int(migration.status.resource_version))
        return None

    async def _migrate(self, ctx: Context[StorageVersionMigration], served: ServedResource, checkpoint: int) -> None:
        async for objects in self._pages(served, checkpoint):
            written = await asyncio.gather(*(self._write(served, each) for each in objects), return_exceptions=True)
            for error in filter(None, written):
                if not isinstance(error, APIError) or isinstance(error, _PASSING):
                    raise error
                await self._fail(ctx, f"migration encountered unhandled error: {error}")
                return
        status = ctx.object.status
        reason = "StorageVersionMigrationSucceeded"
        set_condition(status.conditions, "Succeeded", "True", reason=reason, now=self._clock.now())
        await ctx.update_status(status)

    async def _pages(self, served: ServedResource, checkpoint: int) -> AsyncIterator[list[PartialObjectMetadata]]:
        """Yield the objects that are not newer than the checkpoint, a few at a time.

        Raises Gone if a continue token expires. The migration then starts again.
        """
        kind, token = PartialObjectMetadata.of(served.api), ""
        while True:
            page = await self._client.list_page(kind, limit=_PAGE, continue_token=token)
            older = [each for each in page.items if int(each.metadata.resource_version or 0) <= checkpoint]
            for start in range(0, len(older), _AT_ONCE):
                yield older[start : start + _AT_ONCE]
            token = page.continue_token
            if not token:
                return

    async def _write(self, served: ServedResource, target: PartialObjectMetadata) -> None:
        """Apply nothing to an object, which stores it in the storage version.

        A conflict means that the object was written, deleted, or created again meanwhile.
        """
        meta = target.metadata
        empty = Unstructured.of(served.api)(metadata=ObjectMeta(name=meta.name, namespace=meta.namespace))
        version = meta.resource_version
        try:
            await self._client.apply(empty, uid=meta.uid, resource_version=version, force=False, field_manager=NAME)
        except (Conflict, NotFound):
            return

    async def _fail(self, ctx: Context[StorageVersionMigration], message: str) -> None:
        status, reason = ctx.object.status, "StorageVersionMigrationFailed"
        set_condition(status.conditions, "Failed", "True", reason=reason, message=message, now=self._clock.now())
        await ctx.update_status(status)

    async def _finish(self, ctx: Context[StorageVersionMigration]) -> None:
        migration = ctx.object
        crd = await self._crd(migration)
        if crd is not None:
            await self._finish_crd(crd, succeeded=_is_true(migration, "Succeeded"))
        now, conditions = self._clock.now(), migration.status.conditions
        set_condition(
            conditions, "Running", "False", reason="MigrationCompleted", message="Migration completed", now=now
        )
        await ctx.update_status(migration.status)

    async def _finish_crd(self, crd: CustomResourceDefinition, *, succeeded: bool) -> None:
        running = next((each for each in crd.status.conditions if each.type == "StorageMigrating"), None)
        if not succeeded:
            await self._report(crd, "False", "MigrationFailed", "The migration has failed", crd.status.stored_versions)
        elif running is not None and running.observed_generation == crd.metadata.generation:
            message = "The migration has succeeded and the stored versions have been updated"
            await self._report(crd, "False", "MigrationSucceeded", message, [storage_version(crd)])
        else:
            message = (
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
            )
            await self._report(crd, "False", "MigrationSucceeded", message, crd.status.stored_versions)

    async def _report(
        self, crd: CustomResourceDefinition, status: str, reason: str, message: str, versions: list[str]
    ) -> None:
        """Set the condition StorageMigrating and the stored versions of a CRD. Raises Conflict if it has changed."""
        condition: JSONObject = {
            "type": "StorageMigrating",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": time.format(self._clock.now()),
            "observedGeneration": crd.metadata.generation,
        }
        patch = Unstructured.of(CustomResourceDefinition.__api__)(metadata=ObjectMeta(name=crd.metadata.name))
        patch["status"] = {"conditions": [condition], "storedVersions": versions}
        version = crd.metadata.resource_version
        await self._client.apply(patch, subresource="status", resource_version=version, field_manager=_CRD_MANAGER)

    async def _crd(self, migration: StorageVersionMigration) -> CustomResourceDefinition | None:
        """Return the CRD that defines the resource; None for a built-in one."""
        return await self._client.get_or_none(CustomResourceDefinition, _resource(migration))

    async def _served(self, migration: StorageVersionMigration) -> ServedResource | None:
        """Return the resource in the version to write it in; None if it is not served."""
        target = migration.spec.resource
        found = [
            each
            for each in await self._mapper.resources()
            if (each.api.group, each.api.plural) == (target.group, target.resource)
        ]
        crd = await self._crd(migration) if found else None
        stored = storage_version(crd) if crd is not None else ""
        preferred = next((each for each in found if each.preferred), None)
        return next((each for each in found if each.api.version == stored), preferred)


def storage_version(crd: CustomResourceDefinition) -> str:
    """Return the version that objects of a CRD are stored in."""
    return next(each.name for each in crd.spec.versions if each.storage)


def is_running(migration: StorageVersionMigration) -> bool:
    return _is_true(migration, "Running")


def is_ended(migration: StorageVersionMigration) -> bool:
    return _is_true(migration, "Succeeded") or _is_true(migration, "Failed")


def next_of(resource: str, lister: Lister[StorageVersionMigration]) -> StorageVersionMigration | None:
    """Return the oldest migration of a resource that has not ended; None while one runs."""
    unfinished = lister.by_index(_RESOURCE, resource)
    if any(is_running(each) for each in unfinished):
        return None
    return min(unfinished, key=_age, default=None)


def _next_after(changed: StorageVersionMigration, lister: Lister[StorageVersionMigration]) -> list[Request]:
    """Return the migration that can start now because another one has ended or was deleted."""
    first = next_of(_resource(changed), lister)
    return [Request(None, first.metadata.name)] if first is not None else []


def _unfinished(migration: StorageVersionMigration) -> list[str]:
    """Return the resource, for the index of migrations that are not finished."""
    return [] if is_ended(migration) and not is_running(migration) else [_resource(migration)]


def _resource(migration: StorageVersionMigration) -> str:
    """Return the name of the resource, which is also the name of its CRD: `widgets.example.com`."""
    target = migration.spec.resource
    return f"{target.resource}.{target.group}"


def _age(migration: StorageVersionMigration) -> tuple[str, str]:
    created = migration.metadata.creation_timestamp
    return time.format(created) if created else "", migration.metadata.name


def _is_true(migration: StorageVersionMigration, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in migration.status.conditions)


def storage_version_migrator(client: Client, clock: Clock) -> Controller[StorageVersionMigration]:
    """Return the controller `storage-version-migrator-controller`. `client` reads from the server."""
    declare = controller(
        StorageVersionMigration,
        name=NAME,
        watches=[Watch.mapped(StorageVersionMigration, _next_after)],
        indexers={_RESOURCE: _unfinished},
        workers=_WORKERS,
        retry=Retry(backoff=Backoff(limit=_LONGEST_BACKOFF)),
    )
    return declare(Migrator(client, clock))
