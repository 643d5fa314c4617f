"""Workloads: defaults, validation and immutable fields, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from unit.apiserver.harness import API, MERGE

APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"
SELECTOR = {"matchLabels": {"a": "b"}}


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "nginx:1"}]
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, **spec}}


def workload(name: str = "w", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": SELECTOR, "template": template(), **spec}}


async def test_a_deployment_gets_the_defaults_of_a_real_server(api: API) -> None:
    created = await api.ok("POST", f"{APPS}/deployments", workload())
    spec = created["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    }
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["dnsPolicy"], pod["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert pod["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert created["status"] == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"selector": {"matchLabels": {"a": "c"}}},
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
        ),
        ({"selector": None}, "spec.selector: Required value"),
        ({"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"template": template(restartPolicy="Never")},
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"minReadySeconds": 700},
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
    ],
)
async def test_invalid_deployments_are_rejected(api: API, spec: dict[str, Any], message: str) -> None:
    status = await api.rejected(422, "POST", f"{APPS}/deployments", workload(**spec))
    assert message in status["message"]


async def test_only_for_deployments_do_annotations_raise_the_generation(api: API) -> None:
    note = {"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}}
    for plural, generation in (("deployments", 2), ("replicasets", 1), ("daemonsets", 1)):
        await api.ok("POST", f"{APPS}/{plural}", workload())
        changed = await api.ok("PATCH", f"{APPS}/{plural}/w", note, content_type=MERGE)
        assert changed["metadata"]["generation"] == generation, plural
    again = {"metadata": {"annotations": {"a": "c"}}}
    changed = await api.ok("PATCH", f"{APPS}/deployments/w/status", again, content_type=MERGE)
    assert (changed["metadata"]["annotations"]["a"], changed["metadata"]["generation"]) == ("c", 2)


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
async def test_a_selector_is_immutable(api: API, plural: str) -> None:
    await api.ok("POST", f"{APPS}/{plural}", workload())
    change = workload(selector={"matchLabels": {"x": "y"}})
    change["spec"]["template"]["metadata"]["labels"] = {"x": "y"}
    status = await api.rejected(422, "PUT", f"{APPS}/{plural}/w", change)
    assert status["message"].endswith('spec.selector: Invalid value: {"matchLabels":{"x":"y"}}: field is immutable')


async def test_only_some_fields_of_a_stateful_set_can_change(api: API) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": claim}]
    mounted = template()
    mounted["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    body = workload(serviceName="s", volumeClaimTemplates=claims, template=mounted)
    await api.ok("POST", f"{APPS}/statefulsets", body)
    await api.ok("PATCH", f"{APPS}/statefulsets/w", {"spec": {"replicas": 3}}, content_type=MERGE)
    change = {"spec": {"serviceName": "other"}}
    status = await api.rejected(422, "PATCH", f"{APPS}/statefulsets/w", change, content_type=MERGE)
    assert status["message"] == (
        'StatefulSet.apps "w" is invalid: spec: Forbidden: updates to statefulset spec for fields other than '
        "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )


async def test_a_job_selects_its_own_pods_by_its_uid(api: API) -> None:
    body = {"metadata": {"name": "j"}, "spec": {"template": template(restartPolicy="Never")}}
    job = await api.ok("POST", f"{BATCH}/jobs", body)
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    status = await api.rejected(422, "PATCH", f"{BATCH}/jobs/j", image, content_type=MERGE)
    assert "field is immutable" in status["message"]


@pytest.mark.parametrize(
    ("schedule", "good"),
    [
        ("*/5 * * * *", True),
        ("@hourly", True),
        ("@every 1h30m", True),
        ("0 0 1 jan mon-fri", True),
        ("0 0 * *", False),
        ("60 * * * *", False),
        ("x * * * *", False),
        ("TZ=UTC * * * * *", False),
        ("@sometimes", False),
    ],
)
async def test_schedules_are_validated_like_cron(api: API, schedule: str, good: bool) -> None:
    job = {"spec": {"template": template(restartPolicy="OnFailure")}}
    body = {"metadata": {"name": "c"}, "spec": {"schedule": schedule, "jobTemplate": job}}
    assert (await api("POST", f"{BATCH}/cronjobs", body)).status == (201 if good else 422)


async def test_an_immutable_secret_cannot_change(api: API) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "immutable": True}
    created = await api.ok("POST", f"{CORE}/secrets", body)
    assert created["data"] == {"a": "Yg=="}
    assert "stringData" not in created
    change = {"stringData": {"a": "c"}, "immutable": False, "type": "x"}
    status = await api.rejected(422, "PATCH", f"{CORE}/secrets/s", change, content_type=MERGE)
    assert status["message"] == (
        'Secret "s" is invalid: [type: Invalid value: "x": field is immutable, '
        "immutable: Forbidden: field is immutable when `immutable` is set, "
        "data: Forbidden: field is immutable when `immutable` is set]"
    )


async def test_config_map_limits_are_enforced(api: API) -> None:
    key = {"metadata": {"name": "c"}, "data": {"a b": "x"}}
    assert "data[a b]: Invalid value" in (await api.rejected(422, "POST", f"{CORE}/configmaps", key))["message"]
    large = {"metadata": {"name": "c"}, "data": {"a": "x" * (1024 * 1024 + 1)}}
    status = await api.rejected(422, "POST", f"{CORE}/configmaps", large)
    assert "Too long: may not be more than 1048576 bytes" in status["message"]
    binary = {"metadata": {"name": "c"}, "binaryData": {"a": "!"}}
    status = await api.rejected(400, "POST", f"{CORE}/configmaps", binary)
    assert status["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte 0'
    )


async def test_an_event_is_served_in_two_versions(api: API) -> None:
    newer = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "Started",
        "action": "Start",
        "note": "It started.",
        "type": "Normal",
        "reportingController": "example.com/operator",
        "reportingInstance": "operator-0",
    }
    await api.ok("POST", "/apis/events.k8s.io/v1/namespaces/default/events", newer)
    older = await api.ok("GET", f"{CORE}/events?fieldSelector=involvedObject.name%3Dp,type%3DNormal")
    (event,) = older["items"]
    assert (event["involvedObject"]["name"], event["message"]) == ("p", "It started.")
    assert (event["reportingComponent"], event["firstTimestamp"]) == ("example.com/operator", None)
    incomplete = {"metadata": {"name": "f"}, "eventTime": "2026-01-01T00:00:00.000000Z"}
    status = await api.rejected(422, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", incomplete)
    assert "reportingController: Required value" in status["message"]


async def test_an_autoscaler_is_served_in_two_versions(api: API) -> None:
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}, "maxReplicas": 3}
    older = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    await api.ok("POST", path.format("v1"), {**older, "spec": {**spec, "targetCPUUtilizationPercentage": 50}})
    newer = await api.ok("GET", path.format("v2") + "/h")
    target = {"type": "Utilization", "averageUtilization": 50}
    assert newer["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    again = await api.ok("GET", path.format("v1") + "/h")
    assert again["spec"]["targetCPUUtilizationPercentage"] == 50


async def test_put_creates_a_lease_but_does_not_overwrite_it_without_a_resource_version(api: API) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await api("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})).status == 201
    status = await api.rejected(422, "PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {}})
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


async def test_a_namespace_is_removed_when_it_is_empty(api: API) -> None:
    created = await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    deleted = await api.ok("DELETE", "/api/v1/namespaces/n")
    assert deleted["status"]["phase"] == "Terminating"
    found = await api.ok("GET", "/api/v1/namespaces?fieldSelector=status.phase%3DTerminating")
    assert [each["metadata"]["name"] for each in found["items"]] == ["n"]
    await api.ok("PUT", "/api/v1/namespaces/n/finalize", {"metadata": {"name": "n"}, "spec": {}})
    await api.rejected(404, "GET", "/api/v1/namespaces/n")
