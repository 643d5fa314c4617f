"""The controllers for claims and volumes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from conformance.rawapi import API, until

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTRIBUTES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
VOLUMES = "/api/v1/persistentvolumes"


def claim(name: str = "c", size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


def pod(claim_name: str) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    containers = [{"name": "c", "image": "nginx:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": volumes}}


class Storage:
    """Volumes with a class of their own, so that tests do not bind each other's."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.ns = api, ns
        self.name = f"test-{secrets.token_hex(4)}"

    async def volume(self, size: str, policy: str = "Retain", **more: Any) -> str:
        name = f"{self.name}-{size.lower()}"
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.name,
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": f"/tmp/{name}"},
            **more,
        }
        (await self.api.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})).expect(201)
        return name

    async def storage_class(self, mode: str, provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> None:
        body = {"metadata": {"name": self.name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
        (await self.api.post(CLASSES, body)).expect(201)

    async def claim(self, size: str = "1Gi", name: str = "c") -> None:
        body = claim(name, size, storageClassName=self.name)
        (await self.api.post(f"{self.ns}/persistentvolumeclaims", body)).expect(201)

    async def in_phase(self, path: str, phase: str) -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(path)).expect(200).json
            return found if found["status"].get("phase") == phase else None

        result: dict[str, Any] = await until(check)
        return result

    async def bound(self, name: str = "c") -> dict[str, Any]:
        return await self.in_phase(f"{self.ns}/persistentvolumeclaims/{name}", "Bound")

    async def clean(self) -> None:
        for volume in (await self.api.get(VOLUMES)).json["items"]:
            if volume["spec"].get("storageClassName") == self.name:
                await self.api.delete(f"{VOLUMES}/{volume['metadata']['name']}")
        await self.api.delete(f"{CLASSES}/{self.name}")


@pytest_asyncio.fixture
async def storage(api: API, ns: str) -> AsyncIterator[Storage]:
    storage = Storage(api, ns)
    yield storage
    await storage.clean()


async def test_a_claim_is_bound_to_the_smallest_volume_that_fits(storage: Storage) -> None:
    await storage.volume("8Gi")
    small = await storage.volume("2Gi")
    await storage.volume("1Mi")
    for name in (small, f"{storage.name}-8gi"):
        await storage.in_phase(f"{VOLUMES}/{name}", "Available")
    await storage.claim("1Gi")
    found = await storage.bound()
    assert found["spec"]["volumeName"] == small
    assert found["status"]["capacity"] == {"storage": "2Gi"}
    assert found["status"]["accessModes"] == ["ReadWriteOnce"]
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    volume = await storage.in_phase(f"{VOLUMES}/{small}", "Bound")
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]


async def test_a_claim_waits_for_a_matching_volume(storage: Storage) -> None:
    await storage.claim()
    await storage.in_phase(f"{storage.ns}/persistentvolumeclaims/c", "Pending")
    name = await storage.volume("1Gi")
    assert (await storage.bound())["spec"]["volumeName"] == name


async def test_a_volume_is_released_when_its_claim_is_deleted(storage: Storage) -> None:
    name = await storage.volume("1Gi")
    await storage.claim()
    await storage.bound()
    await storage.api.delete(f"{storage.ns}/persistentvolumeclaims/c")
    await storage.in_phase(f"{VOLUMES}/{name}", "Released")


async def test_a_pod_waits_for_its_claim(storage: Storage) -> None:
    (await storage.api.post(f"{storage.ns}/pods", pod("c"))).expect(201)

    async def waits() -> bool:
        found = (await storage.api.get(f"{storage.ns}/pods/p")).json
        conditions = {each["type"]: each for each in found["status"].get("conditions", [])}
        message = str(conditions.get("PodScheduled", {}).get("message", ""))
        return 'persistentvolumeclaim "c" not found' in message

    await until(waits)
    await storage.volume("1Gi")
    await storage.claim()
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")


async def test_a_claim_that_waits_for_its_first_consumer_is_bound_with_the_pod(storage: Storage) -> None:
    await storage.storage_class("WaitForFirstConsumer")
    await storage.volume("1Gi")
    await storage.claim()

    async def told() -> bool:
        events = (await storage.api.get(f"{storage.ns}/events")).json["items"]
        return any(each["reason"] == "WaitForFirstConsumer" for each in events)

    await until(told)
    await storage.in_phase(f"{storage.ns}/persistentvolumeclaims/c", "Pending")
    await storage.api.post(f"{storage.ns}/pods", pod("c"))
    await storage.bound()
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")


async def test_a_pod_waits_for_a_volume_that_its_node_reaches(storage: Storage) -> None:
    await storage.storage_class("WaitForFirstConsumer")

    def on(node_os: str) -> dict[str, Any]:
        requirement = {"key": "kubernetes.io/os", "operator": "In", "values": [node_os]}
        return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}

    await storage.volume("1Gi", nodeAffinity=on("plan9"))
    await storage.claim()
    await storage.api.post(f"{storage.ns}/pods", pod("c"))

    async def waits() -> bool:
        found = (await storage.api.get(f"{storage.ns}/pods/p")).json
        messages = [each.get("message", "") for each in found["status"].get("conditions", [])]
        return any("node(s) didn't find available persistent volumes to bind" in each for each in messages)

    await until(waits)
    reached = await storage.volume("2Gi", nodeAffinity=on("linux"))
    found = await storage.bound()
    assert found["spec"]["volumeName"] == reached
    assert "volume.kubernetes.io/selected-node" not in found["metadata"]["annotations"]
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")


