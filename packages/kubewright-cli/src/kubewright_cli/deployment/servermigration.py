"""Storage migration by the API server: a StorageVersionMigration that exists while the command runs.

Guarantees: the object is deleted when the command ends. If the command is killed, the next `kubewright migrate` finds
the object by its name, and continues with it or deletes it. Waiting without progress is bounded. The CRD keeps its old
stored versions unless the migration succeeded. The migrator of Kubernetes 1.36 removes them in other cases too.

The server's migrator is not used

- if a CRD changed less than a minute ago: the migrator reads discovery only every 30 seconds, and could write objects
  through the old version, which loses the fields that only the new version has;
- if the server prefers another version than the storage version, because the migrator writes through that one.

kube-controller-manager waits until the garbage collector has seen a later change of the kind, which may take minutes
for a quiet kind. It looks again after a growing pause, or when the migration changes. So this module writes single
objects itself, without a change, and touches the migration, until other objects are written too.

Follows kubernetes/pkg/controller/storageversionmigrator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.meta.v1 import GroupResource, ObjectMeta, owner_reference
from kubewright.apis.storagemigration.v1beta1 import StorageVersionMigration, StorageVersionMigrationSpec
from kubewright.client import Client, JSONPatch, MergePatch, PartialObjectMetadata, RESTMapper, Unstructured
from kubewright.machinery import time
from kubewright.machinery.errors import AlreadyExists, APIError, ConfigError, Conflict, Forbidden, Invalid, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment.objects import FIELD_MANAGER

NOT_SERVED: Final = "the API server does not serve StorageVersionMigration"

_GENERATION: Final = "kubewright.dev/crd-generation"
"""The annotation with the generation of the CRD that a migration was created for."""
_STORED: Final = "kubewright.dev/stored-versions"
"""The annotation with the stored versions of the CRD before the migration."""
_TOUCHED: Final = "kubewright.dev/touched"
_SETTLED: Final = timedelta(minutes=1)
"""How long a CRD must be unchanged. The migrator reads discovery every 30 seconds."""
_PATIENCE: Final = 30.0
"""Seconds without progress after which the command writes the objects itself."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_REST: Final = 4
"""How many times longer to pause than a look takes, which lists all objects."""
_MOST_TOUCHES: Final = 6
_ATTEMPTS: Final = 5


async def migrate_by_server(
    client: Client,
    crd: CustomResourceDefinition,
    api: APIResource,
    objects: Sequence[PartialObjectMetadata],
    report: Callable[[str], None],
) -> str:
    """Let the API server write `objects`, all objects of a CRD, in the version of `api`, its storage version.

    Returns "" if it has done so since the CRD's generation, or else why not. `report` gets the progress.
    """
    try:
        now = await _server_time(client, crd)
    except NotFound:
        return NOT_SERVED
    except APIError as error:
        return f"the API server refuses a StorageVersionMigration: {error}"
    try:
        reason = await _unsuitable(client, crd, api, now)
        return reason or await _Run(client, crd, objects, report).wait()
    finally:
        await discard(client, crd)


async def discard(client: Client, crd: CustomResourceDefinition) -> bool:
    """Delete the migration that this command, or an earlier one that was killed, made for a CRD.

    Returns whether the CRD's stored versions were corrected, because the migration had removed some without success.
    """
    name = _name(crd)
    try:
        left = await client.get(StorageVersionMigration, name)
        await client.delete(StorageVersionMigration, name)
    except (NotFound, Forbidden):  # Forbidden: this user cannot have created it
        return False
    succeeded = _condition(left, "Succeeded") is not None
    before = [] if succeeded else left.metadata.annotations.get(_STORED, "").split(",")
    for _ in range(_ATTEMPTS):
        current = await client.get(CustomResourceDefinition, crd.metadata.name)
        lost = _lost(current, before)
        changes = [*_restore(current, lost), *_end_condition(current, name)]
        if not changes:
            return False
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": current.metadata.resource_version}
        with suppress(Conflict, Invalid):  # it has changed
            patch = JSONPatch([version, *changes])
            await client.patch(CustomResourceDefinition, patch, name=crd.metadata.name, subresource="status")
            return bool(lost)
    raise ConfigError(
        f"CustomResourceDefinition {crd.metadata.name} keeps changing, so its status could not be corrected after a "
        f"StorageVersionMigration; status.storedVersions must have {', '.join(before)} (kubectl edit --subresource)"
    )


