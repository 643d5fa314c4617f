"""The claims of Pods for devices: created from templates, and deleted when the Pod is done."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until


def template(labels: dict[str, str]) -> dict[str, Any]:
    device = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "metadata": {"name": "gpu"},
        "spec": {"metadata": {"labels": labels}, "spec": {"devices": {"requests": [device]}}},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    quiet = {"schedulerName": "nobody", "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims, **quiet, **spec}}


async def claim_of(api: API, ns: str, name: str) -> dict[str, Any]:
    """Wait until the status of a Pod names its claim, and return the claim."""

    async def check() -> str | None:
        found = (await api.get(f"{ns}/pods/{name}")).expect(200).json
        statuses: list[dict[str, str]] = found["status"].get("resourceClaimStatuses") or []
        assert all(each["name"] == "gpu" for each in statuses)
        return statuses[0]["resourceClaimName"] if statuses else None

    claim = await until(check)
    found: dict[str, Any] = (await api.get(f"{path(ns)}/resourceclaims/{claim}")).expect(200).json
    return found


def path(ns: str) -> str:
    return ns.replace("/api/v1", "/apis/resource.k8s.io/v1")


async def test_a_pod_gets_a_claim_from_a_template(api: API, ns: str) -> None:
    (await api.post(f"{path(ns)}/resourceclaimtemplates", template({"a": "b"}))).expect(201)
    created = (await api.post(f"{ns}/pods", pod("p"))).expect(201).json
    claim = await claim_of(api, ns, "p")
    metadata = claim["metadata"]
    assert metadata["generateName"] == "p-gpu-"
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": created["metadata"]["uid"], "controller": True}
    assert metadata["ownerReferences"] == [owner]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"
    (await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")).expect(200)

    async def is_gone() -> bool:
        return (await api.get(f"{path(ns)}/resourceclaims/{metadata['name']}")).status == 404

    await until(is_gone)


async def test_a_pod_waits_for_its_template_with_an_event(api: API, ns: str) -> None:
    other = {**template({}), "metadata": {"name": "other"}}
    (await api.post(f"{path(ns)}/resourceclaimtemplates", other)).expect(201)
    (await api.post(f"{ns}/pods", pod("p"))).expect(201)

    async def notes() -> list[str]:
        events = (await api.get(f"{ns}/events")).expect(200).json["items"]
        return [each["message"] for each in events if each["reason"] == "FailedResourceClaimCreation"]

    assert (await until(notes))[0] == (
        'PodResourceClaim gpu: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found'
    )
    waiting = (await api.get(f"{ns}/pods/p")).expect(200).json
    assert "nodeName" not in waiting["spec"]
    assert "conditions" not in waiting["status"]
    (await api.post(f"{path(ns)}/resourceclaimtemplates", template({}))).expect(201)
    await claim_of(api, ns, "p")
    await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")


async def test_the_claim_of_a_pod_that_is_done_is_released_and_deleted(api: API, ns: str) -> None:
    (await api.post(f"{path(ns)}/resourceclaimtemplates", template({}))).expect(201)
    uids: dict[str, str] = {}
    for name in ("p", "q"):
        uids[name] = (await api.post(f"{ns}/pods", pod(name))).expect(201).json["metadata"]["uid"]
    claims = {name: (await claim_of(api, ns, name))["metadata"]["name"] for name in uids}
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()]
    results = [{"request": "gpu", "driver": "d.example.com", "pool": "a", "device": "b"}]
    allocation = {"devices": {"results": results}}
    shared = f"{path(ns)}/resourceclaims/shared"
    spec = {"spec": template({})["spec"]["spec"]}
    protected = ["resource.kubernetes.io/delete-protection"]
    metadata = {"name": "shared", "finalizers": protected}
    (await api.post(f"{path(ns)}/resourceclaims", {"metadata": metadata, **spec})).expect(201)
    (await api.patch(f"{shared}/status", {"status": {"allocation": allocation, "reservedFor": reserved}})).expect(200)
    (await api.patch(f"{ns}/pods/p/status", {"status": {"phase": "Succeeded"}})).expect(200)

    async def consumers(*names: str) -> bool:
        status = (await api.get(shared)).expect(200).json.get("status", {})
        return [each["name"] for each in status.get("reservedFor", [])] == list(names)

    async def is_gone(claim: str) -> bool:
        return (await api.get(f"{path(ns)}/resourceclaims/{claim}")).status == 404

    await until(lambda: is_gone(claims["p"]))
    (await api.get(f"{path(ns)}/resourceclaims/{claims['q']}")).expect(200)
    change = {"metadata": {"labels": {"a": "b"}}}
    (await api.patch(shared, change)).expect(200)
    await until(lambda: consumers("q"))
    (await api.delete(f"{ns}/pods/q?gracePeriodSeconds=0")).expect(200)
    (await api.patch(shared, {"metadata": {"labels": {"a": "c"}}})).expect(200)

    async def is_free() -> bool:
        found = (await api.get(shared)).expect(200).json
        return "allocation" not in found.get("status", {}) and "finalizers" not in found["metadata"]

    await until(is_free)
