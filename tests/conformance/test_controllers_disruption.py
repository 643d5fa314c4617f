"""The disruption controller, evictions that respect budgets, and the ReplicationController controller."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API, until


def labelled(name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "template": template, **spec}}


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


class Space:
    """One namespace."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core = api, ns
        self.apps, self.policy = (ns.replace("/api/v1", f"/apis/{group}/v1") for group in ("apps", "policy"))

    async def budget(self, **counts: int) -> dict[str, Any]:
        """Wait until the status of the budget has these counts, and return it."""

        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.policy}/poddisruptionbudgets/b")).expect(200).json
            status = found.get("status", {})
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            return status if current and counts.items() <= status.items() else None

        status: dict[str, Any] = await until(check)
        return status

    async def event(self, reason: str) -> str:
        """Wait for an Event with this reason and return its message."""

        async def check() -> str | None:
            events = (await self.api.get(f"{self.core}/events?fieldSelector=reason={reason}")).expect(200).json["items"]
            return events[0]["message"] if events else None

        message: str = await until(check)
        return message

    async def pods(self) -> list[str]:
        """Return the names of the Pods that are not being deleted."""
        items = (await self.api.get(f"{self.core}/pods")).expect(200).json["items"]
        return [each["metadata"]["name"] for each in items if "deletionTimestamp" not in each["metadata"]]

    async def replicas(self, count: int, kind: str = "replicationcontrollers") -> dict[str, Any]:
        path = f"{self.core if kind.startswith('replication') else self.apps}/{kind}/web"

        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(path)).expect(200).json
            status = found["status"]
            counts = status.get("replicas", 0), status.get("readyReplicas", 0)
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if current and counts == (count, count) else None

        found: dict[str, Any] = await until(check)
        return found

    async def evict(self, pod: str) -> Any:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        return await self.api.post(f"{self.core}/pods/{pod}/eviction", body)


@pytest.fixture
def space(api: API, ns: str) -> Space:
    return Space(api, ns)


async def test_a_replication_controller_keeps_its_number_of_pods(space: Space) -> None:
    api = space.api
    (await api.post(f"{space.core}/replicationcontrollers", labelled("web", replicas=3))).expect(201)
    found = await space.replicas(3)
    assert found["status"] == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }
    assert (await space.event("SuccessfulCreate")).startswith("Created pod: web-")
    pods = (await api.get(f"{space.core}/pods")).json["items"]
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods} == {"ReplicationController"}
    name = pods[0]["metadata"]["name"]
    await api.patch(f"{space.core}/pods/{name}", {"metadata": {"labels": {"app": "other"}}})

    async def released() -> bool:
        pod = (await api.get(f"{space.core}/pods/{name}")).json
        return "ownerReferences" not in pod["metadata"] and len(await space.pods()) == 4

    await until(released)
    scale = {"spec": {"replicas": 1}}
    (await api.patch(f"{space.core}/replicationcontrollers/web/scale", scale)).expect(200)
    await space.replicas(1)
    await api.patch(f"{space.core}/pods/{name}", {"metadata": {"labels": {"app": "web"}}})

    async def adopted() -> bool:
        return len(await space.pods()) == 1

    await until(adopted)


async def test_a_replication_controller_reports_that_it_cannot_create_pods(space: Space) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    (await space.api.post(f"{space.core}/resourcequotas", quota)).expect(201)

    async def counted() -> bool:
        return bool((await space.api.get(f"{space.core}/resourcequotas/q")).json.get("status", {}).get("used"))

    await until(counted)
    (await space.api.post(f"{space.core}/replicationcontrollers", labelled("web", replicas=2))).expect(201)

    async def failing() -> dict[str, Any] | None:
        status = (await space.api.get(f"{space.core}/replicationcontrollers/web")).json["status"]
        return status if status.get("conditions") else None

    [condition] = (await until(failing))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "exceeded quota: q" in condition["message"]
    (await space.api.delete(f"{space.core}/resourcequotas/q")).expect(200)
    await space.api.patch(f"{space.core}/replicationcontrollers/web", {"metadata": {"labels": {"try": "again"}}})
    assert "conditions" not in (await space.replicas(2))["status"]