async def test_a_deleted_volume_is_removed_after_its_claim(storage: Storage) -> None:
    name = await storage.volume("1Gi")
    await storage.claim()
    await storage.bound()
    await storage.in_phase(f"{VOLUMES}/{name}", "Bound")
    deleted = (await storage.api.delete(f"{VOLUMES}/{name}")).expect(200).json
    assert deleted["metadata"]["deletionTimestamp"]
    (await storage.api.delete(f"{storage.ns}/persistentvolumeclaims/c")).expect(200)

    async def gone() -> bool:
        return (await storage.api.get(f"{VOLUMES}/{name}")).status == 404

    await until(gone)


async def test_a_provisioner_is_asked_only_where_its_class_allows(storage: Storage) -> None:
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["nowhere"]}]}]
    await storage.storage_class("WaitForFirstConsumer", "example.com/none", allowedTopologies=zones)
    await storage.claim()
    await storage.api.post(f"{storage.ns}/pods", pod("c"))

    async def waits() -> bool:
        found = (await storage.api.get(f"{storage.ns}/pods/p")).json
        messages = [each.get("message", "") for each in found["status"].get("conditions", [])]
        return any("node(s) didn't find available persistent volumes to bind" in each for each in messages)

    await until(waits)
    found = (await storage.api.get(f"{storage.ns}/persistentvolumeclaims/c")).json
    assert "annotations" not in found["metadata"]


async def test_a_provisioner_is_named_in_two_annotations(storage: Storage) -> None:
    await storage.storage_class("Immediate", "example.com/none")
    await storage.claim()

    async def named() -> dict[str, str] | None:
        found = (await storage.api.get(f"{storage.ns}/persistentvolumeclaims/c")).json
        annotations: dict[str, str] | None = found["metadata"].get("annotations")
        return annotations

    assert await until(named) == {
        "volume.beta.kubernetes.io/storage-provisioner": "example.com/none",
        "volume.kubernetes.io/storage-provisioner": "example.com/none",
    }


async def test_an_ephemeral_volume_does_not_take_the_claim_of_another(storage: Storage) -> None:
    await storage.claim(name="p-data")
    made = pod("c")
    made["spec"]["volumes"] = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim()["spec"]}}}]
    (await storage.api.post(f"{storage.ns}/pods", made)).expect(201)
    where = storage.ns.rpartition("/")[2]

    async def waits() -> bool:
        found = (await storage.api.get(f"{storage.ns}/pods/p")).json
        messages = [each.get("message", "") for each in found["status"].get("conditions", [])]
        said = f"PVC {where}/p-data was not created for pod {where}/p (pod is not owner). not found"
        return any(each.endswith(said) for each in messages)

    await until(waits)


