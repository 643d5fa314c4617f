"""Pods: defaults, immutable fields and subresources, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from unit.apiserver.harness import API, MERGE

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}], **spec}}


def container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "nginx:1", **fields}])


async def bind(api: API, name: str = "p") -> None:
    target = {"kind": "Node", "name": "n1"}
    await api.ok("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


async def test_a_pod_gets_the_defaults_of_a_real_server(api: API) -> None:
    created = await api.ok("POST", PODS, pod())
    spec, status = created["spec"], created["status"]
    assert status == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["metadata"]["generation"] == 1
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert spec["containers"][0]["volumeMounts"] == [
        {
            "name": volume["name"],
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
    ]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_the_tag(api: API, image: str, policy: str) -> None:
    created = await api.ok("POST", PODS, container(image=image))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_requests_default_to_limits_and_set_the_quality_of_service(api: API) -> None:
    created = await api.ok("POST", PODS, container(resources={"limits": {"cpu": "1", "memory": "1Gi"}}))
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (pod(containers=[]), "spec.containers: Required value"),
        (pod(containers=[{"image": "x"}]), "spec.containers[0].name: Required value"),
        (container(image=""), "spec.containers[0].image: Required value"),
        (container(image=" n "), "must not have leading or trailing whitespace"),
        (
            pod(restartPolicy="X"),
            'spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
            'spec.containers[0].ports[1].name: Duplicate value: "a"',
        ),
        (
            container(livenessProbe={"periodSeconds": 1}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            "may not be specified when `value` is not empty",
        ),
        (
            pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            pod(ephemeralContainers=[{"name": "e", "image": "x"}]),
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ),
        (pod(hostname="A"), 'spec.hostname: Invalid value: "A": a lowercase RFC 1123 label must consist of'),
    ],
)
async def test_invalid_pods_are_rejected(api: API, body: dict[str, Any], message: str) -> None:
    status = await api.rejected(422, "POST", PODS, body)
    assert message in status["message"]


async def test_only_images_and_few_other_fields_of_a_pod_can_change(api: API) -> None:
    await api.ok("POST", PODS, pod())
    image = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
    changed = await api.ok("PATCH", f"{PODS}/p", image, content_type=STRATEGIC)
    assert changed["metadata"]["generation"] == 2
    status = await api.rejected(422, "PATCH", f"{PODS}/p", {"spec": {"hostname": "x"}}, content_type=MERGE)
    assert "pod updates may not change fields other than `spec.containers[*].image`" in status["message"]
    added = {"spec": {"containers": [{"name": "d", "image": "x"}]}}
    status = await api.rejected(422, "PATCH", f"{PODS}/p", added, content_type=STRATEGIC)
    assert status["message"].endswith("spec.containers: Forbidden: pod updates may not add or remove containers")


async def test_a_pod_can_be_bound_only_once(api: API) -> None:
    await api.ok("POST", PODS, pod())
    await bind(api)
    bound = await api.ok("GET", f"{PODS}/p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    target = {"kind": "Node", "name": "n2"}
    again = {"metadata": {"name": "p"}, "target": target}
    status = await api.rejected(409, "POST", f"{PODS}/p/binding", again)
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


async def test_only_scheduled_pods_have_a_grace_period(api: API) -> None:
    await api.ok("POST", PODS, pod("waiting"))
    await api.ok("DELETE", f"{PODS}/waiting")
    await api.rejected(404, "GET", f"{PODS}/waiting")
    await api.ok("POST", PODS, pod("running"))
    await bind(api, "running")
    deleted = await api.ok("DELETE", f"{PODS}/running")
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    await api.ok("GET", f"{PODS}/running")
    await api.ok("DELETE", f"{PODS}/running?gracePeriodSeconds=0")
    await api.rejected(404, "GET", f"{PODS}/running")


async def test_ephemeral_containers_can_be_added_but_not_removed(api: API) -> None:
    await api.ok("POST", PODS, pod())
    debugger = {"name": "dbg", "image": "busybox", "targetContainerName": "c"}
    path = f"{PODS}/p/ephemeralcontainers"
    shown = await api.ok("PATCH", path, {"spec": {"ephemeralContainers": [debugger]}}, content_type=STRATEGIC)
    assert shown["spec"]["ephemeralContainers"][0]["name"] == "dbg"
    status = await api.rejected(422, "PATCH", path, {"spec": {"ephemeralContainers": []}}, content_type=MERGE)
    assert 'existing ephemeral containers "dbg" may not be removed' in status["message"]


async def test_the_log_of_a_simulated_pod_comes_from_its_annotation(api: API) -> None:
    await api.ok("POST", PODS, pod())
    assert await (await api("GET", f"{PODS}/p/log")).read() == b""
    await bind(api)
    await api.ok("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, content_type=MERGE)
    assert b"has logged nothing" in await (await api("GET", f"{PODS}/p/log")).read()
    note = {"metadata": {"annotations": {"simulation.kubewright.dev/log": "hello\n"}}}
    await api.ok("PATCH", f"{PODS}/p", note, content_type=MERGE)
    assert await (await api("GET", f"{PODS}/p/log")).read() == b"hello\n"


async def test_exec_in_a_simulated_pod_is_rejected_with_the_reason(api: API) -> None:
    await api.ok("POST", PODS, pod())
    status = await api.rejected(501, "POST", f"{PODS}/p/exec?command=ls")
    assert "exec into pods is not supported by the embedded API server" in status["message"]


async def test_an_eviction_respects_the_disruption_budget(api: API) -> None:
    await api.ok("POST", PODS, {**pod(), "metadata": {"name": "p", "labels": {"a": "b"}}})
    await bind(api)
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await api.ok("PATCH", f"{PODS}/p/status", ready, content_type=MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await api.ok("POST", budgets, {"metadata": {"name": "pdb"}, "spec": spec})
    seen = {"status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, "disruptionsAllowed": 0}}
    await api.ok("PATCH", f"{budgets}/pdb/status", seen, content_type=MERGE)
    eviction = {"metadata": {"name": "p"}}
    status = await api.rejected(429, "POST", f"{PODS}/p/eviction", eviction)
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert "retryAfterSeconds" not in status["details"], "the caller decides when to retry"
    await api.ok("PATCH", f"{budgets}/pdb/status", {"status": {"disruptionsAllowed": 1}}, content_type=MERGE)
    await api.ok("POST", f"{PODS}/p/eviction", eviction)
    evicted = await api.ok("GET", f"{PODS}/p")
    assert evicted["metadata"]["deletionTimestamp"]
    assert (await api.ok("GET", f"{budgets}/pdb"))["status"]["disruptionsAllowed"] == 0
