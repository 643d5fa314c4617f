"""The subresource `resize` of Pods: CPU and memory that change in place."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.rawapi import API, Answer, until


def sized(name: str, cpu: str, memory: str = "64Mi", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"name": name, "image": "nginx:1", "resources": resources, **more}


class Pods:
    """Pods on a node of the test, whose status nothing else writes."""

    def __init__(self, api: API, ns: str, node: str) -> None:
        self.api, self.ns, self.node = api, ns, node

    async def create(self, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        body = {"metadata": {"name": name}, "spec": {"nodeName": self.node, "containers": containers, **spec}}
        made: dict[str, Any] = (await self.api.post(f"{self.ns}/pods", body)).expect(201).json
        return made

    async def resize(self, name: str, *containers: dict[str, Any], kind: str = "strategic", **spec: Any) -> Answer:
        change = {"spec": {**({"containers": containers} if containers else {}), **spec}}
        return await self.api.patch(f"{self.ns}/pods/{name}/resize", change, kind)


@pytest_asyncio.fixture
async def pods(api: API, ns: str) -> AsyncIterator[Pods]:
    name = f"node-{secrets.token_hex(4)}"
    capacity = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    body: dict[str, Any] = {"metadata": {"name": name, "labels": {"kubewright.dev/processes": "true"}}}
    body["status"] = {"capacity": capacity, "allocatable": capacity}
    (await api.post("/api/v1/nodes", body)).expect(201)
    yield Pods(api, ns, name)
    await api.delete(f"/api/v1/nodes/{name}")


async def test_a_resize_changes_cpu_and_memory_alone(pods: Pods) -> None:
    made = await pods.create("p", sized("a", "100m"), sized("b", "1"))
    assert made["metadata"]["generation"] == 1
    change = {**sized("a", "250m"), "image": "nginx:2", "env": [{"name": "X", "value": "y"}]}
    resized = (await pods.resize("p", change, activeDeadlineSeconds=5)).expect(200).json
    first, second = resized["spec"]["containers"]
    assert first["resources"] == {"requests": {"cpu": "250m", "memory": "64Mi"}}
    assert (first["image"], "env" in first, second["resources"]["requests"]["cpu"]) == ("nginx:1", False, "1")
    assert "activeDeadlineSeconds" not in resized["spec"]
    assert resized["metadata"]["generation"] == 2
    managers = {each.get("subresource", ""): each["fieldsV1"] for each in resized["metadata"]["managedFields"]}
    assert 'k:{"name":"a"}' in managers["resize"]["f:spec"]["f:containers"]

    path = f"{pods.ns}/pods/p"
    shown = (await pods.api.get(f"{path}/resize")).expect(200).json
    assert shown == (await pods.api.get(path)).expect(200).json
    shown["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "300m"
    shown["metadata"]["labels"] = {"ignored": "yes"}
    replaced = (await pods.api.put(f"{path}/resize", shown)).expect(200).json
    assert replaced["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"
    assert "labels" not in replaced["metadata"]
    same = (await pods.resize("p", sized("a", "300m"))).expect(200).json
    assert same["metadata"]["resourceVersion"] == replaced["metadata"]["resourceVersion"]


async def test_what_a_resize_may_not_do(pods: Pods) -> None:
    await pods.create("p", sized("a", "100m"), sized("b", "1"))

    async def refused(expected: str, *containers: dict[str, Any], **more: Any) -> None:
        answer = (await pods.resize("p", *containers, **more)).expect(422)
        assert answer.message == f'Pod "p" is invalid: {expected}'

    limits = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    everything = [{"name": each, "resources": limits} for each in "ab"]
    quality = 'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'
    await refused(quality, *everything)
    removed = {"name": "a", "resources": {"requests": {"cpu": None}}}
    await refused("spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed", removed)
    more = {"name": "a", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}
    await refused("spec: Forbidden: only cpu and memory resources are mutable", more)
    added = "spec.containers: Forbidden: containers may not be added or removed on resize"
    await refused(added, sized("c", "1"))
    swapped = "Forbidden: containers may not be renamed or reordered on resize"
    both = f"[spec.containers[0].name: {swapped}, spec.containers[1].name: {swapped}]"
    await refused(both, sized("b", "1"), sized("a", "100m"), kind="merge")
    await refused(
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        {"name": "a", "resources": {"requests": {"cpu": "-1"}}},
    )
    policy = {"name": "a", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    await refused("spec: Forbidden: only cpu and memory resources are mutable", policy)

    running: dict[str, Any] = {"name": "a", "image": "nginx:1", "imageID": "", "ready": True, "restartCount": 0}
    running["state"] = {"running": {"startedAt": "2026-01-31T12:00:00Z"}}
    status = {"phase": "Running", "containerStatuses": [running, {**running, "name": "b"}]}
    (await pods.api.patch(f"{pods.ns}/pods/p/status", {"status": status})).expect(200)
    await refused("spec: Forbidden: Pod running on node without support for resize", sized("a", "200m"))


async def test_a_resize_is_admitted_like_a_new_pod(pods: Pods) -> None:
    await pods.create("p", sized("a", "100m"))
    name = 'pods "p" is forbidden: '
    refused = (await pods.resize("p", sized("a", "5", "8Gi"))).expect(403)
    size = f"cpu, requested: 5000, allocatable: 4000; memory, requested: {8 << 30}, allocatable: {4 << 30}"
    assert refused.message == f"{name}node didn't have enough allocatable resources: {size}"
    assert refused.json["details"]["causes"] == [{"reason": "NodeCapacity"}]

    item = {"type": "Container", "max": {"cpu": "2"}}
    body = {"metadata": {"name": "limits"}, "spec": {"limits": [item]}}
    (await pods.api.post(f"{pods.ns}/limitranges", body)).expect(201)

    async def limited() -> bool:
        three = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
        answer = await pods.resize("p", {"name": "a", "resources": three})
        return answer.status == 403 and "maximum cpu usage per Container is 2" in answer.message

    await until(limited)
    defaulted = (
        'spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'
    )
    refused = (await pods.resize("p", {"name": "a", "resources": {"requests": {"cpu": "3"}}})).expect(422)
    assert refused.message == f'Pod "p" is invalid: {defaulted}'
    (await pods.api.delete(f"{pods.ns}/limitranges/limits")).expect(200)
    hard = {"requests.cpu": "1", "requests.memory": "1Gi"}
    (await pods.api.post(f"{pods.ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})).expect(201)

    async def counted(cpu: str) -> None:
        async def check() -> bool:
            found = (await pods.api.get(f"{pods.ns}/resourcequotas/q")).expect(200).json
            return bool(found.get("status", {}).get("used", {}).get("requests.cpu") == cpu)

        await until(check)

    await counted("100m")
    refused = (await pods.resize("p", sized("a", "2"))).expect(403)
    assert (
        refused.message
        == f"{name}exceeded quota: q, requested: requests.cpu=1900m, used: requests.cpu=100m, limited: requests.cpu=1"
    )
    (await pods.resize("p", sized("a", "500m"))).expect(200)
    await counted("500m")