async def test_a_claim_in_use_is_not_removed(storage: Storage) -> None:
    await storage.volume("1Gi")
    await storage.claim()
    await storage.api.post(f"{storage.ns}/pods", pod("c"))
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")
    held = (await storage.api.delete(f"{storage.ns}/persistentvolumeclaims/c")).expect(200).json
    assert held["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    await storage.api.delete(f"{storage.ns}/pods/p")

    async def gone() -> bool:
        return (await storage.api.get(f"{storage.ns}/persistentvolumeclaims/c")).status == 404

    await until(gone)


async def test_finalizers_that_protect_storage_come_back(storage: Storage) -> None:
    volume = await storage.volume("1Gi")
    await storage.claim()
    body = {"metadata": {"name": storage.name}, "driverName": "csi.example.com", "parameters": {"a": "b"}}
    (await storage.api.post(ATTRIBUTES, body)).expect(201)
    paths = {
        f"{storage.ns}/persistentvolumeclaims/c": "kubernetes.io/pvc-protection",
        f"{VOLUMES}/{volume}": "kubernetes.io/pv-protection",
        f"{ATTRIBUTES}/{storage.name}": "kubernetes.io/vac-protection",
    }
    for path in paths:
        (await storage.api.patch(path, {"metadata": {"finalizers": None}})).expect(200)

    async def protected() -> bool:
        found = [(await storage.api.get(path)).expect(200).json["metadata"].get("finalizers") for path in paths]
        return found == [[finalizer] for finalizer in paths.values()]

    await until(protected)
    await storage.api.delete(f"{ATTRIBUTES}/{storage.name}")


async def test_an_attributes_class_that_nothing_uses_is_removed(storage: Storage) -> None:
    body = {"metadata": {"name": storage.name}, "driverName": "csi.example.com", "parameters": {"a": "b"}}
    created = (await storage.api.post(ATTRIBUTES, body)).expect(201).json
    assert created["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    await storage.api.delete(f"{ATTRIBUTES}/{storage.name}")

    async def gone() -> bool:
        return (await storage.api.get(f"{ATTRIBUTES}/{storage.name}")).status == 404

    await until(gone)


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
async def test_the_simulated_provisioner_creates_expands_and_deletes_volumes(
    storage: Storage, mode: str, kubewright_target: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("the simulated provisioner is the embedded control plane's")
    await storage.storage_class(mode, "simulation.kubewright.dev", allowVolumeExpansion=True)
    await storage.claim("1Gi")
    await storage.api.post(f"{storage.ns}/pods", pod("c"))
    found = await storage.bound()
    name = found["spec"]["volumeName"]
    assert name == f"pvc-{found['metadata']['uid']}"
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")
    more = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    (await storage.api.patch(f"{storage.ns}/persistentvolumeclaims/c", more)).expect(200)

    async def grown() -> bool:
        claimed = (await storage.api.get(f"{storage.ns}/persistentvolumeclaims/c")).json
        volume = (await storage.api.get(f"{VOLUMES}/{name}")).json
        return bool(claimed["status"]["capacity"] == volume["spec"]["capacity"] == {"storage": "3Gi"})

    await until(grown)
    await storage.api.delete(f"{storage.ns}/pods/p")
    await storage.api.delete(f"{storage.ns}/persistentvolumeclaims/c")

    async def gone() -> bool:
        return (await storage.api.get(f"{VOLUMES}/{name}")).status == 404

    await until(gone)


async def test_a_claim_without_a_class_gets_the_default_one(storage: Storage, kubewright_target: str) -> None:
    if kubewright_target != "embedded":
        pytest.skip("a bare control plane has no class of volumes")
    (await storage.api.post(f"{storage.ns}/persistentvolumeclaims", claim())).expect(201)
    assert (await storage.bound())["spec"]["storageClassName"] == "standard"


async def test_a_claim_gets_a_default_class_that_is_created_later(storage: Storage) -> None:
    mark = "storageclass.kubernetes.io/is-default-class"
    classes = (await storage.api.get(CLASSES)).expect(200).json["items"]
    marked = [each["metadata"]["name"] for each in classes if mark in (each["metadata"].get("annotations") or {})]
    for name in marked:
        await storage.api.patch(f"{CLASSES}/{name}", {"metadata": {"annotations": {mark: "false"}}})
    path = f"{storage.ns}/persistentvolumeclaims"
    (await storage.api.post(path, claim())).expect(201)
    (await storage.api.post(path, claim("bare", storageClassName=""))).expect(201)
    await storage.in_phase(f"{path}/c", "Pending")
    await storage.in_phase(f"{path}/bare", "Pending")
    body = {"metadata": {"name": storage.name, "annotations": {mark: "true"}}, "provisioner": "example.com/none"}
    (await storage.api.post(CLASSES, body)).expect(201)

    async def has_class() -> bool:
        found = (await storage.api.get(f"{path}/c")).expect(200).json
        return bool(found["spec"].get("storageClassName") == storage.name)

    await until(has_class)
    assert (await storage.api.get(f"{path}/bare")).expect(200).json["spec"]["storageClassName"] == ""
    (await storage.api.delete(f"{CLASSES}/{storage.name}")).expect(200)
    for name in marked:
        await storage.api.patch(f"{CLASSES}/{name}", {"metadata": {"annotations": {mark: "true"}}})


async def test_an_ephemeral_volume_has_a_claim_of_its_pod(storage: Storage) -> None:
    await storage.volume("1Gi")
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage.name, "resources": resources}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    containers = [{"name": "c", "image": "nginx:1"}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": [volume]}}
    pod = (await storage.api.post(f"{storage.ns}/pods", body)).expect(201).json
    found = await storage.bound("p-scratch")
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]["c"]) == ({"a": "b"}, "d")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    await storage.in_phase(f"{storage.ns}/pods/p", "Running")
    foreign = {
        **body,
        "metadata": {"name": "p-scratch"},
        "spec": {**body["spec"], "volumes": [{**volume, "name": "x"}]},
    }
    await storage.api.post(f"{storage.ns}/persistentvolumeclaims", claim("p-scratch-x", storageClassName=storage.name))
    (await storage.api.post(f"{storage.ns}/pods", foreign)).expect(201)

    async def is_reported() -> str | None:
        events = (await storage.api.get(f"{storage.ns}/events?fieldSelector=reason=FailedBinding")).json["items"]
        return next((each["message"] for each in events if each["involvedObject"]["name"] == "p-scratch"), None)

    namespace = storage.ns.rpartition("/")[2]
    why = f"PVC {namespace}/p-scratch-x was not created for pod {namespace}/p-scratch (pod is not owner)"
    assert await until(is_reported) == f"ephemeral volume x: {why}"
