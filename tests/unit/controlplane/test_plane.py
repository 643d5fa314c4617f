"""The control plane as a whole, on an API server in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment, ReplicaSet, StatefulSet
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import ConfigMap, Event, Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubewright.apis.meta.v1 import ObjectMeta, owner_reference
from kubewright.client._client import Client
from kubewright.client._dynamic import Unstructured
from kubewright.client._patch import MergePatch
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Peer
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.models import APIResource, Object, codec
from kubewright.testing._waiting import eventually, gone
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.kubelet.simulated import ANNOTATION
from kubewright_controlplane.plane import ControlPlane, ControlPlaneOptions

from .objects import CONTAINERS, TEMPLATE

ADMIN = Peer(common_name="admin", organizations=("system:masters",))


@asynccontextmanager
async def server() -> AsyncGenerator[tuple[HandlerTransport, Client]]:
    api = APIServer()
    await api.start()
    transport = HandlerTransport(api.handle, peer=ADMIN)
    try:
        yield transport, Client(transport=transport)
    finally:
        await api.close()


@asynccontextmanager
async def running(transport: HandlerTransport, *disabled: str) -> AsyncGenerator[None]:
    plane = ControlPlane(transport, ControlPlaneOptions(disabled=disabled))
    task = asyncio.create_task(plane.run())
    await plane.wait_ready()
    try:
        yield
    finally:
        plane.stop()
        await task


def workload(kind: type[Object], name: str = "web", **spec: Any) -> Any:
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec},
    }
    return codec.from_dict(kind, document)


def until(check: Callable[[], Awaitable[bool]]) -> Awaitable[None]:
    async def assert_it() -> None:
        assert await check()

    return eventually(assert_it)


async def test_an_unknown_controller_name_is_rejected() -> None:
    async with server() as (transport, _):
        with pytest.raises(ConfigError, match='no controller "deployments" to switch off; choose from: cert'):
            ControlPlane(transport, ControlPlaneOptions(disabled=["deployments"]))


async def test_a_controller_that_is_switched_off_does_nothing() -> None:
    async with server() as (transport, client), running(transport, "replicaset-controller"):
        await client.create(workload(Deployment))
        await eventually(_has, client, ReplicaSet, 1)
        await client.create(ConfigMap(metadata=ObjectMeta(name="later", namespace="default")))
        assert not await client.list(Pod)


async def _has(client: Client, kind: type[Object], count: int) -> None:
    assert len(await client.list(kind, namespace="default")) == count


async def test_objects_from_before_the_start_are_reconciled() -> None:
    async with server() as (transport, client):
        await client.create(workload(Deployment))
        async with running(transport):
            await until(lambda: _available(client, 2))
        deployment = await client.get(Deployment, "web", namespace="default")
        deployment.spec.replicas = 3
        await client.update(deployment)
        before = {pod.status.pod_ip for pod in await client.list(Pod)}
        async with running(transport):
            await until(lambda: _available(client, 3))
        after = {pod.status.pod_ip for pod in await client.list(Pod)}
        assert before < after
        assert len(after) == 3
        assert len(await client.list(Node)) == 2


async def _available(client: Client, count: int) -> bool:
    found = await client.get(Deployment, "web", namespace="default")
    return found.status.available_replicas == count and found.status.replicas == count


async def test_a_name_that_is_taken_leads_to_another_name() -> None:
    async with server() as (transport, client):
        async with running(transport):
            await client.create(workload(Deployment))
            await until(lambda: _available(client, 2))
            [made] = await client.list(ReplicaSet)
            await client.delete(Deployment, "web", namespace="default")
            await eventually(_has, client, ReplicaSet, 0)
        taken = workload(ReplicaSet, made.metadata.name, replicas=0)
        taken.spec.selector.match_labels = taken.spec.template.metadata.labels = {"app": "other"}
        await client.create(taken)
        async with running(transport):
            await client.create(workload(Deployment))
            await until(lambda: _available(client, 2))
        deployment = await client.get(Deployment, "web", namespace="default")
        assert deployment.status.collision_count == 1


@pytest.mark.parametrize(("asked", "phase"), [("Failed", "Failed"), ("Pending", "Pending"), ("NotReady", "Running")])
async def test_the_annotation_of_a_pod_decides_its_phase(asked: str, phase: str) -> None:
    async with server() as (transport, client), running(transport):
        metadata = {"name": "p", "namespace": "default", "annotations": {ANNOTATION: asked}}
        await client.create(codec.from_dict(Pod, {"metadata": metadata, "spec": {"containers": CONTAINERS}}))

        async def reported() -> bool:
            found = await client.get(Pod, "p", namespace="default")
            conditions = {each.type: each.status for each in found.status.conditions}
            return found.status.phase == phase and conditions.get("Ready") == "False"

        await until(reported)


async def test_a_pod_with_an_invalid_annotation_waits_and_an_event_says_why() -> None:
    async with server() as (transport, client), running(transport):
        metadata = {"name": "p", "namespace": "default", "annotations": {ANNOTATION: "Broken"}}
        await client.create(codec.from_dict(Pod, {"metadata": metadata, "spec": {"containers": CONTAINERS}}))

        async def told() -> bool:
            return any(each.reason == "UnknownPhase" for each in await client.list(Event, namespace="default"))

        await until(told)
        await client.patch(
            Pod, MergePatch({"metadata": {"annotations": {ANNOTATION: None}}}), name="p", namespace="default"
        )

        async def runs() -> bool:
            return (await client.get(Pod, "p", namespace="default")).status.phase == "Running"

        await until(runs)


async def test_claims_of_a_stateful_set_are_deleted_if_its_policy_says_so() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    async with server() as (transport, client), running(transport):
        wanted = workload(
            StatefulSet, volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=policy, serviceName="web"
        )
        await client.create(wanted)

        async def ready(count: int) -> bool:
            found = await client.get(StatefulSet, "web", namespace="default")
            claims = {each.metadata.name: each.status.phase for each in await client.list(PersistentVolumeClaim)}
            all_bound = claims == {f"data-web-{number}": "Bound" for number in range(count)}
            return (found.status.ready_replicas or 0) == count and all_bound

        await until(lambda: ready(2))
        smaller = MergePatch({"spec": {"replicas": 1}})
        await client.patch(StatefulSet, smaller, name="web", namespace="default")
        await until(lambda: ready(1))
        await eventually(_volumes, client, 1)


async def _volumes(client: Client, count: int) -> None:
    assert len(await client.list(PersistentVolume)) == count


async def test_a_job_whose_pods_fail_fails() -> None:
    async with server() as (transport, client), running(transport):
        template = {
            "metadata": {"annotations": {ANNOTATION: "Failed"}},
            "spec": {"containers": CONTAINERS, "restartPolicy": "Never"},
        }
        document = {
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {"backoffLimit": 0, "template": template},
        }
        await client.create(codec.from_dict(Job, document))

        async def failed() -> bool:
            found = await client.get(Job, "j", namespace="default")
            return any(each.type == "Failed" and each.status == "True" for each in found.status.conditions)

        await until(failed)


def _definition() -> CustomResourceDefinition:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    document = {
        "metadata": {"name": "gizmos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    return codec.from_dict(CustomResourceDefinition, document)


def _named(kind: type[Unstructured], name: str) -> Unstructured:
    made = kind()
    made.metadata = ObjectMeta(name=name, namespace="default")
    return made


async def test_dependents_of_an_owner_that_was_never_watched_are_deleted() -> None:
    gizmo = Unstructured.of(APIResource("example.com", "v1", "Gizmo", "gizmos", "gizmo"))
    async with server() as (transport, client), running(transport):
        await client.create(_definition())
        await eventually(client.list, gizmo)
        made = await client.create(_named(gizmo, "owner"))
        meta = ObjectMeta(name="owned", namespace="default", owner_references=[owner_reference(made)])
        await client.create(ConfigMap(metadata=meta))
        await client.delete(made)
        await gone(client.get, ConfigMap, "owned", namespace="default")


async def test_ownership_survives_the_removal_of_a_kind() -> None:
    gizmo = Unstructured.of(APIResource("example.com", "v1", "Gizmo", "gizmos", "gizmo"))
    async with server() as (transport, client), running(transport):
        for _ in range(2):
            await client.create(_definition())
            await eventually(client.list, gizmo)
            probe = await client.create(_named(gizmo, "probe"))
            await client.delete(probe, propagation="Foreground")  # deleted after the collector has observed it
            await gone(client.get, gizmo, "probe", namespace="default")
            made = await client.create(_named(gizmo, "owner"))
            reference = owner_reference(made)
            await client.create(
                ConfigMap(metadata=ObjectMeta(name="owned", namespace="default", owner_references=[reference]))
            )
            await client.delete(CustomResourceDefinition, "gizmos.example.com")
            await gone(client.get, ConfigMap, "owned", namespace="default")
            with pytest.raises(NotFound):
                await client.list(gizmo)
            await gone(client.get, CustomResourceDefinition, "gizmos.example.com")
