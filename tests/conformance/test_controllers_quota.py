"""The status of ResourceQuotas, and the conditions of namespaces that cannot be deleted."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until


async def test_a_quota_follows_what_is_used(api: API, ns: str) -> None:
    async def used(**wanted: str) -> dict[str, Any]:
        async def check() -> dict[str, Any] | None:
            status: dict[str, Any] = (await api.get(f"{ns}/resourcequotas/q")).expect(200).json.get("status", {})
            return status if wanted.items() <= status.get("used", {}).items() else None

        status: dict[str, Any] = await until(check)
        return status

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
