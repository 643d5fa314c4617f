"""The controllers for StatefulSets, DaemonSets, Jobs and CronJobs."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API, until


def workload(kind: str, name: str, image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


class Space:
    """One namespace, with the API groups of workloads."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core = api, ns
        self.apps, self.batch = (ns.replace("/api/v1", f"/apis/{group}/v1") for group in ("apps", "batch"))

    async def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.api.get(path)).expect(200).json["items"]
        return items

    async def pods(self) -> list[dict[str, Any]]:
        """Return the names of Pods that are not being deleted."""
        found = await self.items(f"{self.core}/pods")
        return sorted(
            (each for each in found if "deletionTimestamp" not in each["metadata"]),
            key=lambda each: str(each["metadata"]["name"]),
        )

    async def stateful_set(self, name: str = "s", *, updated: int | None = None) -> dict[str, Any]:
        """Wait until all pods of the StatefulSet are ready and `updated` of them have the newest revision."""

        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.apps}/statefulsets/{name}")).json
            status, wanted = found["status"], found["spec"]["replicas"]
            counts = (status.get("replicas", 0), status.get("readyReplicas", 0), status.get("updatedReplicas", 0))
            through = status.get("observedGeneration") == found["metadata"]["generation"]
            right = counts == (wanted, wanted, wanted if updated is None else updated)
            return found if through and right else None

        result: dict[str, Any] = await until(check)
        return result

    async def daemon_set(self, name: str = "s") -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.apps}/daemonsets/{name}")).json
            status = found["status"]
            wanted = status.get("desiredNumberScheduled")
            counts = (status.get("numberAvailable"), status.get("updatedNumberScheduled"))
            through = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if wanted and through and counts == (wanted, wanted) else None

        result: dict[str, Any] = await until(check)
        return result

    async def ended(self, condition: str, name: str = "j") -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.batch}/jobs/{name}")).expect(200).json
            true = [each["type"] for each in found["status"].get("conditions", []) if each["status"] == "True"]
            return found if condition in true else None

        result: dict[str, Any] = await until(check)
        return result


@pytest.fixture
def space(api: API, ns: str) -> Space:
    return Space(api, ns)


