"""The embedded controller of StorageVersionMigrations: failures, restarts, and missing kinds."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from kubewright import Client, CustomResource, Model, ObjectMeta
from kubewright._runtime.clock import SystemClock
from kubewright.apis.admissionregistration.v1 import (
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.meta.v1 import GroupResource
from kubewright.apis.storagemigration.v1beta1 import StorageVersionMigration, StorageVersionMigrationSpec
from kubewright.client._patch import JSONPatch, MergePatch
from kubewright.client._wait import has_condition
from kubewright.http.message import Request, Response
from kubewright.testing import Cluster
from kubewright_controlplane import Environment, ServerOptions

GROUP = "fleet.test"
CRD = f"ships.{GROUP}"
MOMENT = "2026-01-01T00:00:00Z"
API = {"storagemigration.k8s.io/v1beta1": True}


class ShipSpec(Model):
    size: int


class Ship(CustomResource, group=GROUP, version="v1"):
    spec: ShipSpec


def migration(resource: str = "ships") -> StorageVersionMigration:
    target = GroupResource(group=GROUP, resource=resource)
    return StorageVersionMigration(
        metadata=ObjectMeta(name=resource), spec=StorageVersionMigrationSpec(resource=target)
    )


async def populate(cluster: Cluster) -> None:
    """Create two objects of a CRD that has stored objects in a version v0 before."""
    await cluster.install(Ship)
    for name in ("one", "two"):
        meta = ObjectMeta(name=name, namespace="default")
        await cluster.client.create(Ship(metadata=meta, spec=ShipSpec(size=3)))
    schema = {"openAPIV3Schema": {"type": "object"}}
    older = {"name": "v0", "served": False, "storage": False, "schema": schema}
    add = JSONPatch([{"op": "add", "path": "/spec/versions/-", "value": older}])
    await cluster.client.patch(CustomResourceDefinition, add, name=CRD)
    stored = MergePatch({"status": {"storedVersions": ["v0", "v1"]}})
    await cluster.client.patch(CustomResourceDefinition, stored, name=CRD, subresource="status")


async def finished(client: Client, name: str = "ships") -> StorageVersionMigration:
    return await client.wait_for(StorageVersionMigration, name, has_condition("Running", "False"))


async def test_a_migration_that_was_interrupted_continues_after_a_restart(tmp_path: Path) -> None:
    server = ServerOptions(data=tmp_path, runtime_config=API)
    async with Environment(server=server, controllers=False) as cluster:
        await populate(cluster)
        made = await cluster.client.create(migration())
        running = {"type": "Running", "status": "True", "reason": "R", "message": "", "lastTransitionTime": MOMENT}
        listed = await cluster.client.list(Ship)
        status = {"conditions": [running], "resourceVersion": listed.resource_version}
        await cluster.client.patch(made, MergePatch({"status": status}), subresource="status")
    async with Environment(server=server) as cluster:
        assert has_condition("Succeeded")(await finished(cluster.client))


async def test_a_migration_starts_again_after_an_error_that_passes() -> None:
    calls: list[str] = []

    async def review(request: Request) -> Response:
        """Fail at first, and then allow everything."""
        asked = json.loads(request.body)["request"]
        calls.append(asked["name"])
        if len(calls) == 1:
            return Response(500, {}, b"")
        answer = {"uid": asked["uid"], "allowed": True}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        return Response(200, {"content-type": "application/json"}, json.dumps(body).encode())

    server = ServerOptions(runtime_config=API, webhooks={"hooks.test": review})
    async with Environment(server=server) as cluster:
        await populate(cluster)
        rule = RuleWithOperations(
            operations=["UPDATE"], api_groups=[GROUP], api_versions=["v1"], resources=["ships"], scope="*"
        )
        hook = ValidatingWebhook(
            name="ships.hooks.test",
            client_config=WebhookClientConfig(url="https://hooks.test/ships"),
            rules=[rule],
            side_effects="None",
            admission_review_versions=["v1"],
        )
        meta = ObjectMeta(name="ships")
        await cluster.client.create(ValidatingWebhookConfiguration(metadata=meta, webhooks=[hook]))
        await cluster.client.create(migration())
        assert has_condition("Succeeded")(await finished(cluster.client))
        crd = await cluster.client.get(CustomResourceDefinition, CRD)
    assert set(calls) == {"one", "two"}
    assert len(calls) > 2
    assert crd.status.stored_versions == ["v1"]


class Late(SystemClock):
    """A server's clock that is five minutes late, so that new objects seem to be old."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=5)


async def test_a_kind_that_is_not_served_for_a_minute_is_not_migrated() -> None:
    async with Environment(server=ServerOptions(runtime_config=API, clock=Late())) as cluster:
        await cluster.client.create(migration("boats"))
        ended = await finished(cluster.client, "boats")
        [failed] = [each for each in ended.status.conditions if each.type == "Failed"]
        assert (failed.reason, failed.message) == (
            "StorageVersionMigrationFailed",
            "resource does not exist in discovery",
        )


async def test_a_failed_migration_keeps_the_stored_versions() -> None:
    async with Environment(server=ServerOptions(runtime_config=API)) as cluster:
        await populate(cluster)
        await cluster.client.create(migration())
        await finished(cluster.client)
        stored = MergePatch({"status": {"storedVersions": ["v0", "v1"]}})
        await cluster.client.patch(CustomResourceDefinition, stored, name=CRD, subresource="status")
        await cluster.client.delete(StorageVersionMigration, "ships")
        size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/x-kubernetes-validations"
        never = JSONPatch([{"op": "add", "path": size, "value": [{"rule": "self > oldSelf"}]}])
        await cluster.client.patch(CustomResourceDefinition, never, name=CRD)
        await cluster.client.create(migration())
        assert has_condition("Failed")(await finished(cluster.client))
        crd = await cluster.client.get(CustomResourceDefinition, CRD)
        assert crd.status.stored_versions == ["v0", "v1"]
