"""Which node the scheduler chooses, and what it reports of Pods that fit none."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.rawapi import API, until

PREEMPTION = "no new claims to deallocate, preemption: "
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class Zone:
    """Two nodes of our own, with little room, and Pods that run only on them."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.ns = api, ns
        self.label = f"zone-{secrets.token_hex(4)}"
        self.nodes = [f"{self.label}-{name}" for name in "ab"]
        self.classes: list[str] = []

    async def create(self) -> None:
        room = {"cpu": "2", "memory": "4Gi", "pods": "4", "example.com/gpu": "1"}
        for name, rack in zip(self.nodes, "xy", strict=True):
            labels = {"kubernetes.io/hostname": name, "test/zone": self.label, "test/rack": rack}
            node = {
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [{"key": "test/zone", "value": self.label, "effect": "NoSchedule"}]},
                "status": {"capacity": room, "allocatable": room},
            }
            (await self.api.post("/api/v1/nodes", node)).expect(201)
        for name in self.nodes:

            async def ready(name: str = name) -> bool:
                found = (await self.api.get(f"/api/v1/nodes/{name}")).json
                conditions = found["status"].get("conditions", [])
                up = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
                return up and [each["key"] for each in found["spec"]["taints"]] == ["test/zone"]

            await until(ready)

    async def close(self) -> None:
        for name in self.classes:
            await self.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        pods = (await self.api.get(f"{self.ns}/pods")).json["items"]
        for pod in pods:
            await self.api.delete(f"{self.ns}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        for name in self.nodes:
            await self.api.delete(f"/api/v1/nodes/{name}")

    def pod(self, name: str, cpu: str = "0", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        container = {"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}
        return {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "containers": [container],
                "nodeSelector": {"test/zone": self.label},
                "tolerations": [{"key": "test/zone", "operator": "Exists"}],
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }

    async def make(self, pod: dict[str, Any]) -> None:
        (await self.api.post(f"{self.ns}/pods", pod)).expect(201)

    async def on(self, name: str) -> str:
        """Wait until the Pod is on a node, and return the last letter of the node's name."""

        async def bound() -> str:
            return str((await self.api.get(f"{self.ns}/pods/{name}")).expect(200).json["spec"].get("nodeName", ""))

        return str(await until(bound))[-1]

    async def waits(self, name: str, text: str = "") -> str:
        """Wait until the scheduler reports `text` of the Pod, and return all that it reports."""

        async def reported() -> str:
            status = (await self.api.get(f"{self.ns}/pods/{name}")).expect(200).json["status"]
            conditions = [each for each in status.get("conditions", []) if each["type"] == "PodScheduled"]
            message = conditions[0].get("message", "") if conditions else ""
            return str(message) if message and text in message else ""

        return str(await until(reported))

    async def nodes_count(self) -> int:
        return len((await self.api.get("/api/v1/nodes")).json["items"])

    async def priority(self, value: int, policy: str = "PreemptLowerPriority") -> str:
        name = f"{self.label}-{value}-{policy}".lower()
        self.classes.append(name)
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        (await self.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)).expect(201)
        return name


@pytest_asyncio.fixture
async def zone(api: API, ns: str) -> AsyncIterator[Zone]:
    zone = Zone(api, ns)
    await zone.create()
    yield zone
    await zone.close()


async def test_pods_wait_until_there_is_room(zone: Zone) -> None:
    await zone.make(zone.pod("one", "1500m"))
    await zone.make(zone.pod("two", "1500m"))
    assert {await zone.on("one"), await zone.on("two")} == {"a", "b"}
    await zone.make(zone.pod("three", "600m"))
    total = await zone.nodes_count()
    others = f"{total - 2} node(s) didn't match Pod's node affinity/selector"
    reasons = ", ".join(sorted(["2 Insufficient cpu", others]))
    preemption = ", ".join(sorted([f"2 {NO_VICTIMS}", f"{total - 2} {NOT_HELPFUL}"]))
    message = await zone.waits("three")
    assert message == (
        f"0/{total} nodes are available: {reasons}. {PREEMPTION}0/{total} nodes are available: {preemption}."
    )
    pod = (await zone.api.get(f"{zone.ns}/pods/three")).json
    [condition] = pod["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("False", "Unschedulable", 1)

    async def event() -> dict[str, Any] | None:
        query = "fieldSelector=involvedObject.name=three,reason=FailedScheduling"
        events = (await zone.api.get(f"{zone.ns}/events?{query}")).json["items"]
        return events[0] if events else None

    assert (await until(event))["message"] == message
    await zone.make(zone.pod("four", "100m"))
    assert await zone.on("four") in "ab"
    (await zone.api.delete(f"{zone.ns}/pods/one")).expect(200)
    assert await zone.on("three") in "ab"


async def test_what_does_not_fit_is_named(zone: Zone) -> None:
    big = zone.pod("big", "3")
    big["spec"]["containers"][0]["resources"]["requests"] |= {"memory": "5Gi", "example.com/gpu": "2"}
    big["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "2"}
    await zone.make(big)
    message = await zone.waits("big")
    for reason in ("2 Insufficient cpu", "2 Insufficient memory", "2 Insufficient example.com/gpu"):
        assert reason in message
    assert f"{await zone.nodes_count()} {NOT_HELPFUL}" in message
    quantities = {"requests": {"cpu": "100m"}}
    init = {"name": "i", "image": "busybox:1", "resources": {"requests": {"cpu": "1900m"}}}
    sidecar = {"name": "s", "image": "nginx:1", "resources": quantities, "restartPolicy": "Always"}
    await zone.make(zone.pod("inits", "100m", initContainers=[sidecar, init]))
    assert await zone.on("inits") in "ab"
    inits = [sidecar, {**init, "name": "j"}, sidecar | {"name": "t"}]
    await zone.make(zone.pod("inits-again", "100m", initContainers=inits))
    assert await zone.on("inits-again") in "ab"
    await zone.make(zone.pod("left", "100m"))
    assert "2 Insufficient cpu" in await zone.waits("left")


async def test_the_number_of_pods_of_a_node_is_limited(zone: Zone) -> None:
    for number in range(8):
        await zone.make(zone.pod(f"p{number}"))
    for number in range(8):
        await zone.on(f"p{number}")
    await zone.make(zone.pod("more"))
    assert "2 Too many pods" in await zone.waits("more")
    await zone.api.delete(f"{zone.ns}/pods/p3")
    assert await zone.on("more") in "ab"


async def test_host_ports_are_taken_once_on_a_node(zone: Zone) -> None:
    def listening(name: str, **port: Any) -> dict[str, Any]:
        pod = zone.pod(name)
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 30080, **port}]
        return pod

    await zone.make(listening("one"))
    await zone.make(listening("two"))
    assert {await zone.on("one"), await zone.on("two")} == {"a", "b"}
    await zone.make(listening("three", hostIP="127.0.0.1"))
    assert "2 node(s) didn't have free ports for the requested pod ports" in await zone.waits("three")
    await zone.make(listening("udp", protocol="UDP"))
    assert await zone.on("udp") in "ab"


async def test_pods_keep_near_and_far(zone: Zone) -> None:
    def affine(name: str, kind: str, other: str, key: str = "kubernetes.io/hostname", **labels: str) -> dict[str, Any]:
        term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": key}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return zone.pod(name, labels=labels, affinity={kind: rule})

    await zone.make(affine("lone", "podAffinity", "web"))
    assert "2 node(s) didn't match pod affinity rules" in await zone.waits("lone")
    await zone.make(affine("web-1", "podAntiAffinity", "web", app="web"))
    first = await zone.on("web-1")
    assert await zone.on("lone") == first
    await zone.make(affine("web-2", "podAntiAffinity", "web", app="web"))
    assert await zone.on("web-2") != first
    await zone.make(affine("web-3", "podAntiAffinity", "web", app="web"))
    assert "2 node(s) didn't match pod anti-affinity rules" in await zone.waits("web-3")
    await zone.make(zone.pod("web-4", labels={"app": "web"}))
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in await zone.waits("web-4")
    await zone.make(affine("self", "podAffinity", "pack", app="pack"))
    home = await zone.on("self")
    await zone.make(affine("again", "podAffinity", "pack", "test/rack", app="pack"))
    assert await zone.on("again") == home
    (await zone.api.delete(f"{zone.ns}/pods/web-1")).expect(200)
    assert await zone.on("web-3") == first


async def test_pods_are_spread_over_domains(zone: Zone) -> None:
    def spread(name: str, key: str = "test/rack", **constraint: Any) -> dict[str, Any]:
        rule = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "s"}},
            **constraint,
        }
        return zone.pod(name, labels={"app": "s"}, topologySpreadConstraints=[rule])

    for name in ("one", "two"):
        await zone.make(spread(name))
    assert {await zone.on("one"), await zone.on("two")} == {"a", "b"}
    await zone.make(spread("no-label", "test/missing"))
    message = "2 node(s) didn't match pod topology spread constraints (missing required label)"
    assert message in await zone.waits("no-label")
    cordon = {"spec": {"unschedulable": True}}
    (await zone.api.patch(f"/api/v1/nodes/{zone.nodes[1]}", cordon)).expect(200)
    await zone.make(spread("three"))
    assert await zone.on("three") == "a"
    await zone.make(spread("four"))
    message = await zone.waits("four")
    assert "1 node(s) didn't match pod topology spread constraints" in message
    assert "1 node(s) were unschedulable" in message
    (await zone.api.patch(f"/api/v1/nodes/{zone.nodes[1]}", {"spec": {"unschedulable": None}})).expect(200)
    assert await zone.on("four") == "b"
    await zone.make(spread("domains", minDomains=3))
    assert "2 node(s) didn't match pod topology spread constraints" in await zone.waits("domains")


