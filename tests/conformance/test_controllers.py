"""The controllers of a control plane."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until


def deployment(name: str = "d", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


class Namespace:
    def __init__(self, api: API, ns: str) -> None:
        self.api, self.core, self.apps = api, ns, ns.replace("/api/v1", "/apis/apps/v1")

    async def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.api.get(path)).expect(200).json["items"]
        return items

    async def settled(self, name: str = "d") -> dict[str, Any]:
        """Wait for the end of the Deployment's rollout and return it."""

        async def check() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self.api.get(f"{self.apps}/deployments/{name}")).json
            status, wanted = found.get("status", {}), found["spec"]["replicas"]
            counts = (status.get("replicas"), status.get("updatedReplicas"), status.get("availableReplicas"))
            through = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if through and counts == (wanted, wanted, wanted) else None

        result: dict[str, Any] = await until(check)
        return result


async def test_a_deployment_becomes_ready(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    found = await space.settled()
    conditions = {each["type"]: (each["status"], each["reason"]) for each in found["status"]["conditions"]}
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    [replica_set] = await space.items(f"{space.apps}/replicasets")
    assert replica_set["metadata"]["ownerReferences"][0]["controller"] is True
    assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"]
    pods = await space.items(f"{space.core}/pods")
    assert len(pods) == 2
    assert all(pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet" for pod in pods)
    assert all(pod["spec"]["nodeName"] and pod["status"]["podIP"] for pod in pods)


async def test_a_new_image_is_rolled_out_by_a_second_replica_set(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    await api.patch(f"{space.apps}/deployments/d", patch, "strategic")
    found = await space.settled()
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    sets = await space.items(f"{space.apps}/replicasets")
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 2]
    pods = [each for each in await space.items(f"{space.core}/pods") if "deletionTimestamp" not in each["metadata"]]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"nginx:2"}


async def test_scaling_changes_the_one_replica_set(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    await api.patch(f"{space.apps}/deployments/d", {"spec": {"replicas": 4}})
    await space.settled()
    await api.patch(f"{space.apps}/deployments/d", {"spec": {"replicas": 1}})
    await space.settled()
    assert len(await space.items(f"{space.apps}/replicasets")) == 1


async def test_a_paused_deployment_does_not_roll(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    patch = {"spec": {"paused": True, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    await api.patch(f"{space.apps}/deployments/d", patch, "strategic")

    async def paused() -> bool:
        found = (await api.get(f"{space.apps}/deployments/d")).json
        return any(each["reason"] == "DeploymentPaused" for each in found["status"]["conditions"])

    await until(paused)
    assert len(await space.items(f"{space.apps}/replicasets")) == 1


async def test_a_recreate_deployment_deletes_the_old_pods_first(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment(strategy={"type": "Recreate"}))
    await space.settled()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}}
    await api.patch(f"{space.apps}/deployments/d", patch, "strategic")
    await space.settled()
    sets = await space.items(f"{space.apps}/replicasets")
    # the new one is created with its replicas, and the old one was scaled once: one write each
    assert sorted((each["spec"]["replicas"], each["metadata"]["generation"]) for each in sets) == [(0, 2), (2, 1)]


async def test_a_pod_that_is_deleted_is_replaced(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    lost = (await space.items(f"{space.core}/pods"))[0]["metadata"]
    await api.delete(f"{space.core}/pods/{lost['name']}")

    async def replaced() -> bool:
        pods = await space.items(f"{space.core}/pods")
        live = [each["metadata"]["uid"] for each in pods if "deletionTimestamp" not in each["metadata"]]
        return len(live) == 2 and lost["uid"] not in live

    await until(replaced)


async def test_owned_objects_are_deleted_with_their_owner(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    owner = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "owner"}})).json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    body = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    (await api.post(f"{ns}/secrets", body)).expect(201)
    (await api.post(f"{ns}/secrets", {"metadata": {"name": "of-nobody"}})).expect(201)
    await api.delete(f"{ns}/configmaps/owner")

    async def gone() -> bool:
        return (await api.get(f"{ns}/secrets/owned")).status == 404

    await until(gone)
    assert [each["metadata"]["name"] for each in await space.items(f"{ns}/secrets")] == ["of-nobody"]


async def test_objects_of_a_missing_owner_are_deleted(api: API, ns: str) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "no-such-uid"}
    await api.post(f"{ns}/secrets", {"metadata": {"name": "owned", "ownerReferences": [reference]}})

    async def gone() -> bool:
        return (await api.get(f"{ns}/secrets/owned")).status == 404

    await until(gone)


async def test_an_object_with_a_remaining_owner_is_kept(api: API, ns: str) -> None:
    references = []
    for name in ("a", "b"):
        made = (await api.post(f"{ns}/configmaps", {"metadata": {"name": name}})).json["metadata"]
        references.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["uid"]})
    await api.post(f"{ns}/secrets", {"metadata": {"name": "owned", "ownerReferences": references}})
    await api.delete(f"{ns}/configmaps/a")

    async def has_one_owner() -> bool:
        found = (await api.get(f"{ns}/secrets/owned")).expect(200).json
        return [each["name"] for each in found["metadata"]["ownerReferences"]] == ["b"]

    await until(has_one_owner)


