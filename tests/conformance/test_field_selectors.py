"""Field selectors: which fields each kind knows, and in which words it refuses the others."""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance.rawapi import API

SELECTED: Final = {
    "/api/v1/pods": ("spec.nodeName", "spec.hostNetwork", "status.podIP", "metadata.namespace"),
    "/api/v1/nodes": ("spec.unschedulable", "metadata.name"),
    "/api/v1/secrets": ("type",),
    "/api/v1/services": ("spec.clusterIP", "spec.type"),
    "/apis/batch/v1/jobs": ("status.successful", "metadata.namespace"),
    "/apis/resource.k8s.io/v1/resourceslices": ("spec.nodeName", "spec.driver", "metadata.name"),
    "/apis/storage.k8s.io/v1/storageclasses": ("metadata.name", "metadata.namespace"),
}
REFUSED: Final = {
    "/api/v1/nodes": ("metadata.namespace", "field label not supported: metadata.namespace"),
    "/api/v1/namespaces": ("metadata.namespace", "field label not supported: metadata.namespace"),
    "/apis/apps/v1/replicasets": (
        "status.replicas",
        '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    "/apis/batch/v1/jobs": ("spec.suspend", 'field label "spec.suspend" not supported for Job'),
    "/apis/resource.k8s.io/v1/resourceslices": (
        "metadata.namespace",
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: metadata.namespace",
    ),
}


async def test_fields_of_a_kind_are_selectable(api: API) -> None:
    for path, fields in SELECTED.items():
        for field in fields:
            (await api.get(f"{path}?limit=1&fieldSelector={field}%3Dnone")).expect(200)


@pytest.mark.parametrize("path", REFUSED)
async def test_other_fields_are_refused(api: API, path: str) -> None:
    field, why = REFUSED[path]
    answer = (await api.get(f"{path}?limit=1&fieldSelector={field}%3Dnone")).expect(400)
    assert answer.message == why


async def test_slices_are_selected_by_node_and_driver(api: API, ns: str) -> None:
    path, name = "/apis/resource.k8s.io/v1/resourceslices", ns.rpartition("/")[2]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": "a.b", "pool": pool, "nodeName": name, "devices": []}
    (await api.post(path, {"metadata": {"name": name}, "spec": spec})).expect(201)
    try:
        for query, found in ((f"spec.nodeName%3D{name}", [name]), (f"spec.nodeName%3D{name},spec.driver%3Dc.d", [])):
            items = (await api.get(f"{path}?fieldSelector={query}")).expect(200).json["items"]
            assert [each["metadata"]["name"] for each in items] == found
    finally:
        await api.delete(f"{path}/{name}")


async def test_component_statuses_are_deprecated(api: API) -> None:
    answer = (await api.get("/api/v1/componentstatuses")).expect(200)
    assert answer.headers["warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'


async def test_the_spec_of_a_device_claim_does_not_change(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/resource.k8s.io/v1") + "/resourceclaims"
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    (await api.post(path, {"metadata": {"name": "a"}, "spec": spec})).expect(201)
    patch = [{"op": "replace", "path": "/spec/devices/requests/0/name", "value": "s"}]
    answer = await api.send("PATCH", f"{path}/a", patch, headers={"content-type": "application/json-patch+json"})
    [(_, field, message)] = answer.expect(422).causes
    assert (field, message.rpartition(": ")[2]) == ("spec", "field is immutable")