async def test_a_pod_prefers_nodes(zone: Zone) -> None:
    prefers = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "test/rack", "operator": "In", "values": ["y"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [prefers]}}
    for name in ("one", "two", "three"):
        await zone.make(zone.pod(name, affinity=affinity))
        assert await zone.on(name) == "b"
    far = {"weight": 100, "podAffinityTerm": {"labelSelector": {}, "topologyKey": "test/rack"}}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [far]}}
    await zone.make(zone.pod("four", affinity=affinity))
    assert await zone.on("four") == "a"


async def test_gated_pods_are_not_scheduled(zone: Zone) -> None:
    await zone.make(zone.pod("gated", schedulingGates=[{"name": "test/wait"}]))
    [condition] = (await zone.api.get(f"{zone.ns}/pods/gated")).json["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
        "Scheduling is blocked due to non-empty scheduling gates",
    )
    (await zone.api.patch(f"{zone.ns}/pods/gated", {"spec": {"schedulingGates": None}})).expect(200)
    assert await zone.on("gated") in "ab"


async def test_a_pod_preempts_those_of_lower_priority(zone: Zone) -> None:
    low, high = await zone.priority(10), await zone.priority(1000)
    await zone.make(zone.pod("low-1", "1500m", priorityClassName=low))
    await zone.make(zone.pod("low-2", "1500m", priorityClassName=low))
    where = {await zone.on("low-1"): "low-1", await zone.on("low-2"): "low-2"}
    await zone.make(zone.pod("polite", "1", priorityClassName=await zone.priority(500, "Never")))
    message = await zone.waits("polite")
    assert message.endswith(f" {PREEMPTION}not eligible due to preemptionPolicy=Never.")
    watch = await zone.api.watch(f"{zone.ns}/pods?watch=1")
    await zone.make(zone.pod("high", "1", priorityClassName=high))
    victim = where[await zone.on("high")]
    assert (await zone.api.get(f"{zone.ns}/pods/{victim}")).status == 404
    deleted = (await watch.until("DELETED"))[-1]["object"]
    targets = [each for each in deleted["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert deleted["metadata"]["name"] == victim
    assert (targets[0]["reason"], targets[0]["message"]) == (
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    uid = (await zone.api.get(f"{zone.ns}/pods/high")).json["metadata"]["uid"]

    async def event() -> dict[str, Any] | None:
        query = f"fieldSelector=involvedObject.name={victim},reason=Preempted"
        events = (await zone.api.get(f"{zone.ns}/events?{query}")).json["items"]
        return events[0] if events else None

    found = await until(event)
    node = (await zone.api.get(f"{zone.ns}/pods/high")).json["spec"]["nodeName"]
    assert found["message"] == f"Preempted by pod {uid} on node {node}"
    assert "nominatedNodeName" not in (await zone.api.get(f"{zone.ns}/pods/high")).json["status"]


async def test_preemption_spares_pods_of_a_budget(zone: Zone) -> None:
    low, high = await zone.priority(10), await zone.priority(1000)
    for name in ("kept", "spare"):
        await zone.make(zone.pod(name, "1500m", {"app": name}, priorityClassName=low))
    assert {await zone.on("kept"), await zone.on("spare")} == {"a", "b"}
    policy = zone.ns.replace("/api/v1", "/apis/policy/v1")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}}
    (await zone.api.post(f"{policy}/poddisruptionbudgets", budget)).expect(201)

    async def counted() -> bool:
        status = (await zone.api.get(f"{policy}/poddisruptionbudgets/b")).json.get("status", {})
        return bool(status.get("currentHealthy") == 1)

    await until(counted)
    await zone.make(zone.pod("high", "1", priorityClassName=high))
    await zone.on("high")
    assert (await zone.api.get(f"{zone.ns}/pods/kept")).status == 200
    assert (await zone.api.get(f"{zone.ns}/pods/spare")).status == 404
