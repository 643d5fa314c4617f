"""StatefulSets: how Pods are created, replaced and deleted, and what happens to their claims."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API, until

REVISION = "controller-revision-hash"
WAITS = {"nodeSelector": {"no": "such-node"}}


class Sets:
    """The StatefulSet `s` of one namespace."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core = api, ns
        self.path = ns.replace("/api/v1", "/apis/apps/v1") + "/statefulsets"

    async def create(self, *, replicas: int, pod: dict[str, Any] | None = None, **spec: Any) -> None:
        labels = {"app": "s"}
        containers = [{"name": "c", "image": "nginx:1"}]
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **(pod or {})},
        }
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
        (await self.api.post(self.path, {"metadata": {"name": "s"}, "spec": body})).expect(201)

    async def change(self, **spec: Any) -> None:
        (await self.api.patch(f"{self.path}/s", {"spec": spec})).expect(200)

    async def image(self, image: str, **pod: Any) -> None:
        containers = [{"name": "c", "image": image}]
        change = {"spec": {"template": {"spec": {"containers": containers, **pod}}}}
        (await self.api.patch(f"{self.path}/s", change, "strategic")).expect(200)

    async def status(self, **counts: int) -> dict[str, Any]:
        """Wait until the status has these counts for the current generation."""

        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.path}/s")).expect(200).json
            status: dict[str, Any] = found["status"]
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            return status if current and all(status.get(key, 0) == value for key, value in counts.items()) else None

        status: dict[str, Any] = await until(check)
        return status

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Return the Pods that are not being deleted, by name."""
        items = (await self.api.get(f"{self.core}/pods")).expect(200).json["items"]
        live = (each for each in items if "deletionTimestamp" not in each["metadata"])
        return {each["metadata"]["name"]: each for each in sorted(live, key=lambda each: str(each["metadata"]["name"]))}

    async def names(self, *wanted: str) -> None:
        """Wait until these Pods exist, and no others."""

        async def check() -> bool:
            return list(await self.pods()) == list(wanted)

        await until(check)

    async def claims(self) -> dict[str, list[tuple[str, str]]]:
        """Return the owners of each claim, as kind and name."""
        items = (await self.api.get(f"{self.core}/persistentvolumeclaims")).expect(200).json["items"]
        return {
            each["metadata"]["name"]: [(o["kind"], o["name"]) for o in each["metadata"].get("ownerReferences", [])]
            for each in items
            if "deletionTimestamp" not in each["metadata"]
        }


@pytest.fixture
def sets(api: API, ns: str) -> Sets:
    return Sets(api, ns)


async def test_ordered_pods_wait_for_the_one_before(sets: Sets) -> None:
    await sets.create(replicas=2, pod=WAITS)
    await sets.names("s-0")
    status = await sets.status(replicas=1, readyReplicas=0, currentReplicas=1, updatedReplicas=1)
    assert status["currentRevision"] == status["updateRevision"]
    assert status["availableReplicas"] == 0
    assert list(await sets.pods()) == ["s-0"]


async def test_parallel_pods_do_not_wait(sets: Sets) -> None:
    await sets.create(replicas=3, pod=WAITS, podManagementPolicy="Parallel", ordinals={"start": 5})
    await sets.names("s-5", "s-6", "s-7")
    pod = (await sets.pods())["s-6"]
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "6"
    assert (pod["spec"]["hostname"], pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]) == ("s-6", "s-6")
    await sets.change(replicas=1)
    await sets.names("s-5")
    await sets.change(replicas=2, ordinals={"start": 4})
    await sets.names("s-4", "s-5")


async def test_an_update_replaces_a_broken_pod_first(sets: Sets) -> None:
    await sets.create(replicas=3)
    first = await sets.status(readyReplicas=3, updatedReplicas=3)
    await sets.image("nginx:2", **WAITS)
    held = await sets.status(readyReplicas=2, updatedReplicas=1, currentReplicas=2)
    assert (held["currentRevision"], held["replicas"]) == (first["currentRevision"], 3)
    pods = await sets.pods()
    assert [each["spec"]["containers"][0]["image"] for each in pods.values()] == ["nginx:1", "nginx:1", "nginx:2"]
    await sets.image("nginx:3", nodeSelector=None)
    (await sets.api.delete(f"{sets.core}/pods/s-2")).expect(200)  # a broken Pod is not replaced by a newer revision
    done = await sets.status(readyReplicas=3, updatedReplicas=3, currentReplicas=3)
    assert done["currentRevision"] == done["updateRevision"] != first["currentRevision"]


async def test_pods_of_on_delete_sets_are_updated_when_they_are_deleted(sets: Sets) -> None:
    await sets.create(replicas=2, updateStrategy={"type": "OnDelete"})
    await sets.status(readyReplicas=2)
    await sets.image("nginx:2")
    status = await sets.status(updatedReplicas=0, currentReplicas=2)
    assert status["currentRevision"] != status["updateRevision"]
    (await sets.api.delete(f"{sets.core}/pods/s-0")).expect(200)
    status = await sets.status(readyReplicas=2, updatedReplicas=1)
    pods = await sets.pods()
    assert [each["spec"]["containers"][0]["image"] for each in pods.values()] == ["nginx:2", "nginx:1"]
    assert status["currentReplicas"] == 1


async def test_an_update_does_not_wait_for_pods_before_it(sets: Sets) -> None:
    await sets.create(replicas=3, pod=WAITS, podManagementPolicy="Parallel")
    await sets.names("s-0", "s-1", "s-2")
    await sets.image("nginx:2", nodeSelector=None)
    done = await sets.status(readyReplicas=3, updatedReplicas=3)
    assert done["currentRevision"] == done["updateRevision"]


async def test_pods_that_have_ended_are_replaced(sets: Sets) -> None:
    await sets.create(replicas=2, pod=WAITS, podManagementPolicy="Parallel")
    await sets.names("s-0", "s-1")
    before = (await sets.pods())["s-1"]["metadata"]["uid"]
    for name, phase in (("s-0", "Failed"), ("s-1", "Succeeded")):
        (await sets.api.patch(f"{sets.core}/pods/{name}/status", {"status": {"phase": phase}})).expect(200)

    async def replaced() -> bool:
        pods = await sets.pods()
        phases = [each["status"]["phase"] for each in pods.values()]
        return phases == ["Pending", "Pending"] and pods["s-1"]["metadata"]["uid"] != before

    await until(replaced)

    async def told(reason: str) -> list[str]:
        items = (await sets.api.get(f"{sets.core}/events?fieldSelector=reason={reason}")).expect(200).json["items"]
        return sorted({each["message"] for each in items})

    async def all_told() -> bool:
        created = await told("SuccessfulCreate") == [f"Create Pod s-{i} in StatefulSet s successful" for i in (0, 1)]
        return created and len(await told("SuccessfulDelete")) == 2

    await until(all_told)
    assert (await told("SuccessfulDelete"))[0] == "Delete Pod s-0 in StatefulSet s successful"


async def test_claims_are_kept_or_deleted_by_the_policy(sets: Sets) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": {**spec, "storageClassName": "none"}}
    await sets.create(
        replicas=2,
        pod=WAITS,
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Retain"},
    )

    async def owned(wanted: dict[str, list[tuple[str, str]]]) -> None:
        async def check() -> bool:
            return await sets.claims() == wanted

        await until(check)

    mine = [("StatefulSet", "s")]
    await owned({"data-s-0": mine, "data-s-1": mine})
    await sets.change(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Delete"})
    await owned({"data-s-0": [], "data-s-1": []})
    await sets.change(replicas=1)
    await owned({"data-s-0": []})
    await sets.names("s-0")
    (await sets.api.delete(f"{sets.path}/s", {"propagationPolicy": "Background"})).expect(200)
    await sets.names()
    assert await sets.claims() == {"data-s-0": []}
