"""What users `system:node:NAME` may do: the Node authorizer and the admission plugin NodeRestriction."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest_asyncio

from conformance.rawapi import API, Answer, until

MIRROR: Final = "kubernetes.io/config.mirror"


class NodeUser:
    """Sends requests as a node."""

    def __init__(self, api: API, name: str) -> None:
        self.name = name
        self.path = f"/api/v1/nodes/{name}"
        self._api = api

    async def __call__(self, method: str, target: str, body: Any = None, kind: str = "merge") -> Answer:
        headers = {"impersonate-user": f"system:node:{self.name}", "impersonate-group": "system:nodes"}
        if method == "PATCH":
            headers["content-type"] = f"application/{kind}-patch+json"
        return await self._api.send(method, target, body, headers=headers)

    async def refused(self, why: str, method: str, target: str, body: Any = None) -> None:
        """Send a request, and check that it is rejected for this reason."""
        answer = (await self(method, target, body)).expect(403)
        assert answer.message.endswith(why), answer.message

    async def eventually(self, method: str, target: str, body: Any = None, code: int = 200) -> Answer:
        """Send a request until it succeeds: a real server learns a little later what Pods there are."""

        async def check() -> Answer | None:
            answer = await self(method, target, body)
            return answer if answer.status == code else None

        return await until(check)


@pytest_asyncio.fixture
async def node(api: API) -> AsyncIterator[NodeUser]:
    """A node that nobody simulates."""
    node = NodeUser(api, f"worker-{secrets.token_hex(4)}")
    yield node
    await api.delete(node.path)


async def run_pod(api: API, ns: str, node: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    body = {
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "nginx:1"}],
            **spec,
        },
    }
    created: dict[str, Any] = (await api.post(f"{ns}/pods", body)).expect(201).json
    return created


async def test_a_node_reads_what_its_pods_refer_to(api: API, ns: str, node: NodeUser) -> None:
    for kind in ("secrets", "configmaps"):
        for name in ("mine", "other"):
            (await api.post(f"{ns}/{kind}", {"metadata": {"name": name}})).expect(201)
    for name in ("mine", "other"):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
        (await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})).expect(201)
    volumes = [
        {"name": "a", "secret": {"secretName": "mine"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "mine"}},
    ]
    container = {"name": "c", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "mine"}}]}
    unrelated = f"no relationship found between node '{node.name}' and this object"
    await node.refused(unrelated, "GET", f"{ns}/secrets/mine")
    await run_pod(api, ns, node.name, volumes=volumes, containers=[container])
    for kind in ("secrets", "configmaps", "persistentvolumeclaims"):
        await node.eventually("GET", f"{ns}/{kind}/mine")
        await node.refused(unrelated, "GET", f"{ns}/{kind}/other")
    (await node("GET", f"{ns}/secrets?fieldSelector=metadata.name%3Dmine")).expect(200)
    await node.refused("No Object name found", "GET", f"{ns}/secrets")
    await node.refused("can only read resources of this type", "DELETE", f"{ns}/secrets/mine")
    await node.refused("can only get individual resources of this type", "GET", f"{ns}/persistentvolumeclaims")
    await node.refused("can only read namespaced object of this type", "GET", "/api/v1/configmaps")
    (await node("GET", f"{ns}/serviceaccounts/default")).expect(200)
    await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")

    async def is_refused() -> bool:
        return (await node("GET", f"{ns}/secrets/mine")).status == 403

    await until(is_refused)


async def test_a_node_reads_the_volumes_of_its_pods(api: API, ns: str, node: NodeUser) -> None:
    name = f"{node.name}-volume"
    namespace = ns.rpartition("/")[2]
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": name,
    }
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": namespace, "name": "data"},
        "csi": {
            "driver": "d.example.com",
            "volumeHandle": "h",
            "nodePublishSecretRef": {"namespace": namespace, "name": "publish"},
            "controllerPublishSecretRef": {"namespace": namespace, "name": "control"},
        },
    }
    for secret in ("publish", "control"):
        (await api.post(f"{ns}/secrets", {"metadata": {"name": secret}})).expect(201)
    (await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim})).expect(201)
    (await api.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})).expect(201)
    await run_pod(api, ns, node.name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    await node.eventually("GET", f"/api/v1/persistentvolumes/{name}")
    await node.eventually("GET", f"{ns}/secrets/publish")
    unrelated = f"no relationship found between node '{node.name}' and this object"
    await node.refused(unrelated, "GET", f"{ns}/secrets/control")
    await node.refused(unrelated, "GET", "/api/v1/persistentvolumes/other")
    await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")
    await api.delete(f"/api/v1/persistentvolumes/{name}")


async def test_a_node_sees_its_pods_and_itself(api: API, ns: str, node: NodeUser) -> None:
    await run_pod(api, ns, node.name, "mine")
    await run_pod(api, ns, "elsewhere", "other")
    await node.eventually("GET", f"{ns}/pods/mine")
    await node.refused(f"no relationship found between node '{node.name}' and this object", "GET", f"{ns}/pods/other")
    listed = (await node("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node.name}")).expect(200)
    assert [each["metadata"]["name"] for each in listed.json["items"]] == ["mine"]
    await node.refused("can only list/watch pods with spec.nodeName field selector", "GET", "/api/v1/pods")
    await node.refused(f"node '{node.name}' cannot read all nodes, only its own Node object", "GET", "/api/v1/nodes")
    await node.refused(
        f"node '{node.name}' cannot read 'other', only its own Node object", "GET", "/api/v1/nodes/other"
    )
    (await node("GET", node.path)).expect(404)
    (await node("GET", "/api/v1/services")).expect(200)
    await node.refused(
        'cannot list resource "deployments" in API group "apps" at the cluster scope',
        "GET",
        "/apis/apps/v1/deployments",
    )
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "x", "name": "y"}}}
    status = (
        (await node("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review))
        .expect(201)
        .json["status"]
    )
    assert status == {"allowed": False, "reason": f"no relationship found between node '{node.name}' and this object"}
    rules = {"spec": {"namespace": "default"}}
    status = (
        (await node("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules)).expect(201).json["status"]
    )
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"
    unknown = {"impersonate-user": "system:node:", "impersonate-group": "system:nodes"}
    answer = (await api.send("GET", "/api/v1/services", headers=unknown)).expect(403)
    assert answer.message.endswith('unknown node for user "system:node:"')


async def test_a_node_writes_itself_but_not_its_taints_or_labels_that_steer_pods(api: API, node: NodeUser) -> None:
    name = node.name
    zone, mine, other = "topology.kubernetes.io/zone", "node.kubernetes.io/x", "example.com/role"
    reserved, restricted = "kubernetes.io/role", "a.node-restriction.kubernetes.io/team"
    wrong = {"metadata": {"name": name, "labels": {reserved: "a", restricted: "b", zone: "z"}}}
    await node.refused(
        f'node "{name}" is not allowed to set the following labels: {restricted}, {reserved}',
        "POST",
        "/api/v1/nodes",
        wrong,
    )
    await node.refused(
        f'node "{name}" is not allowed to modify node "other"', "POST", "/api/v1/nodes", {"metadata": {"name": "other"}}
    )
    labels = {zone: "z", mine: "a", other: "b"}
    created = (await node("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})).expect(201).json
    assert created["metadata"]["labels"] == labels
    await node.refused(
        f"is not allowed to modify labels: {reserved}", "PATCH", node.path, {"metadata": {"labels": {reserved: "a"}}}
    )
    await node.refused(
        f'node "{name}" is not allowed to modify taints',
        "PATCH",
        node.path,
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    )
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
    await node.refused(
        f'node "{name}" is not allowed to modify ownerReferences',
        "PATCH",
        node.path,
        {"metadata": {"ownerReferences": owners}},
    )
    (await node("PATCH", node.path, {"metadata": {"labels": {mine: "b", other: None}}})).expect(200)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (await node("PATCH", f"{node.path}/status", ready)).expect(200)
    (await node("GET", node.path)).expect(200)
    await node.refused('cannot delete resource "nodes" in API group "" at the cluster scope', "DELETE", node.path)


async def test_a_node_writes_the_status_of_its_pods_and_deletes_them(api: API, ns: str, node: NodeUser) -> None:
    name = f'"{node.name}"'
    await run_pod(api, ns, node.name, "mine")
    await run_pod(api, ns, "elsewhere", "other")
    running = {"status": {"phase": "Running"}}
    await node.eventually("PATCH", f"{ns}/pods/mine/status", running)
    await node.refused(
        f"node {name} can only update pod status for pods with spec.nodeName set to itself",
        "PATCH",
        f"{ns}/pods/other/status",
        running,
    )
    await node.refused(
        f"node {name} cannot update labels through pod status",
        "PATCH",
        f"{ns}/pods/mine/status",
        {"metadata": {"labels": {"a": "b"}}},
    )
    await node.refused(
        f"node {name} can only delete pods with spec.nodeName set to itself", "DELETE", f"{ns}/pods/other"
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    await node.refused(
        f"node {node.name} can only evict pods with spec.nodeName set to itself",
        "POST",
        f"{ns}/pods/other/eviction",
        eviction,
    )
    await node.refused(
        'cannot patch resource "pods" in API group "" in the namespace "{}"'.format(ns.rpartition("/")[2]),
        "PATCH",
        f"{ns}/pods/mine",
        {"metadata": {"labels": {"a": "b"}}},
    )
    (await node("DELETE", f"{ns}/pods/mine?gracePeriodSeconds=0")).expect(200)


async def test_a_node_creates_mirror_pods_that_refer_to_nothing(api: API, ns: str, node: NodeUser) -> None:
    name = f'"{node.name}"'
    uid = (await node("POST", "/api/v1/nodes", {"metadata": {"name": node.name}})).expect(201).json["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid, "controller": True}

    def mirror(owners: list[Any], annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        metadata = {"name": "m", "annotations": {MIRROR: "x"} if annotations is None else annotations}
        return {
            "metadata": {**metadata, "ownerReferences": owners},
            "spec": {"nodeName": node.name, "containers": [{"name": "c", "image": "i"}], **spec},
        }

    itself = f"node {name} can only create pods with"
    reference = f"node {name} can not create pods that reference"
    refusals: list[tuple[dict[str, Any], str]] = [
        (mirror([owner], {}), f'pod does not have "{MIRROR}" annotation, node {name} can only create mirror pods'),
        (mirror([owner], nodeName="elsewhere"), f"{itself} spec.nodeName set to itself"),
        (mirror([]), f"{itself} an owner reference set to itself"),
        (mirror([{**owner, "name": "elsewhere"}]), f"{itself} an owner reference set to itself"),
        (mirror([{**owner, "controller": False}]), f"{itself} a controller owner reference set to itself"),
        (
            mirror([owner, {**owner, "uid": "x", "controller": False}]),
            f"{itself} a single owner reference set to itself",
        ),
        (
            mirror([{**owner, "blockOwnerDeletion": True}]),
            f"node {name} must not set blockOwnerDeletion on an owner reference",
        ),
        (mirror([{**owner, "uid": "x"}]), f"node {node.name} UID mismatch: expected x got {uid}"),
        (mirror([owner], serviceAccountName="default"), "a mirror pod may not reference service accounts"),
        (mirror([owner], imagePullSecrets=[{"name": "s"}]), "a mirror pod may not reference secrets"),
        (mirror([owner], volumes=[{"name": "v", "configMap": {"name": "c"}}]), f"{reference} configmaps"),
        (
            mirror([owner], volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            f"{reference} persistentvolumeclaims",
        ),
        (
            mirror([owner], volumes=[{"name": "v", "csi": {"driver": "d.example.com"}}]),
            f"{reference} csidrivers (via CSI volumes)",
        ),
    ]

    async def is_known() -> bool:
        answer = await node("POST", f"{ns}/pods?dryRun=All", mirror([owner]))
        return answer.status == 201

    await until(is_known)
    for body, why in refusals:
        await node.refused(why, "POST", f"{ns}/pods", body)
    host = [{"name": "v", "hostPath": {"path": "/etc"}}]
    created = (await node("POST", f"{ns}/pods", mirror([owner], volumes=host))).expect(201).json
    assert "serviceAccountName" not in created["spec"]
    await api.delete(f"{ns}/pods/m?gracePeriodSeconds=0")


async def test_a_node_requests_tokens_for_its_pods(api: API, ns: str, node: NodeUser) -> None:
    mine = await run_pod(api, ns, node.name, "mine")
    other = await run_pod(api, ns, "elsewhere", "other")
    path = f"{ns}/serviceaccounts/default/token"

    def request(pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        reference = (
            {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            if pod
            else None
        )
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "boundObjectRef": reference, **spec},
        }

    await node.eventually("POST", path, request(mine), code=201)
    await node.refused("node requested token not bound to a pod", "POST", path, request())
    await node.refused(
        "node requested token bound to a pod scheduled on a different node", "POST", path, request(other)
    )
    unknown = {**mine, "metadata": {"name": "mine", "uid": "x"}}
    await node.refused(
        "the UID in the bound object reference (x) does not match the UID in record. The object might have been "
        "deleted and then recreated",
        "POST",
        path,
        request(unknown),
    )
    await node.refused("node may only request 0 or 1 audiences", "POST", path, request(mine, audiences=["a", "b"]))
    await node.refused(
        f'audience "vault" not found in pod spec volume, system:node:{node.name} is not authorized to request tokens '
        "for this audience",
        "POST",
        path,
        request(mine, audiences=["vault"]),
    )
    (await api.post(f"{ns}/serviceaccounts", {"metadata": {"name": "unused"}})).expect(201)
    await node.refused(
        f"no relationship found between node '{node.name}' and this object",
        "POST",
        f"{ns}/serviceaccounts/unused/token",
        request(mine),
    )
    await node.refused(
        "can only create tokens for individual service accounts", "DELETE", f"{ns}/serviceaccounts/default"
    )


async def test_a_node_has_a_lease_a_csi_node_and_resource_slices(api: API, ns: str, node: NodeUser) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    same = "can only access node lease with the same name as the requesting node"
    await node.refused(same, "POST", leases, {"metadata": {"name": "other"}})
    await node.refused(same, "GET", f"{leases}/other")
    (await node("POST", leases, {"metadata": {"name": node.name}})).expect(201)
    (await node("PATCH", f"{leases}/{node.name}", {"spec": {"holderIdentity": node.name}})).expect(200)
    await node.refused("can only get, create, update, patch, or delete a node lease", "GET", leases)
    elsewhere = ns.replace("/api/v1", "/apis/coordination.k8s.io/v1") + "/leases"
    await node.refused(
        'can only access leases in the "kube-node-lease" system namespace', "GET", f"{elsewhere}/{node.name}"
    )
    (await node("DELETE", f"{leases}/{node.name}")).expect(200)
    csi_nodes = "/apis/storage.k8s.io/v1/csinodes"
    same = "can only access CSINode with the same name as the requesting node"
    await node.refused(same, "POST", csi_nodes, {"metadata": {"name": "other"}, "spec": {"drivers": []}})
    (await node("POST", csi_nodes, {"metadata": {"name": node.name}, "spec": {"drivers": []}})).expect(201)
    (await node("DELETE", f"{csi_nodes}/{node.name}")).expect(200)
    slices = "/apis/resource.k8s.io/v1/resourceslices"

    def resource_slice(name: str) -> dict[str, Any]:
        pool = {"name": name, "resourceSliceCount": 1, "generation": 1}
        spec = {"driver": "d.example.com", "nodeName": name, "pool": pool}
        return {"metadata": {"name": f"{node.name}-{name}"}, "spec": spec}

    await node.refused(
        "can only create ResourceSlice with the same NodeName as the requesting node",
        "POST",
        slices,
        resource_slice("other"),
    )
    (await node("POST", slices, resource_slice(node.name))).expect(201)
    (await api.post(slices, resource_slice("other"))).expect(201)
    await node.eventually("GET", f"{slices}/{node.name}-{node.name}")
    await node.refused(
        f"no relationship found between node '{node.name}' and this object", "GET", f"{slices}/{node.name}-other"
    )
    await node.refused(
        "can only list/watch/deletecollection resourceslices with nodeName field selector", "GET", slices
    )
    (await node("DELETE", f"{slices}?fieldSelector=spec.nodeName%3D{node.name}")).expect(200)
    (await api.delete(f"{slices}/{node.name}-other")).expect(200)


async def test_a_node_updates_only_the_sizes_and_conditions_of_a_claim(api: API, ns: str, node: NodeUser) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    (await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})).expect(201)
    await run_pod(api, ns, node.name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    path = f"{ns}/persistentvolumeclaims/data/status"
    conditions = [{"type": "Resizing", "status": "True"}]
    await node.eventually("PATCH", path, {"status": {"conditions": conditions}})
    why = f'node "{node.name}" is not allowed to update fields other than status.quantity and status.conditions: '
    answer = (await node("PATCH", path, {"status": {"phase": "Lost"}})).expect(403)
    assert why in answer.message
    await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")
