"""The configuration of Pod security, and the bounds of its review of existing Pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubewright.http.message import Request
from kubewright.machinery.errors import ConfigError
from kubewright.testing import VirtualClock
from kubewright_controlplane import PodSecurity, ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo
from unit.apiserver.harness import ADMIN, API, MERGE

LABEL = "pod-security.kubernetes.io/enforce"


def pod(name: str, owner: str = "", **spec: Any) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    metadata = {"name": name, "ownerReferences": [reference] if owner else []}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def served(clock: VirtualClock, configuration: PodSecurity) -> API:
    robot = UserInfo("robot", ("system:masters",))
    server = APIServer(ServerOptions(clock=clock, tokens={"admin": ADMIN, "robot": robot}, pod_security=configuration))
    await server.start()
    return API(server, clock)


async def warnings(api: API, namespace: str, level: str) -> str:
    body = json.dumps({"metadata": {"labels": {LABEL: level}}}).encode()
    headers = {"content-type": MERGE, "authorization": "Bearer admin"}
    response = await api.server.handle(Request("PATCH", f"/api/v1/namespaces/{namespace}", headers, body))
    assert response.status == 200
    return response.headers.get("warning", "")


async def test_namespaces_without_labels_have_the_configured_level(clock: VirtualClock) -> None:
    api = await served(clock, PodSecurity(enforce="baseline", enforce_version="v1.30"))
    status = await api.rejected(403, "POST", "/api/v1/namespaces/default/pods", pod("p", hostPID=True))
    assert status["message"] == (
        'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true)'
    )
    assert await warnings(api, "default", "privileged") == ""
    await api.ok("POST", "/api/v1/namespaces/default/pods", pod("p", hostPID=True))
    await api.server.close()


async def test_namespaces_users_and_runtime_classes_can_be_exempt(clock: VirtualClock) -> None:
    configuration = PodSecurity(
        enforce="baseline",
        exempt_namespaces=["kube-system"],
        exempt_users=["robot"],
        exempt_runtime_classes=["sandbox"],
    )
    api = await served(clock, configuration)
    runtime = {"apiVersion": "node.k8s.io/v1", "metadata": {"name": "sandbox"}, "handler": "sandbox"}
    await api.ok("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
    await api.ok("POST", "/api/v1/namespaces/kube-system/pods", pod("a", hostPID=True))
    await api.ok("POST", "/api/v1/namespaces/default/pods", pod("b", hostPID=True), token="robot")
    await api.ok("POST", "/api/v1/namespaces/default/pods", pod("c", hostPID=True, runtimeClassName="sandbox"))
    await api.rejected(403, "POST", "/api/v1/namespaces/default/pods", pod("d", hostPID=True))
    assert await warnings(api, "kube-system", "restricted") == (
        '299 - "namespace \\"kube-system\\" is exempt from Pod Security, and the policy '
        '(enforce=restricted:latest) will be ignored"'
    )
    await api.server.close()


async def test_at_most_3000_pods_are_reviewed_one_of_each_controller_first(clock: VirtualClock) -> None:
    api = await served(clock, PodSecurity())
    registry = api.server.resources.registry("pods")
    stored = registry.create(pod("p", owner="set"), "default").object
    for number in range(3004):
        registry.commit({**stored, "metadata": {**stored["metadata"], "name": f"p-{number}"}})
    registry.create(pod("z", hostPID=True), "default")
    answer = await warnings(api, "default", "baseline")
    assert "new PodSecurity enforce level only checked against the first 3000 of 3006 existing pods" in answer
    assert "z: host namespaces" in answer
    await api.server.close()


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        PodSecurity(enforce="strict", warn_version="1.30", exempt_namespaces=["a", "B"], exempt_users=[""])
    message = str(caught.value)
    assert 'enforce: "strict" must be one of privileged, baseline, restricted' in message
    assert 'warn_version: "1.30" must be "latest" or "v1.x"' in message
    assert 'exempt_namespaces[1]: "B"' in message
    assert 'exempt_users[0]: "" must not be empty' in message