async def test_a_budget_counts_the_pods_of_its_controllers(space: Space) -> None:
    api = space.api
    (await api.post(f"{space.policy}/poddisruptionbudgets", budget(maxUnavailable="30%"))).expect(201)
    status = await space.budget(expectedPods=0)
    [condition] = status.pop("conditions")
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": 1,
    }
    assert status == {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
        "observedGeneration": 1,
    }
    assert await space.event("NoPods") == "No matching pods found"
    made = labelled("web", replicas=3, selector={"matchLabels": {"app": "web"}})
    (await api.post(f"{space.apps}/deployments", made)).expect(201)
    status = await space.budget(expectedPods=3, currentHealthy=3, desiredHealthy=2, disruptionsAllowed=1)
    [condition] = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "SufficientPods")
    await api.patch(f"{space.apps}/deployments/web", {"spec": {"replicas": 10}})
    await space.budget(expectedPods=10, currentHealthy=10, desiredHealthy=7, disruptionsAllowed=3)
    (await api.patch(f"{space.policy}/poddisruptionbudgets/b", {"spec": {"maxUnavailable": 0}})).expect(200)
    await space.budget(expectedPods=10, desiredHealthy=10, disruptionsAllowed=0, observedGeneration=2)
    change = {"spec": {"maxUnavailable": None, "minAvailable": "50%"}}
    (await api.patch(f"{space.policy}/poddisruptionbudgets/b", change)).expect(200)
    await space.budget(expectedPods=10, desiredHealthy=5, disruptionsAllowed=5)


async def test_a_pod_of_several_budgets_is_reported(space: Space) -> None:
    api = space.api
    for name in ("a", "b"):
        made = budget(minAvailable=0)
        made["metadata"]["name"] = name
        (await api.post(f"{space.policy}/poddisruptionbudgets", made)).expect(201)
    pod: dict[str, Any] = {"metadata": {"name": "web", "labels": {"app": "web"}}}
    pod["spec"] = {"containers": [{"name": "c", "image": "nginx:1"}]}
    (await api.post(f"{space.core}/pods", pod)).expect(201)
    namespace = space.core.rpartition("/")[2]
    several = f'Pod "{namespace}"/"web" matches multiple PodDisruptionBudgets.  Chose "'
    assert (await space.event("MultiplePodDisruptionBudgets")).startswith(several)


async def test_evictions_use_up_a_budget(space: Space) -> None:
    api = space.api
    (await api.post(f"{space.core}/replicationcontrollers", labelled("web", replicas=3))).expect(201)
    await space.replicas(3)
    (await api.post(f"{space.policy}/poddisruptionbudgets", budget(minAvailable=3))).expect(201)
    await space.budget(disruptionsAllowed=0, expectedPods=3)
    first = (await space.pods())[0]
    refused = (await space.evict(first)).expect(429).json
    cause = "The disruption budget b needs 3 healthy pods and has 3 currently"
    assert refused["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    (await api.patch(f"{space.policy}/poddisruptionbudgets/b", {"spec": {"minAvailable": 2}})).expect(200)
    await space.budget(disruptionsAllowed=1, observedGeneration=2)
    (await space.evict(first)).expect(201)

    async def replaced() -> bool:
        pods = await space.pods()
        return len(pods) == 3 and first not in pods

    await until(replaced)
    status = await space.budget(disruptionsAllowed=1, currentHealthy=3)

    async def forgotten() -> bool:
        return "disruptedPods" not in await space.budget()

    assert status["expectedPods"] == 3
    await until(forgotten)


async def test_a_budget_of_pods_without_a_scale_allows_no_disruption(space: Space) -> None:
    api = space.api
    owner = (await api.post(f"{space.core}/configmaps", {"metadata": {"name": "owner"}})).json["metadata"]
    pod: dict[str, Any] = {"metadata": {"name": "web", "labels": {"app": "web"}}}
    pod["spec"] = {"containers": [{"name": "c", "image": "nginx:1"}]}
    (await api.post(f"{space.core}/pods", pod)).expect(201)
    (await api.post(f"{space.policy}/poddisruptionbudgets", budget(maxUnavailable=1))).expect(201)
    note = await space.event("UnmanagedPods")
    selector = "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert note.startswith(f"Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unman")
    await space.budget(expectedPods=0, disruptionsAllowed=0, currentHealthy=1)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"], "controller": True}
    change = {"metadata": {"ownerReferences": [reference]}}
    (await api.patch(f"{space.core}/pods/web", change)).expect(200)
    note = await space.event("CalculateExpectedPodCountFailed")
    error = "configmaps does not implement the scale subresource"
    assert note == f"Failed to calculate the number of expected pods: {error}"

    async def failed() -> dict[str, Any] | None:
        conditions = (await space.budget())["conditions"]
        return conditions[0] if conditions[0]["reason"] == "SyncFailed" else None

    condition = await until(failed)
    assert (condition["status"], condition["message"]) == ("False", error)
