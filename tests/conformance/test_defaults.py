"""Defaults that a write gets beyond those of its fields: in status, in other versions, and from admission."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.rawapi import API, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def version(name: str, *, storage: bool) -> dict[str, Any]:
    """Return a version with defaults of its own in spec and status."""

    def struct(**fields: Any) -> dict[str, Any]:
        return {"type": "object", "properties": fields, "default": {}}

    own = {"type": "string", "default": f"default of {name}"}
    properties = {"spec": struct(shared=own, **{f"only_{name}": own}), "status": struct(phase=own)}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
    }


@pytest_asyncio.fixture
async def group(api: API) -> AsyncIterator[str]:
    """A group with the kind Gadget in the versions v1, which is stored, v2, and v1beta1, which is deprecated."""
    group = f"g{secrets.token_hex(3)}.example.com"
    versions = [version("v1", storage=True), version("v2", storage=False)]
    versions.append({**version("v1beta1", storage=False), "deprecated": True})
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": versions,
        },
    }
    (await api.post(CRDS, body)).expect(201)

    async def is_served() -> bool:
        paths = [f"/apis/{group}/{each['name']}/gadgets" for each in versions]
        return all([(await api.get(path)).status == 200 for path in paths])

    await until(is_served)
    yield group
    await api.delete(f"{CRDS}/gadgets.{group}")


def gadget(group: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": name}, **rest}


async def test_the_status_of_a_new_object_has_its_defaults_and_no_owner(api: API, group: str) -> None:
    body = gadget(group, "a", status={"phase": "dropped"})
    made = (await api.post(f"/apis/{group}/v1/gadgets", body)).expect(201).json
    assert made["status"] == {"phase": "default of v1"}
    assert (await api.get(f"/apis/{group}/v1/gadgets/a")).json["status"] == made["status"]
    path = f"/apis/{group}/v1/gadgets/a/status"
    written = (await api.patch(path, {"status": {"phase": "x"}})).expect(200).json
    assert written["metadata"]["managedFields"][-1]["fieldsV1"] == {"f:status": {"f:phase": {}}}


async def test_an_object_has_the_defaults_of_the_version_in_which_it_is_stored(api: API, group: str) -> None:
    body = gadget(group, "a") | {"apiVersion": f"{group}/v2"}
    for query in ("?dryRun=All", ""):
        made = (await api.post(f"/apis/{group}/v2/gadgets{query}", body)).expect(201).json
        assert made["spec"] == {"shared": "default of v2"}
    stored = (await api.get(f"/apis/{group}/v1/gadgets/a")).json
    assert stored["spec"] == {"shared": "default of v2", "only_v1": "default of v1"}
    assert stored["status"] == {"phase": "default of v1"}
    assert (await api.get(f"/apis/{group}/v2/gadgets/a")).json["spec"] == {"shared": "default of v2"}


async def test_the_warning_of_a_deprecated_version_names_the_newest_one(api: API, group: str) -> None:
    answer = await api.get(f"/apis/{group}/v1beta1/gadgets")
    assert answer.headers["warning"] == f'299 - "{group}/v1beta1 Gadget is deprecated; use {group}/v2 Gadget"'


async def test_a_new_node_is_tainted_as_not_ready(api: API) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    body: dict[str, Any] = {
        "metadata": {"name": "new"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    made = (await api.post("/api/v1/nodes?dryRun=All", body)).expect(201).json
    assert made["spec"]["taints"] == [taint]
    condition = made["status"]["conditions"][0]
    assert condition["lastHeartbeatTime"] is None
    assert condition["lastTransitionTime"] is None
    made = (await api.post("/api/v1/nodes?dryRun=All", {**body, "spec": {"taints": [taint]}})).expect(201).json
    assert made["spec"]["taints"] == [taint]


async def test_written_statuses_are_defaulted(api: API, ns: str) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})).expect(201)
    running = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    status: dict[str, Any] = {"containerStatuses": [running], "podIP": "10.0.0.1", "hostIP": "10.0.0.2"}
    written = (await api.patch(f"{ns}/pods/p/status", {"status": status})).expect(200).json["status"]
    assert written["containerStatuses"][0]["lastState"] == written["containerStatuses"][0]["state"] == {}
    assert written["podIPs"] == [{"ip": "10.0.0.1"}]
    assert "hostIPs" not in written

    service = {"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}
    (await api.post(f"{ns}/services", service)).expect(201)
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "h"}]}}
    written = (await api.patch(f"{ns}/services/s/status", {"status": status})).expect(200).json["status"]
    assert written["loadBalancer"]["ingress"] == [{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "h"}]

    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}}
    path = ns.replace("/api/v1", "/apis/policy/v1") + "/poddisruptionbudgets"
    (await api.post(path, budget)).expect(201)
    status = {"conditions": [{"type": "A", "status": "True"}]}
    refused = (await api.patch(f"{path}/b/status", {"status": status})).expect(422)
    assert refused.causes == [
        ("FieldValueRequired", "status.conditions[0].lastTransitionTime", "Required value"),
        ("FieldValueRequired", "status.conditions[0].reason", "Required value"),
    ]


async def test_an_empty_update_strategy_of_a_statefulset_has_a_partition(api: API, ns: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    path = ns.replace("/api/v1", "/apis/apps/v1") + "/statefulsets?dryRun=All"
    for strategy, made in (
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ({"type": "RollingUpdate"}, {"type": "RollingUpdate"}),
    ):
        spec = body["spec"] | {"updateStrategy": strategy}
        assert (await api.post(path, {**body, "spec": spec})).expect(201).json["spec"]["updateStrategy"] == made
