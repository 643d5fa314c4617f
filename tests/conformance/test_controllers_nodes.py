"""The node lifecycle and taint eviction controllers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.rawapi import API, until

PROCESSES = "kubewright.dev/processes"
"""The label of nodes that are not simulated, on both targets."""


class Nodes:
    """Nodes of our own, and Pods on them."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.ns = api, ns
        self.names: list[str] = []

    async def create(self, *, simulated: bool, ready: str = "True") -> str:
        name = f"node-{secrets.token_hex(4)}"
        self.names.append(name)
        labels = {"kubernetes.io/os": "linux", **({} if simulated else {PROCESSES: "true"})}
        taint = {"key": "test/ours", "value": name, "effect": "NoSchedule"}
        node: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}}
        if not simulated:
            node["status"] = {"conditions": [{"type": "Ready", "status": ready, "reason": "Test"}]}
        (await self.api.post("/api/v1/nodes", node)).expect(201)
        return name

    async def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"/api/v1/nodes/{name}")).expect(200).json
        return found

    async def tainted(self, name: str, *wanted: str) -> list[dict[str, Any]]:
        """Wait until the node has exactly these taints, as `key:effect`, and the one of the test."""

        async def check() -> list[dict[str, Any]] | None:
            taints = (await self.node(name))["spec"].get("taints", [])
            texts = {f"{each['key']}:{each['effect']}" for each in taints}
            return taints if texts == {"test/ours:NoSchedule", *wanted} else None

        taints: list[dict[str, Any]] = await until(check)
        return taints

    async def taint(self, name: str, *taints: dict[str, str]) -> None:
        """Set NoExecute taints next to the one of the test."""
        ours = {"key": "test/ours", "value": name, "effect": "NoSchedule"}
        change = {"spec": {"taints": [ours, *({**each, "effect": "NoExecute"} for each in taints)]}}
        (await self.api.patch(f"/api/v1/nodes/{name}", change)).expect(200)

    async def pod(self, name: str, node: str, *tolerations: dict[str, Any]) -> None:
        pod: dict[str, Any] = {"metadata": {"name": name}}
        pod["spec"] = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "nginx:1"}],
            "tolerations": list(tolerations),
            "terminationGracePeriodSeconds": 0,
        }
        (await self.api.post(f"{self.ns}/pods", pod)).expect(201)

    async def gone(self, pod: str) -> None:
        async def check() -> bool:
            return (await self.api.get(f"{self.ns}/pods/{pod}")).status == 404

        await until(check)

    async def events(self, pod: str, count: int) -> list[str]:
        """Wait for Events of the eviction of the Pod, and return their messages."""

        async def check() -> list[str] | None:
            query = f"fieldSelector=involvedObject.name={pod},reason=TaintManagerEviction"
            events = (await self.api.get(f"{self.ns}/events?{query}")).expect(200).json["items"]
            return [each["message"] for each in events] if len(events) >= count else None

        messages: list[str] = await until(check)
        return messages


@pytest_asyncio.fixture
async def nodes(api: API, ns: str) -> AsyncIterator[Nodes]:
    nodes = Nodes(api, ns)
    yield nodes
    for name in nodes.names:
        await api.delete(f"/api/v1/nodes/{name}")


async def test_taints_follow_the_conditions_of_a_node(nodes: Nodes) -> None:
    name = await nodes.create(simulated=False)
    await nodes.tainted(name)

    async def labelled() -> bool:
        return (await nodes.node(name))["metadata"]["labels"].get("beta.kubernetes.io/os") == "linux"

    await until(labelled)
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
    status = f"/api/v1/nodes/{name}/status"
    (await nodes.api.patch(status, {"status": {"conditions": conditions}})).expect(200)
    await nodes.tainted(name, "node.kubernetes.io/disk-pressure:NoSchedule")
    (await nodes.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})).expect(200)
    await nodes.tainted(
        name, "node.kubernetes.io/disk-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"
    )
    (await nodes.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})).expect(200)
    conditions = [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}]
    (await nodes.api.patch(status, {"status": {"conditions": conditions}})).expect(200)
    not_ready = "node.kubernetes.io/not-ready"
    taints = await nodes.tainted(name, f"{not_ready}:NoSchedule", f"{not_ready}:NoExecute")
    assert all("timeAdded" in each for each in taints if each["key"] == not_ready)
    unknown = [{"type": "Ready", "status": "Unknown"}]
    (await nodes.api.patch(status, {"status": {"conditions": unknown}})).expect(200)
    unreachable = "node.kubernetes.io/unreachable"
    await nodes.tainted(name, f"{unreachable}:NoSchedule", f"{unreachable}:NoExecute")
    ready = [{"type": "Ready", "status": "True"}]
    (await nodes.api.patch(status, {"status": {"conditions": ready}})).expect(200)
    await nodes.tainted(name)


async def test_pods_that_do_not_tolerate_a_taint_are_evicted(nodes: Nodes) -> None:
    name = await nodes.create(simulated=True)
    taint = {"key": "test/evict", "value": "now"}
    tolerates = {"key": "test/evict", "operator": "Exists", "effect": "NoExecute"}
    await nodes.pod("forever", name, tolerates)
    await nodes.pod("a-while", name, {**tolerates, "tolerationSeconds": 1}, {**tolerates, "tolerationSeconds": 60})
    await nodes.pod("long", name, {**tolerates, "tolerationSeconds": 1000})
    await nodes.pod("other", name, {"key": "test/evict", "value": "later"})
    watch = await nodes.api.watch(f"{nodes.ns}/pods?watch=1&fieldSelector=metadata.name=other")
    await nodes.taint(name, taint)
    evicted = (await watch.until("DELETED"))[-1]["object"]
    targets = [each for each in evicted["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (targets[0]["status"], targets[0]["reason"], targets[0]["message"]) == (
        "True",
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )
    where = nodes.ns.rpartition("/")[2]
    assert await nodes.events("other", 1) == [f"Marking for deletion Pod {where}/other"]
    await nodes.pod("late", name)
    await nodes.gone("late")
    await nodes.gone("a-while")
    await nodes.taint(name)
    assert await nodes.events("long", 1) == [f"Cancelling deletion of Pod {where}/long"]
    for kept in ("forever", "long"):
        pod = (await nodes.api.get(f"{nodes.ns}/pods/{kept}")).expect(200).json
        assert "deletionTimestamp" not in pod["metadata"]


async def test_a_node_is_registered_and_removed_with_events(api: API, nodes: Nodes) -> None:
    name = await nodes.create(simulated=False)

    async def said(reason: str) -> tuple[str, str, str]:
        async def event() -> dict[str, Any] | None:
            selector = f"involvedObject.kind=Node,involvedObject.name={name},reason={reason}"
            items = (await api.get(f"/api/v1/namespaces/default/events?fieldSelector={selector}")).expect(200).json
            found: dict[str, Any] | None = items["items"][0] if items["items"] else None
            return found

        found = await until(event)
        return found["type"], found["source"]["component"], found["message"]

    assert await said("RegisteredNode") == (
        "Normal",
        "node-controller",
        f"Node {name} event: Registered Node {name} in Controller",
    )
    (await api.delete(f"/api/v1/nodes/{name}")).expect(200)
    assert await said("RemovingNode") == (
        "Normal",
        "node-controller",
        f"Node {name} event: Removing Node {name} from Controller",
    )
