"""Evictions: their dry runs, options and preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API, Answer

POD = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}], "schedulerName": "none"},
}
"""A Pod that no controller changes, because it is not scheduled."""


async def evict(api: API, ns: str, query: str = "", **options: Any) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options}
    return await api.post(f"{ns}/pods/p/eviction{query}", body)


async def create_pod(api: API, ns: str) -> Any:
    return (await api.post(f"{ns}/pods", POD)).expect(201).json


@pytest.mark.parametrize(("query", "options"), [("", {"dryRun": ["All"]}), ("?dryRun=All", {})])
async def test_a_dry_run_of_an_eviction_changes_nothing(api: API, ns: str, query: str, options: dict[str, Any]) -> None:
    pod = await create_pod(api, ns)
    (await evict(api, ns, query, **options)).expect(201)
    assert (await api.get(f"{ns}/pods/p")).expect(200).json == pod


async def test_invalid_options_of_an_eviction_are_rejected(api: API, ns: str) -> None:
    await create_pod(api, ns)
    answer = (await evict(api, ns, dryRun=["Some"])).expect(422)
    assert answer.causes == [
        ("FieldValueNotSupported", "dryRun", 'Unsupported value: ["Some"]: supported values: "All"')
    ]
    (await evict(api, ns, propagationPolicy="Never")).expect(422)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": "x"}
    answer = (await api.post(f"{ns}/pods/p/eviction", body)).expect(400)
    assert "cannot unmarshal string into Go struct field Eviction.deleteOptions" in answer.message
    (await api.get(f"{ns}/pods/p")).expect(200)


async def test_preconditions_of_an_eviction_are_checked(api: API, ns: str) -> None:
    pod = await create_pod(api, ns)
    answer = (await evict(api, ns, preconditions={"uid": "x"})).expect(409)
    assert "the UID in the precondition (x) does not match the UID in record" in answer.message
    answer = (await evict(api, ns, preconditions={"resourceVersion": "1"})).expect(409)
    assert "the ResourceVersion in the precondition (1) does not match" in answer.message
    version = (await api.get(f"{ns}/pods/p")).expect(200).json["metadata"]["resourceVersion"]
    uid = pod["metadata"]["uid"]
    (await evict(api, ns, preconditions={"uid": uid, "resourceVersion": version})).expect(201)
    gone = await api.get(f"{ns}/pods/p")
    assert gone.status == 404 or gone.json["metadata"]["deletionTimestamp"]