async def test_foreground_deletion_waits_for_owned_objects(api: API, ns: str) -> None:
    owner = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "owner"}})).json["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    body = {"metadata": {"name": "owned", "ownerReferences": [reference], "finalizers": ["example.com/hold"]}}
    await api.post(f"{ns}/configmaps", body)
    held = (await api.delete(f"{ns}/configmaps/owner", {"propagationPolicy": "Foreground"})).expect(200).json
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def deleting() -> bool:
        return "deletionTimestamp" in (await api.get(f"{ns}/configmaps/owned")).expect(200).json["metadata"]

    await until(deleting)
    (await api.get(f"{ns}/configmaps/owner")).expect(200)
    await api.patch(f"{ns}/configmaps/owned", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return (await api.get(f"{ns}/configmaps/owner")).status == 404

    await until(gone)


async def test_orphan_deletion_keeps_owned_objects(api: API, ns: str) -> None:
    owner = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "owner"}})).json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    await api.delete(f"{ns}/configmaps/owner", {"propagationPolicy": "Orphan"})

    async def gone() -> bool:
        return (await api.get(f"{ns}/configmaps/owner")).status == 404

    await until(gone)
    assert "ownerReferences" not in (await api.get(f"{ns}/configmaps/owned")).expect(200).json["metadata"]


async def test_a_service_has_the_addresses_of_its_pods(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    ports = [{"port": 80, "targetPort": 8080}]
    await api.post(f"{ns}/services", {"metadata": {"name": "s"}, "spec": {"selector": {"app": "d"}, "ports": ports}})
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    slices = ns.replace("/api/v1", "/apis/discovery.k8s.io/v1") + "/endpointslices"

    async def addresses() -> bool:
        items = await space.items(f"{slices}?labelSelector=kubernetes.io/service-name%3Ds")
        ready = [each for item in items for each in item["endpoints"] or [] if each["conditions"]["ready"]]
        return len(ready) == 2 and items[0]["ports"][0]["port"] == 8080

    await until(addresses)


async def test_every_namespace_has_a_default_account_and_the_cluster_ca(api: API, ns: str) -> None:
    async def there() -> bool:
        account = await api.get(f"{ns}/serviceaccounts/default")
        certificate = await api.get(f"{ns}/configmaps/kube-root-ca.crt")
        return account.status == certificate.status == 200

    await until(there)
    found = (await api.get(f"{ns}/configmaps/kube-root-ca.crt")).json
    assert found["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")


async def test_a_deleted_namespace_is_emptied_and_removed(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await api.post(f"{ns}/secrets", {"metadata": {"name": "s"}})
    await api.delete(ns)

    async def gone() -> bool:
        return (await api.get(ns)).status == 404

    await until(gone)


async def test_an_owner_in_another_namespace_counts_as_missing(api: API, ns: str) -> None:
    elsewhere = "/api/v1/namespaces/default/configmaps"
    name = ns.rpartition("/")[2]
    owner = (await api.post(elsewhere, {"metadata": {"name": name}})).expect(201).json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["uid"]}
    await api.post(f"{ns}/secrets", {"metadata": {"name": "owned", "ownerReferences": [reference]}})

    async def gone() -> bool:
        return (await api.get(f"{ns}/secrets/owned")).status == 404

    await until(gone)
    (await api.delete(f"{elsewhere}/{name}")).expect(200)


async def test_a_circle_of_owners_is_deleted_in_the_foreground(api: API, ns: str) -> None:
    names = "abc"
    made = {name: (await api.post(f"{ns}/configmaps", {"metadata": {"name": name}})).json for name in names}
    for owner, name in zip(names, "bca", strict=True):
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": made[owner]["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        patch = {"metadata": {"ownerReferences": [reference]}}
        (await api.patch(f"{ns}/configmaps/{name}", patch)).expect(200)
    await api.delete(f"{ns}/configmaps/a", {"propagationPolicy": "Foreground"})

    async def gone() -> bool:
        return all([(await api.get(f"{ns}/configmaps/{name}")).status == 404 for name in names])

    await until(gone)


async def test_objects_that_do_not_block_their_owner_are_deleted_too(api: API, ns: str) -> None:
    owner = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "owner"}})).json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    body = {"metadata": {"name": "owned", "ownerReferences": [reference], "finalizers": ["example.com/hold"]}}
    await api.post(f"{ns}/secrets", body)
    await api.delete(f"{ns}/configmaps/owner", {"propagationPolicy": "Foreground"})

    async def owner_gone() -> bool:
        return (await api.get(f"{ns}/configmaps/owner")).status == 404

    async def deleting() -> bool:
        return "deletionTimestamp" in (await api.get(f"{ns}/secrets/owned")).expect(200).json["metadata"]

    await until(owner_gone)
    await until(deleting)
    await api.patch(f"{ns}/secrets/owned", {"metadata": {"finalizers": None}})


