"""The status of ResourceQuotas, and the conditions of namespaces that cannot be deleted."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.rawapi import API, until


async def reported(api: API, quota: str, **wanted: str) -> dict[str, Any]:
    """Wait until a quota reports this usage, and return its status."""

    async def check() -> dict[str, Any] | None:
        status: dict[str, Any] = (await api.get(quota)).expect(200).json.get("status", {})
        return status if wanted.items() <= status.get("used", {}).items() else None

    status: dict[str, Any] = await until(check)
    return status


async def test_a_quota_follows_what_is_used(api: API, ns: str) -> None:
    used = partial(reported, api, f"{ns}/resourcequotas/q")
    requests = {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}
    pod = {"containers": [{"name": "c", "image": "nginx:1", "resources": requests}], "terminationGracePeriodSeconds": 0}
    for name in ("one", "two"):
        (await api.post(f"{ns}/pods", {"metadata": {"name": name}, "spec": pod})).expect(201)
    hard = {"pods": "5", "requests.cpu": "1", "limits.memory": "1Gi", "count/secrets": "3"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    (await api.post(f"{ns}/resourcequotas", quota)).expect(201)
    status = await used(pods="2", **{"requests.cpu": "200m", "limits.memory": "128Mi", "count/secrets": "0"})
    assert status["hard"] == hard
    (await api.delete(f"{ns}/pods/one")).expect(200)
    await used(pods="1", **{"requests.cpu": "100m"})
    (await api.post(f"{ns}/secrets", {"metadata": {"name": "s"}})).expect(201)
    await used(**{"count/secrets": "1"})
    done = {"status": {"phase": "Succeeded"}}
    (await api.patch(f"{ns}/pods/two/status", done)).expect(200)
    await used(pods="0", **{"requests.cpu": "0"})
    (await api.patch(f"{ns}/resourcequotas/q", {"spec": {"hard": {"configmaps": "9", "pods": "4"}}})).expect(200)
    status = await used(configmaps="1")
    assert status["hard"] == {**hard, "configmaps": "9", "pods": "4"}


async def test_the_status_of_a_quota_belongs_to_the_controller_manager_until_objects_are_created(
    api: API, ns: str
) -> None:
    path, hard = f"{ns}/resourcequotas/q", {"count/secrets": "3"}
    (await api.post(f"{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})).expect(201)

    async def owners() -> dict[str, list[str]]:
        """Return the managers of `status.hard`, and of the used amount."""
        fields = (await api.get(path)).expect(200).json["metadata"]["managedFields"]
        status = {each["manager"]: each["fieldsV1"]["f:status"] for each in fields if each.get("subresource")}
        return {
            part: [manager for manager, owned in status.items() if owned.get(f"f:{part}", {}).get("f:count/secrets")
                   is not None]
            for part in ("hard", "used")
        }  # fmt: skip

    await reported(api, path, **{"count/secrets": "0"})
    assert await owners() == {"hard": ["kube-controller-manager"], "used": ["kube-controller-manager"]}
    (await api.post(f"{ns}/secrets", {"metadata": {"name": "s"}})).expect(201)
    await reported(api, path, **{"count/secrets": "1"})
    assert await owners() == {"hard": ["kube-controller-manager"], "used": ["kube-apiserver"]}
    (await api.delete(f"{ns}/secrets/s")).expect(200)
    await reported(api, path, **{"count/secrets": "0"})
    assert (await owners())["used"] == ["kube-controller-manager"]


async def test_a_quota_of_cpu_and_memory_requires_them_of_each_container(api: API, ns: str) -> None:
    hard = {"requests.cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"}
    (await api.post(f"{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})).expect(201)
    await reported(api, f"{ns}/resourcequotas/q", **{"requests.cpu": "0"})
    containers = [
        {"name": "a", "image": "nginx:1", "resources": {"requests": {"cpu": "1m"}}},
        {"name": "b", "image": "nginx:1"},
    ]
    refused = (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": {"containers": containers}})).expect(
        403
    )
    missing = "limits.memory for: a,b; requests.cpu for: b"
    assert refused.message == f'pods "p" is forbidden: failed quota: q: must specify {missing}'


async def test_a_quota_counts_objects_of_any_kind_and_claims_of_a_storage_class(api: API, ns: str) -> None:
    used = partial(reported, api, f"{ns}/resourcequotas/q")
    of_class = "gold.storageclass.storage.k8s.io"
    hard = {
        "count/replicasets.apps": "1",
        f"{of_class}/persistentvolumeclaims": "1",
        f"{of_class}/requests.storage": "2Gi",
    }
    (await api.post(f"{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})).expect(201)
    await used(**dict.fromkeys(hard, "0"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    sets = ns.replace("/api/v1", "/apis/apps/v1") + "/replicasets"
    (await api.post(sets, {"metadata": {"name": "one"}, "spec": spec})).expect(201)
    await used(**{"count/replicasets.apps": "1"})
    why = (await api.post(sets, {"metadata": {"name": "two"}, "spec": spec})).expect(403).message
    assert "exceeded quota: q, requested: count/replicasets.apps=1, used: count/replicasets.apps=1, limited: " in why
    (await api.delete(f"{sets}/one")).expect(200)
    await used(**{"count/replicasets.apps": "0"})
    for name, storage_class in (("gold", "gold"), ("other", "silver")):
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
        }
        (await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})).expect(201)
    await used(**{f"{of_class}/persistentvolumeclaims": "1", f"{of_class}/requests.storage": "1Gi"})


async def test_a_namespace_reports_what_keeps_it(api: API, ns: str) -> None:
    name = f"{ns.rpartition('/')[2]}-kept"
    path = f"/api/v1/namespaces/{name}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/a"]}}
    (await api.post(f"{path}/configmaps", held)).expect(201)
    (await api.delete(path)).expect(200)

    async def conditions() -> dict[str, tuple[str, str, str]] | None:
        status = (await api.get(path)).expect(200).json["status"]
        found = {
            each["type"]: (each["status"], each["reason"], each["message"]) for each in status.get("conditions", [])
        }
        return found if status["phase"] == "Terminating" and len(found) == 5 else None

    assert await until(conditions) == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/a in 1 resource instances",
        ),
    }
    (await api.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})).expect(200)


async def test_a_quota_of_a_scope_limits_only_the_pods_in_it(api: API, ns: str) -> None:
    selector = {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]
    }
    critical = {"hard": {"pods": "1"}, "scopeSelector": selector}
    quota = {"metadata": {"name": "critical"}, "spec": critical}
    (await api.post(f"{ns}/resourcequotas", quota)).expect(201)
    crossing = {"hard": {"pods": "0"}, "scopes": ["CrossNamespacePodAffinity"]}
    (await api.post(f"{ns}/resourcequotas", {"metadata": {"name": "crossing"}, "spec": crossing})).expect(201)

    async def counted() -> bool:
        quotas = (await api.get(f"{ns}/resourcequotas")).json["items"]
        return all("pods" in each.get("status", {}).get("used", {}) for each in quotas)

    await until(counted)

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}

    (await api.post(f"{ns}/pods", pod("other"))).expect(201)
    (await api.post(f"{ns}/pods", pod("one", priorityClassName="system-node-critical"))).expect(201)
    refused = (await api.post(f"{ns}/pods", pod("two", priorityClassName="system-node-critical"))).expect(403)
    assert refused.message.endswith("exceeded quota: critical, requested: pods=1, used: pods=1, limited: pods=1")
    term = {"topologyKey": "zone", "namespaces": ["other"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    refused = (await api.post(f"{ns}/pods", pod("three", affinity=affinity))).expect(403)
    assert "exceeded quota: crossing" in refused.message


async def test_scopes_of_a_quota_are_validated(api: API, ns: str) -> None:
    async def faults(hard: dict[str, str], **spec: Any) -> list[str]:
        body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
        answer = (await api.post(f"{ns}/resourcequotas?dryRun=All", body)).expect(422)
        return [f"{field}: {message}" for _, field, message in answer.causes]

    async def selected(**requirement: Any) -> list[str]:
        return await faults({"pods": "1"}, scopeSelector={"matchExpressions": [requirement]})

    path = "spec.scopeSelector.matchExpressions"
    why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
    assert await selected(scopeName="PriorityClass", operator="In") == [f"{path}.values: Required value: {why}"]
    assert await selected(scopeName="Big", operator="Has") == [
        f'{path}.scopeName: Invalid value: "Big": unsupported scope',
        f'{path}.operator: Invalid value: "Has": not a valid selector operator',
    ]
    assert (await selected(scopeName="BestEffort", operator="In", values=["a"]))[0].startswith(
        f"{path}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of"
    )
    assert await faults({"requests.storage": "1"}, scopes=["Terminating"]) == [
        'spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource'
    ]
    ratio = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [ratio]}}
    refused = (await api.post(f"{ns}/limitranges?dryRun=All", body)).expect(422)
    why = 'Invalid value: "3": ratio 3 is greater than max/min = 2.000000'
    assert refused.causes == [("FieldValueInvalid", "spec.limits[0].maxLimitRequestRatio[cpu]", why)]