def _lost(crd: CustomResourceDefinition, before: Sequence[str]) -> list[str]:
    """Return the stored versions that a CRD has lost. Kubernetes 1.36 also removes them if a migration fails."""
    declared = [each.name for each in crd.spec.versions]
    return [each for each in before if each in declared and each not in crd.status.stored_versions]


def _restore(crd: CustomResourceDefinition, lost: Sequence[str]) -> list[JSONObject]:
    """Return the operations that put the versions back."""
    if not lost:
        return []
    return [{"op": "add", "path": "/status/storedVersions", "value": [*lost, *crd.status.stored_versions]}]


def _end_condition(crd: CustomResourceDefinition, name: str) -> list[JSONObject]:
    """Return the operations that end the condition of a migration that was deleted. The migrator would never do it."""
    changes = {"status": "False", "reason": "MigrationStopped", "message": f"Migration {name} was deleted"}
    for index, each in enumerate(crd.status.conditions):
        if each.type == "StorageMigrating" and each.status == "True" and each.message == f"Migration {name} is running":
            path = f"/status/conditions/{index}"
            return [{"op": "add", "path": f"{path}/{field}", "value": value} for field, value in changes.items()]
    return []


async def _server_time(client: Client, crd: CustomResourceDefinition) -> datetime:
    """Create nothing, and return the server's time. Raises the error of a create that the server rejects."""
    answer = await client.create(_migration(crd, ObjectMeta(generate_name="kubewright-")), dry_run=True)
    assert answer.metadata.creation_timestamp is not None
    return answer.metadata.creation_timestamp


async def _unsuitable(client: Client, crd: CustomResourceDefinition, api: APIResource, now: datetime) -> str:
    """Return why the server's migrator is not used for a CRD; empty if it is."""
    changes = [each.time for each in crd.metadata.managed_fields if each.time and each.subresource != "status"]
    if not changes or max(changes) > now - _SETTLED:
        return "the CRD changed less than a minute ago"
    served = await RESTMapper(client).resources()
    same = (
        each.api for each in served if each.preferred and (each.api.group, each.api.plural) == (api.group, api.plural)
    )
    preferred = next((each.version for each in same), "")
    return "" if preferred == api.version else f"the API server prefers {preferred or 'no version'} to {api.version}"


def _name(crd: CustomResourceDefinition) -> str:
    return f"kubewright-{crd.metadata.uid}"


def _migration(crd: CustomResourceDefinition, metadata: ObjectMeta) -> StorageVersionMigration:
    target = GroupResource(group=crd.spec.group, resource=crd.spec.names.plural)
    return StorageVersionMigration(metadata=metadata, spec=StorageVersionMigrationSpec(resource=target))