async def test_orphan_deletion_of_a_replica_set_keeps_its_pods(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    template = deployment()["spec"]["template"]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    await api.post(f"{space.apps}/replicasets", {"metadata": {"name": "r"}, "spec": spec})

    async def two() -> bool:
        status = (await api.get(f"{space.apps}/replicasets/r")).json["status"]
        return bool(status.get("readyReplicas") == 2)

    await until(two)
    await api.delete(f"{space.apps}/replicasets/r", {"propagationPolicy": "Orphan"})

    async def gone() -> bool:
        return (await api.get(f"{space.apps}/replicasets/r")).status == 404

    await until(gone)
    pods = await space.items(f"{space.core}/pods")
    assert len(pods) == 2
    assert all("ownerReferences" not in pod["metadata"] for pod in pods)


async def test_a_stalled_rollout_fails_after_its_deadline(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    stuck = deployment(progressDeadlineSeconds=2, minReadySeconds=1)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    await api.post(f"{space.apps}/deployments", stuck)

    async def failed() -> bool:
        found = (await api.get(f"{space.apps}/deployments/d")).json
        conditions = {each["type"]: (each["status"], each["reason"]) for each in found["status"].get("conditions", [])}
        return conditions.get("Progressing") == ("False", "ProgressDeadlineExceeded")

    await until(failed)


async def test_a_rollback_reuses_the_old_replica_set_with_a_new_revision(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    await api.post(f"{space.apps}/deployments", deployment())
    await space.settled()
    for image in ("nginx:2", "nginx:1"):
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
        await api.patch(f"{space.apps}/deployments/d", patch, "strategic")
        found = await space.settled()
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    sets = await space.items(f"{space.apps}/replicasets")
    annotations = [each["metadata"]["annotations"] for each in sets]
    revisions = sorted(each["deployment.kubernetes.io/revision"] for each in annotations)
    assert revisions == ["2", "3"]
    [back] = [each for each in annotations if each["deployment.kubernetes.io/revision"] == "3"]
    assert back["deployment.kubernetes.io/revision-history"] == "1"


async def test_failures_of_replica_sets_show_in_their_deployment(api: API, ns: str) -> None:
    space = Namespace(api, ns)
    limits = {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}
    (await api.post(f"{ns}/limitranges", {"metadata": {"name": "l"}, "spec": limits})).expect(201)
    greedy = deployment()
    greedy["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    await api.post(f"{space.apps}/deployments", greedy)

    async def failure() -> dict[str, str] | None:
        found = (await api.get(f"{space.apps}/deployments/d")).json
        conditions = {each["type"]: each for each in found["status"].get("conditions", [])}
        return conditions.get("ReplicaFailure")

    found = await until(failure)
    assert (found["status"], found["reason"]) == ("True", "FailedCreate")
    assert "maximum memory usage per Container is 1Mi" in found["message"]


async def test_a_terminating_namespace_reports_what_remains(api: API, ns: str) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    (await api.post(f"{ns}/configmaps", held)).expect(201)
    await api.delete(ns)

    async def told() -> bool:
        status = (await api.get(ns)).json["status"]
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        remaining = conditions.get("NamespaceFinalizersRemaining", {})
        return remaining.get("status") == "True" and "example.com/hold in 1" in remaining["message"]

    await until(told)
    await api.patch(f"{ns}/configmaps/held", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return (await api.get(ns)).status == 404

    await until(gone)


async def test_a_deleted_namespace_keeps_its_other_objects_until_its_pods_have_ended(api: API, ns: str) -> None:
    """A Pod may need its ConfigMaps and Secrets until it ends."""
    name = f"{ns.rpartition('/')[2]}-ordered"
    path = f"/api/v1/namespaces/{name}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    held = {
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
        "spec": {
            "containers": [{"name": "c", "image": "nginx:1"}],
            "schedulerName": "none",
            "automountServiceAccountToken": False,
        },
    }

    async def created() -> bool:
        return (await api.post(f"{path}/pods", held)).status == 201

    await until(created)
    (await api.post(f"{path}/configmaps", {"metadata": {"name": "needed"}})).expect(201)
    (await api.delete(path)).expect(200)

    async def reported() -> dict[str, str] | None:
        status = (await api.get(path)).expect(200).json["status"]
        conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return conditions if len(conditions) == 5 else None

    assert set((await until(reported)).values()) == {"False"}  # what remains is reported once the Pods are gone
    assert (await api.get(f"{path}/pods/held")).expect(200).json["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in (await api.get(f"{path}/configmaps/needed")).expect(200).json["metadata"]
    (await api.patch(f"{path}/pods/held", {"metadata": {"finalizers": None}})).expect(200)

    async def gone() -> bool:
        return (await api.get(path)).status == 404

    await until(gone)
