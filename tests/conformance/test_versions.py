"""Resource versions and preconditions of writes, as clients leave them out, empty them, or send wrong ones."""

from __future__ import annotations

import pytest

from conformance.rawapi import API

LEASES = "/apis/coordination.k8s.io/v1"
UNSET = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"


async def test_a_new_object_cannot_have_a_resource_version(api: API, ns: str) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "1"}}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(500)
    assert answer.message == "resourceVersion should not be set on objects to be created"
    (await api.post(f"{ns}/configmaps", {**body, "data": {"a b": "c"}})).expect(422)
    (await api.post(f"{ns}/configmaps?dryRun=All", body)).expect(201)
    for name, version in (("b", "0"), ("c", "abc"), ("d", "-1"), ("e", "")):
        body = {"metadata": {"name": name, "resourceVersion": version}}
        made = (await api.post(f"{ns}/configmaps", body)).expect(201).json
        assert made["metadata"]["resourceVersion"] not in ("", version)


@pytest.mark.parametrize("version", ["0", "00", ""])
async def test_version_zero_counts_as_absent(api: API, ns: str, version: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    body = {"metadata": {"name": "a", "resourceVersion": version}, "data": {"a": "b"}}
    (await api.put(f"{ns}/configmaps/a", body)).expect(200)
    for kind in ("merge", "strategic"):
        patch = {"metadata": {"resourceVersion": version}, "data": {kind: "b"}}
        (await api.patch(f"{ns}/configmaps/a", patch, kind)).expect(200)


@pytest.mark.parametrize("version", ["0", "", None])
async def test_some_kinds_require_a_version_of_patches_too(api: API, ns: str, version: str | None) -> None:
    leases = ns.replace("/api/v1", LEASES) + "/leases"
    await api.post(leases, {"metadata": {"name": "a"}})
    patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "b"}}
    for kind in ("merge", "strategic"):
        assert UNSET in (await api.patch(f"{leases}/a", patch, kind)).expect(422).message
    body = {"metadata": {"name": "a", "resourceVersion": version}}
    assert UNSET in (await api.put(f"{leases}/a", body)).expect(422).message
    (await api.put(f"{leases}/a", {"metadata": {"name": "a", "uid": "x"}})).expect(409)


async def test_an_empty_precondition_is_one(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    for precondition, why in (({"uid": ""}, "UID"), ({"resourceVersion": ""}, "ResourceVersion")):
        answer = (await api.delete(f"{ns}/configmaps/a", {"preconditions": precondition})).expect(409)
        assert f"the {why} in the precondition () does not match" in answer.message


async def test_deletion_cannot_be_set_by_an_update(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    patch = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "creationTimestamp": None}}
    answer = (await api.patch(f"{ns}/configmaps/a", patch)).expect(422)
    assert answer.message.endswith(
        'metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable'
    )