def images(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


def new_image(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


async def test_pods_of_a_stateful_set_have_names_and_start_in_order(space: Space) -> None:
    await space.api.post(f"{space.apps}/statefulsets", workload("StatefulSet", "s", replicas=3, serviceName="svc"))
    found = await space.stateful_set()
    pods = await space.pods()
    assert [pod["metadata"]["name"] for pod in pods] == ["s-0", "s-1", "s-2"]
    assert pods == sorted(pods, key=lambda pod: str(pod["status"]["startTime"]))
    labels = pods[1]["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "s-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["controller-revision-hash"] == found["status"]["updateRevision"]
    assert (pods[1]["spec"]["hostname"], pods[1]["spec"]["subdomain"]) == ("s-1", "svc")
    [revision] = await space.items(f"{space.apps}/controllerrevisions")
    assert revision["metadata"]["name"] == found["status"]["currentRevision"]
    assert revision["revision"] == 1
    assert list(revision["data"]["spec"]["template"]) == ["$patch", "metadata", "spec"]  # clients compare the bytes
    assert [name for name in revision["metadata"]["labels"] if "hash" in name] == ["controller.kubernetes.io/hash"]


async def test_a_stateful_set_removes_the_last_pods_first(space: Space) -> None:
    await space.api.post(f"{space.apps}/statefulsets", workload("StatefulSet", "s", replicas=3))
    await space.stateful_set()
    await space.api.patch(f"{space.apps}/statefulsets/s", {"spec": {"replicas": 1}})
    await space.stateful_set()
    assert [pod["metadata"]["name"] for pod in await space.pods()] == ["s-0"]


async def test_an_update_of_a_stateful_set_stops_at_its_partition(space: Space) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    made = workload("StatefulSet", "s", replicas=3, updateStrategy=strategy)
    await space.api.post(f"{space.apps}/statefulsets", made)
    first = await space.stateful_set()
    await space.api.patch(f"{space.apps}/statefulsets/s", new_image("nginx:2"), "strategic")
    held = await space.stateful_set(updated=1)
    assert images(await space.pods()) == ["nginx:1", "nginx:1", "nginx:2"]
    assert held["status"]["currentRevision"] == first["status"]["currentRevision"]
    await space.api.patch(f"{space.apps}/statefulsets/s", {"spec": {"updateStrategy": {"rollingUpdate": None}}})
    done = await space.stateful_set()
    assert images(await space.pods()) == ["nginx:2"] * 3
    assert done["status"]["currentRevision"] == done["status"]["updateRevision"]


async def test_a_rollback_of_a_stateful_set_reuses_its_old_revision(space: Space) -> None:
    await space.api.post(f"{space.apps}/statefulsets", workload("StatefulSet", "s", replicas=1))
    first = await space.stateful_set()
    await space.api.patch(f"{space.apps}/statefulsets/s", new_image("nginx:2"), "strategic")
    await space.stateful_set()
    await space.api.patch(f"{space.apps}/statefulsets/s", new_image("nginx:1"), "strategic")
    back = await space.stateful_set()
    assert back["status"]["updateRevision"] == first["status"]["updateRevision"]
    revisions = await space.items(f"{space.apps}/controllerrevisions")
    assert sorted(each["revision"] for each in revisions) == [2, 3]


async def test_a_lost_pod_of_a_stateful_set_is_recreated_with_its_name(space: Space) -> None:
    await space.api.post(f"{space.apps}/statefulsets", workload("StatefulSet", "s", replicas=2))
    await space.stateful_set()
    lost = (await space.pods())[0]["metadata"]["uid"]
    await space.api.delete(f"{space.core}/pods/s-0")

    async def back() -> bool:
        pods = await space.pods()
        return len(pods) == 2 and pods[0]["metadata"]["uid"] != lost

    await until(back)
    assert [pod["metadata"]["name"] for pod in await space.pods()] == ["s-0", "s-1"]


async def test_each_pod_of_a_stateful_set_has_its_own_claim(space: Space) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = workload("StatefulSet", "s", replicas=1, volumeClaimTemplates=[claim])
    await space.api.post(f"{space.apps}/statefulsets", made)

    async def claimed() -> list[dict[str, Any]]:
        return await space.items(f"{space.core}/persistentvolumeclaims")

    [found] = await until(claimed)
    assert found["metadata"]["name"] == "data-s-0"
    assert found["metadata"]["labels"] == {"app": "s"}

    async def pods() -> list[dict[str, Any]]:
        return await space.pods()

    [pod] = await until(pods)
    assert pod["spec"]["volumes"][0] == {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}


async def test_a_daemon_set_has_a_pod_on_every_node(space: Space) -> None:
    nodes = [each["metadata"]["name"] for each in await space.items("/api/v1/nodes")]
    await space.api.post(f"{space.apps}/daemonsets", workload("DaemonSet", "s"))
    found = await space.daemon_set()
    pods = await space.pods()
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted(nodes)
    assert found["status"]["currentNumberScheduled"] == len(nodes)
    terms = pods[0]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    only = {"key": "metadata.name", "operator": "In", "values": [pods[0]["spec"]["nodeName"]]}
    assert terms == {"nodeSelectorTerms": [{"matchFields": [only]}]}
    tolerated = {each["key"] for each in pods[0]["spec"]["tolerations"]}
    assert "node.kubernetes.io/unschedulable" in tolerated


async def test_a_daemon_set_skips_nodes_that_do_not_match(space: Space) -> None:
    node = (await space.items("/api/v1/nodes"))[0]["metadata"]["name"]
    made = workload("DaemonSet", "s")
    made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    await space.api.post(f"{space.apps}/daemonsets", made)
    found = await space.daemon_set()
    assert found["status"]["desiredNumberScheduled"] == 1
    assert [pod["spec"]["nodeName"] for pod in await space.pods()] == [node]


async def test_an_update_of_a_daemon_set_reaches_all_nodes(space: Space) -> None:
    await space.api.post(f"{space.apps}/daemonsets", workload("DaemonSet", "s"))
    await space.daemon_set()
    await space.api.patch(f"{space.apps}/daemonsets/s", new_image("nginx:2"), "strategic")
    await space.daemon_set()
    assert set(images(await space.pods())) == {"nginx:2"}
    revisions = await space.items(f"{space.apps}/controllerrevisions")
    assert sorted(each["revision"] for each in revisions) == [1, 2]
    assert {name for each in revisions for name in each["metadata"]["labels"] if "hash" in name} == {
        "controller-revision-hash"
    }


async def test_a_job_completes_when_its_pods_have_succeeded(space: Space) -> None:
    await space.api.post(f"{space.batch}/jobs", job(completions=3, parallelism=2))
    found = await space.ended("Complete")
    status = found["status"]
    assert status["succeeded"] == 3
    assert status["completionTime"]
    assert status["uncountedTerminatedPods"] == {}
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    pods = await space.pods()
    assert len(pods) == 3
    assert all("finalizers" not in pod["metadata"] for pod in pods)
    assert pods[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"


async def test_each_pod_of_an_indexed_job_has_an_index(space: Space) -> None:
    await space.api.post(f"{space.batch}/jobs", job(completions=3, parallelism=3, completionMode="Indexed"))
    found = await space.ended("Complete")
    assert found["status"]["completedIndexes"] == "0-2"
    pods = await space.pods()
    key = "batch.kubernetes.io/job-completion-index"
    assert [pod["metadata"]["annotations"][key] for pod in pods] == ["0", "1", "2"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["j-0", "j-1", "j-2"]
    [variable] = pods[0]["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{key}']"


async def test_a_suspended_job_waits_until_it_is_resumed(space: Space) -> None:
    await space.api.post(f"{space.batch}/jobs", job(suspend=True))
    suspended = await space.ended("Suspended")
    assert suspended["status"].get("active", 0) == 0
    assert "startTime" not in suspended["status"]
    assert not await space.pods()
    await space.api.patch(f"{space.batch}/jobs/j", {"spec": {"suspend": False}})
    assert (await space.ended("Complete"))["status"]["startTime"]


async def test_a_job_that_has_failed_too_often_fails(space: Space) -> None:
    made = job(backoffLimit=0)
    made["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}  # its pod stays where a test can finish it
    await space.api.post(f"{space.batch}/jobs", made)
    [pod] = await until(space.pods)
    await space.api.patch(f"{space.core}/pods/{pod['metadata']['name']}/status", {"status": {"phase": "Failed"}})
    found = await space.ended("Failed")
    assert found["status"]["failed"] == 1
    assert [(each["type"], each["reason"]) for each in found["status"]["conditions"]] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


async def test_deleting_a_job_deletes_its_pods(space: Space) -> None:
    made = job()
    made["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    await space.api.post(f"{space.batch}/jobs", made)
    await until(space.pods)
    await space.api.delete(f"{space.batch}/jobs/j", {"propagationPolicy": "Background"})

    async def empty() -> bool:
        return not await space.items(f"{space.core}/pods")

    await until(empty)


async def test_a_finished_job_is_deleted_after_its_ttl(space: Space) -> None:
    await space.api.post(f"{space.batch}/jobs", job(ttlSecondsAfterFinished=0))

    async def gone() -> bool:
        return not await space.items(f"{space.batch}/jobs") and not await space.items(f"{space.core}/pods")

    await until(gone)


async def test_a_cron_job_starts_a_job_on_schedule_within_a_long_deadline(space: Space) -> None:
    template = {"spec": job()["spec"]}
    spec = {"schedule": "@every 1s", "jobTemplate": template, "startingDeadlineSeconds": 10**12}
    made = {"metadata": {"name": "c"}, "spec": spec}
    (await space.api.post(f"{space.batch}/cronjobs", made)).expect(201)

    async def started() -> list[dict[str, Any]]:
        return await space.items(f"{space.batch}/jobs")

    found = (await until(started))[0]
    assert found["metadata"]["name"].startswith("c-")
    assert found["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    assert found["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]

    async def told() -> Any:
        status = (await space.api.get(f"{space.batch}/cronjobs/c")).json["status"]
        return status.get("lastScheduleTime") and status.get("lastSuccessfulTime")

    await until(told)


async def test_a_suspended_cron_job_starts_nothing(space: Space) -> None:
    template = {"spec": job()["spec"]}
    spec = {"schedule": "@every 1s", "jobTemplate": template}
    await space.api.post(f"{space.batch}/cronjobs", {"metadata": {"name": "off"}, "spec": {**spec, "suspend": True}})
    await space.api.post(f"{space.batch}/cronjobs", {"metadata": {"name": "on"}, "spec": spec})

    async def started() -> list[dict[str, Any]]:
        return await space.items(f"{space.batch}/jobs")

    assert all(each["metadata"]["name"].startswith("on-") for each in await until(started))


async def test_a_service_has_endpoints(space: Space) -> None:
    service = {"selector": {"app": "s"}, "ports": [{"port": 80, "targetPort": 8080}]}
    await space.api.post(f"{space.core}/services", {"metadata": {"name": "svc"}, "spec": service})
    await space.api.post(f"{space.apps}/statefulsets", workload("StatefulSet", "s", replicas=2))
    await space.stateful_set()

    async def addresses() -> bool:
        found = (await space.api.get(f"{space.core}/endpoints/svc")).json
        subsets = found.get("subsets") or []
        return len(subsets) == 1 and len(subsets[0].get("addresses", [])) == 2

    await until(addresses)
    found = (await space.api.get(f"{space.core}/endpoints/svc")).json
    assert found["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] == "endpoint-controller"
    assert found["subsets"][0]["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert found["subsets"][0]["addresses"][0]["targetRef"]["kind"] == "Pod"
    await space.api.delete(f"{space.core}/services/svc")

    async def gone() -> bool:
        return (await space.api.get(f"{space.core}/endpoints/svc")).status == 404

    await until(gone)


async def test_an_orphan_that_appears_later_is_adopted(space: Space) -> None:
    made = workload("ReplicaSet", "r", replicas=1)
    await space.api.post(f"{space.apps}/replicasets", made)
    await until(space.pods)
    pod = {**made["spec"]["template"], "metadata": {"name": "stray", "labels": {"app": "r"}}}
    await space.api.post(f"{space.core}/pods", pod)

    async def taken_in() -> bool:
        """Return whether the Pod is adopted and the surplus Pod is deleted."""
        pods = await space.pods()
        return len(pods) == 1 and all("ownerReferences" in each["metadata"] for each in pods)

    await until(taken_in)


async def test_a_pod_that_no_longer_matches_is_released_and_replaced(space: Space) -> None:
    await space.api.post(f"{space.apps}/replicasets", workload("ReplicaSet", "r", replicas=1))
    [pod] = await until(space.pods)
    name = pod["metadata"]["name"]
    other = {"metadata": {"labels": {"app": "other"}}}
    (await space.api.patch(f"{space.core}/pods/{name}", other)).expect(200)

    async def replaced() -> bool:
        owned = {each["metadata"]["name"]: "ownerReferences" in each["metadata"] for each in await space.pods()}
        return len(owned) == 2 and not owned[name]

    await until(replaced)


async def test_a_created_node_becomes_ready_and_accepts_pods(space: Space) -> None:
    taint = {"key": "example.com/for", "value": "this-test", "effect": "NoSchedule"}
    made = {"metadata": {"name": f"node-{space.core.rpartition('-')[2]}"}, "spec": {"taints": [taint]}}
    name = made["metadata"]["name"]
    (await space.api.post("/api/v1/nodes", made)).expect(201)
    try:

        async def ready() -> bool:
            status = (await space.api.get(f"/api/v1/nodes/{name}")).json["status"]
            return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", []))

        await until(ready)

        async def has_time_to_live() -> bool:
            metadata = (await space.api.get(f"/api/v1/nodes/{name}")).json["metadata"]
            return bool(metadata.get("annotations", {}).get("node.alpha.kubernetes.io/ttl") == "0")

        await until(has_time_to_live)
        template = {
            "nodeSelector": {"example.com/name": name},
            "tolerations": [{"key": "example.com/for", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "nginx:1"}],
        }
        await space.api.post(f"{space.core}/pods", {"metadata": {"name": "p"}, "spec": template})
        label = {"metadata": {"labels": {"example.com/name": name}}}
        (await space.api.patch(f"/api/v1/nodes/{name}", label)).expect(200)

        async def runs() -> bool:
            found = (await space.api.get(f"{space.core}/pods/p")).json
            return bool(found["status"].get("phase") == "Running" and found["spec"]["nodeName"] == name)

        await until(runs)
    finally:
        await space.api.delete(f"{space.core}/pods/p")
        await space.api.delete(f"/api/v1/nodes/{name}")