class _Run:
    """One migration by the server, and what is seen of it."""

    def __init__(
        self,
        client: Client,
        crd: CustomResourceDefinition,
        objects: Sequence[PartialObjectMetadata],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._crd = crd
        self._objects = objects
        self._report = report
        self._versions: Mapping[str, str] = {each.metadata.uid: each.metadata.resource_version for each in objects}
        self._touches = 0
        self._progress: object = None
        self._deadline = 0.0

    async def wait(self) -> str:
        """Create the migration and wait for its end. Returns "" if it succeeded, or else why not."""
        await self._own_stored_versions()
        await self._begin()
        pause, clock = _FIRST_PAUSE, self._client.clock
        while True:
            began = clock.monotonic()
            current = await self._client.get_or_none(StorageVersionMigration, _name(self._crd))
            if current is None:
                return "the StorageVersionMigration was deleted"
            if failure := _condition(current, "Failed"):
                return f"the StorageVersionMigration failed: {failure}"
            if _condition(current, "Succeeded") is not None and _condition(current, "Running") is None:
                return ""
            written = await self._count_written()
            if not self._progresses(current, written):
                ended = _condition(current, "Succeeded") is not None
                return "" if ended else f"the StorageVersionMigration made no progress for {_PATIENCE:g} s"
            await self._touch(current, written)
            await clock.sleep(max(pause, _REST * (clock.monotonic() - began)))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _begin(self) -> None:
        """Create the migration, or continue that of an earlier command for the same generation of the CRD."""
        crd = self._crd
        meta = ObjectMeta(
            name=_name(crd),
            labels={"app.kubernetes.io/managed-by": FIELD_MANAGER},
            annotations={
                _GENERATION: str(crd.metadata.generation),
                _STORED: ",".join(crd.status.stored_versions),
            },
            owner_references=[owner_reference(crd, controller=False)],
        )
        for _ in range(_ATTEMPTS):
            try:
                await self._client.create(_migration(crd, meta))
                return
            except AlreadyExists:
                current = await self._client.get_or_none(StorageVersionMigration, meta.name)
            is_same = current is not None and current.metadata.annotations.get(_GENERATION) == str(
                crd.metadata.generation
            )
            if current is not None and is_same and _condition(current, "Failed") is None:
                return
            await discard(self._client, crd)

    async def _own_stored_versions(self) -> None:
        """Own the stored versions of the CRD too.

        The migrator of Kubernetes 1.36 applies the status without them when it starts. If an earlier migration made
        the migrator their only owner, they would be lost, although no object has been written yet.
        """
        meta = self._crd.metadata
        patch = Unstructured.of(CustomResourceDefinition.__api__)(metadata=ObjectMeta(name=meta.name))
        patch["status"] = {"storedVersions": self._crd.status.stored_versions}
        version = meta.resource_version
        with suppress(Conflict):  # the generation is compared at the end
            await self._client.apply(patch, subresource="status", uid=meta.uid, resource_version=version)

    async def _count_written(self) -> int:
        """Return the number of objects that were written or deleted since the start."""
        if not self._objects:
            return 0
        listed = await self._client.list(type(self._objects[0]))
        now = {each.metadata.uid: each.metadata.resource_version for each in listed}
        return sum(now.get(uid) != version for uid, version in self._versions.items())

    def _progresses(self, current: StorageVersionMigration, written: int) -> bool:
        """Return whether the status or the number of written objects changed within the patience."""
        status = current.status
        seen = (len(status.conditions), status.resource_version, written)
        now = self._client.clock.monotonic()
        if seen != self._progress:
            self._progress, self._deadline = seen, now + _PATIENCE
            text = f"{written} of {len(self._versions)} objects written by the API server"
            self._report(f"Migrating {self._crd.metadata.name}: {text}")
        return now < self._deadline

    async def _touch(self, current: StorageVersionMigration, written: int) -> None:
        """Make the migrator look again, once it has started and while it writes nothing."""
        if not current.status.resource_version or written > self._touches or self._touches >= _MOST_TOUCHES:
            return
        with suppress(APIError):  # the server's migrator reports what it cannot write
            if self._touches < len(self._objects):
                await self._client.patch(self._objects[self._touches], MergePatch({}))
        self._touches += 1
        touched = MergePatch({"metadata": {"annotations": {_TOUCHED: time.format_micro(self._client.clock.now())}}})
        with suppress(NotFound):
            await self._client.patch(StorageVersionMigration, touched, name=current.metadata.name)


def _condition(migration: StorageVersionMigration, kind: str) -> str | None:
    """Return the message of a condition that is true; None if it is not."""
    return next(
        (each.message for each in migration.status.conditions if each.type == kind and each.status == "True"), None
    )
