"""Events of the controllers: who reports them, in which form, and what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.rawapi import API, until

NO_NODE = {"no": "such-node"}


def template(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "nginx:1"}]
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
    }


def workload(name: str, pods: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template(name, **pods or {}), **spec},
    }


class Space:
    """One namespace."""

    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core, self.name = api, ns, ns.rpartition("/")[2]

    def group(self, group: str) -> str:
        return self.core.replace("/api/v1", f"/apis/{group}/v1")

    async def events(self, reason: str, about: str) -> list[dict[str, Any]]:
        fields = f"reason={reason},involvedObject.name={about}"
        found: list[dict[str, Any]] = (await self.api.get(f"{self.core}/events?fieldSelector={fields}")).json["items"]
        return found

    async def event(self, reason: str, about: str) -> dict[str, Any]:
        """Wait for an Event and return it."""
        event: dict[str, Any] = (await until(lambda: self.events(reason, about)))[0]
        return event

    async def said(self, reason: str, about: str) -> tuple[str, str]:
        event = await self.event(reason, about)
        return event["type"], event["message"]

    async def pods(self, count: int) -> list[dict[str, Any]]:
        async def check() -> list[dict[str, Any]] | None:
            items: list[dict[str, Any]] = (await self.api.get(f"{self.core}/pods")).expect(200).json["items"]
            return items if len(items) == count else None

        pods: list[dict[str, Any]] = await until(check)
        return pods


@pytest.fixture
def space(api: API, ns: str) -> Space:
    return Space(api, ns)


async def test_events_name_their_controller(space: Space) -> None:
    api, apps = space.api, space.group("apps")
    (await api.post(f"{apps}/deployments", workload("web", replicas=1))).expect(201)
    scaled = await space.event("ScalingReplicaSet", "web")
    assert (scaled["source"], scaled["reportingComponent"]) == (
        {"component": "deployment-controller"},
        "deployment-controller",
    )
    assert (scaled["count"], scaled["eventTime"], scaled["reportingInstance"]) == (1, None, "")
    assert scaled["firstTimestamp"] == scaled["lastTimestamp"]
    assert "action" not in scaled
    [pod] = await space.pods(1)
    scheduled = await space.event("Scheduled", pod["metadata"]["name"])
    assert (scheduled["source"], scheduled["reportingComponent"], scheduled["action"]) == (
        {},
        "default-scheduler",
        "Binding",
    )
    assert scheduled["eventTime"]
    assert scheduled["firstTimestamp"] is None


async def test_similar_events_are_combined(space: Space) -> None:
    (await space.api.post(f"{space.group('apps')}/replicasets", workload("web", replicas=14))).expect(201)
    await space.pods(14)

    async def combined() -> list[dict[str, Any]] | None:
        events = await space.events("SuccessfulCreate", "web")
        return events if sum(each["count"] for each in events) == 14 else None

    events = await until(combined)
    prefix = "(combined from similar events): Created pod: web-"
    assert sorted(each["count"] for each in events) == [*[1] * 9, 5]
    assert [each["count"] for each in events if each["message"].startswith(prefix)] == [5]


async def test_a_refused_pod_causes_one_event(space: Space) -> None:
    """Also shows the status of a Job whose Pods are refused."""
    api, batch = space.api, space.group("batch")
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    (await api.post(f"{space.core}/limitranges", limits)).expect(201)
    container = {"name": "c", "image": "nginx:1", "resources": {"limits": {"cpu": "2"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    (await api.post(f"{batch}/jobs", {"metadata": {"name": "j"}, "spec": spec})).expect(201)

    async def started() -> dict[str, Any] | None:
        status: dict[str, Any] = (await api.get(f"{batch}/jobs/j")).expect(200).json["status"]
        return status if status.get("startTime") else None

    status = await until(started)
    status.pop("startTime")
    assert status == {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    kind, message = await space.said("FailedCreate", "j")
    assert kind == "Warning"
    assert message.endswith("maximum cpu usage per Container is 1, but limit is 2")
    events = (await api.get(f"{space.core}/events")).json["items"]
    assert {each["reason"] for each in events} == {"FailedCreate"}


async def test_a_job_reports_that_it_is_suspended_and_resumed(space: Space) -> None:
    api, batch = space.api, space.group("batch")
    pod = {"restartPolicy": "Never", "nodeSelector": NO_NODE, "containers": [{"name": "c", "image": "nginx:1"}]}
    made = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": pod}}}
    (await api.post(f"{batch}/jobs", made)).expect(201)
    assert await space.said("Suspended", "j") == ("Normal", "Job suspended")
    (await api.patch(f"{batch}/jobs/j", {"spec": {"suspend": False}})).expect(200)
    assert await space.said("Resumed", "j") == ("Normal", "Job resumed")


async def test_orphans_of_a_job_can_be_deleted(space: Space) -> None:
    api, batch = space.api, space.group("batch")
    pod = {"restartPolicy": "Never", "nodeSelector": NO_NODE, "containers": [{"name": "c", "image": "nginx:1"}]}
    own = {
        "manualSelector": True,
        "selector": {"matchLabels": {"my": "label"}},
        "template": {"metadata": {"labels": {"my": "label"}}, "spec": pod},
    }
    (await api.post(f"{batch}/jobs", {"metadata": {"name": "generated"}, "spec": {"template": {"spec": pod}}})).expect(
        201
    )
    (await api.post(f"{batch}/jobs", {"metadata": {"name": "own"}, "spec": own})).expect(201)
    await space.pods(2)
    for name in ("generated", "own"):
        (await api.delete(f"{batch}/jobs/{name}", {"propagationPolicy": "Orphan"})).expect(200)

    async def freed() -> bool:
        pods = await space.pods(2)
        return not any("finalizers" in each["metadata"] or "ownerReferences" in each["metadata"] for each in pods)

    await until(freed)


async def test_a_daemon_that_has_failed_is_reported_and_replaced(space: Space) -> None:
    api, apps = space.api, space.group("apps")
    (await api.post(f"{apps}/daemonsets", workload("d"))).expect(201)

    async def run() -> list[dict[str, Any]] | None:
        items: list[dict[str, Any]] = (await api.get(f"{space.core}/pods")).expect(200).json["items"]
        return items if items and all(each["status"].get("phase") == "Running" for each in items) else None

    pods = await until(run)  # before, the node would write its own phase over the one below
    labels = [each["metadata"]["labels"] for each in pods]
    assert {each["pod-template-generation"] for each in labels} == {"1"}
    name, node = pods[0]["metadata"]["name"], pods[0]["spec"]["nodeName"]
    (await api.patch(f"{space.core}/pods/{name}/status", {"status": {"phase": "Failed"}})).expect(200)
    where = f"{space.name}/{name} on node {node}"
    assert await space.said("FailedDaemonPod", "d") == (
        "Warning",
        f"Found failed daemon pod {where}, will try to kill it",
    )


async def test_an_owner_in_another_namespace_is_reported(space: Space) -> None:
    api = space.api
    owner = (await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "owner-"}})).json
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
    child = {"metadata": {"name": "child", "ownerReferences": [reference]}}
    (await api.post(f"{space.core}/configmaps", child)).expect(201)
    owner_ref = f"[v1/ConfigMap, namespace: {space.name}, name: {name}, uid: {uid}]"
    assert await space.said("OwnerRefInvalidNamespace", "child") == (
        "Warning",
        f'ownerRef {owner_ref} does not exist in namespace "{space.name}"',
    )
    (await api.delete(f"/api/v1/namespaces/default/configmaps/{name}")).expect(200)


async def test_a_paused_deployment_shows_its_change_cause(space: Space) -> None:
    api, apps = space.api, space.group("apps")
    (await api.post(f"{apps}/deployments", workload("web", {"nodeSelector": NO_NODE}, replicas=1))).expect(201)
    await space.pods(1)
    cause = {"kubernetes.io/change-cause": "why"}
    change = {"metadata": {"annotations": cause}, "spec": {"paused": True}}
    (await api.patch(f"{apps}/deployments/web", change)).expect(200)

    async def copied() -> bool:
        [found] = (await api.get(f"{apps}/replicasets")).expect(200).json["items"]
        return bool(cause.items() <= found["metadata"]["annotations"].items())

    await until(copied)


async def test_a_stateful_set_owns_its_claims_as_their_controller(space: Space) -> None:
    """Also shows what its Pods say about a claim that nothing provides."""
    api, apps = space.api, space.group("apps")
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "no-such-class",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    retention = {"whenDeleted": "Delete"}
    spec = {"replicas": 1, "volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": retention}
    made = (await api.post(f"{apps}/statefulsets", workload("db", updateStrategy=strategy, **spec))).expect(201).json
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}, "the feature is off by default"
    [pod] = await space.pods(1)
    assert (pod["metadata"]["name"], pod["metadata"]["generateName"]) == ("db-0", "db-")

    async def owned() -> list[dict[str, Any]] | None:
        found = (await api.get(f"{space.core}/persistentvolumeclaims/data-db-0")).json
        owners: list[dict[str, Any]] = found["metadata"].get("ownerReferences", [])
        return owners or None

    [owner] = await until(owned)
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("StatefulSet", True, True)
    assert await space.said("ProvisioningFailed", "data-db-0") == (
        "Warning",
        'storageclass.storage.k8s.io "no-such-class" not found',
    )
    kind, message = await space.said("FailedScheduling", "db-0")
    assert kind == "Warning"
    assert message.endswith("nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")


async def test_a_cron_job_reports_the_end_of_its_jobs(space: Space) -> None:
    """The Jobs are created here, because a schedule would take a minute."""
    api, batch = space.api, space.group("batch")
    pod = {"restartPolicy": "Never", "nodeSelector": NO_NODE, "containers": [{"name": "c", "image": "nginx:1"}]}
    spec = {"template": {"spec": pod}}
    cron = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": spec}}
    made = (await api.post(f"{batch}/cronjobs", {"metadata": {"name": "c"}, "spec": cron})).expect(201).json
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "c",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    references = []
    for name in ("lost", "done"):
        metadata = {"name": name, "ownerReferences": [owner]}
        job = (await api.post(f"{batch}/jobs", {"metadata": metadata, "spec": spec})).expect(201).json
        references.append({"kind": "Job", "name": name, "namespace": space.name, "uid": job["metadata"]["uid"]})
    (await api.delete(f"{batch}/jobs/lost", {"propagationPolicy": "Background"})).expect(200)
    (await api.patch(f"{batch}/cronjobs/c/status", {"status": {"active": references}})).expect(200)
    assert await space.said("MissingJob", "c") == ("Normal", "Active job went missing: lost")

    async def started() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await api.get(f"{space.core}/pods?labelSelector=job-name=done")).json["items"]
        return items

    pods = await until(started)
    ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": 0, "startedAt": ago, "finishedAt": ago}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    change = {"phase": "Succeeded", "containerStatuses": [{**container, "state": {"terminated": ended}}]}
    path = f"{space.core}/pods/{pods[0]['metadata']['name']}/status"
    (await api.patch(path, {"status": change}, "strategic")).expect(200)
    assert await space.said("SawCompletedJob", "c") == ("Normal", "Saw completed job: done, condition: Complete")
    (await api.patch(f"{batch}/cronjobs/c", {"spec": {"successfulJobsHistoryLimit": 0}})).expect(200)
    assert await space.said("SuccessfulDelete", "c") == ("Normal", "Deleted job done")
