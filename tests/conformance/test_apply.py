"""Server-side apply: ownership of fields, conflicts, removal."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API


def config_map(data: dict[str, str], **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a"}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def apply(api: API, ns: str, body: dict[str, Any], manager: str, *, force: bool = False) -> Any:
    target = f"{ns}/configmaps/a?fieldManager={manager}&force={str(force).lower()}"
    return await api.patch(target, body, "apply")


def owned(obj: dict[str, Any], manager: str) -> Any:
    entries = {each["manager"]: each for each in obj["metadata"]["managedFields"]}
    return entries[manager]["fieldsV1"] if manager in entries else None


async def test_an_apply_creates_a_missing_object(api: API, ns: str) -> None:
    made = (await apply(api, ns, config_map({"k": "v"}), "me")).expect(201).json
    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}


async def test_an_apply_of_the_same_changes_nothing(api: API, ns: str) -> None:
    made = (await apply(api, ns, config_map({"k": "v"}), "me")).expect(201).json
    again = (await apply(api, ns, config_map({"k": "v"}), "me")).expect(200).json
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert again["metadata"]["managedFields"] == made["metadata"]["managedFields"]


async def test_a_field_no_longer_applied_is_removed(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v", "l": "w"}), "me")
    changed = (await apply(api, ns, config_map({"k": "v"}), "me")).expect(200).json
    assert changed["data"] == {"k": "v"}


async def test_a_field_with_another_owner_is_kept(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v", "l": "w"}), "me")
    await apply(api, ns, config_map({"l": "w"}), "other")
    changed = (await apply(api, ns, config_map({"k": "v"}), "me")).expect(200).json
    assert changed["data"] == {"k": "v", "l": "w"}
    assert owned(changed, "other") == {"f:data": {"f:l": {}}}


async def test_another_managers_field_is_a_conflict(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v"}), "me")
    answer = (await apply(api, ns, config_map({"k": "w"}), "other")).expect(409)
    assert answer.reason == "Conflict"
    assert answer.message == 'Apply failed with 1 conflict: conflict with "me": .data.k'
    assert answer.causes == [("FieldManagerConflict", ".data.k", 'conflict with "me"')]


async def test_a_conflict_with_an_update_names_its_version(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps?fieldManager=curl", config_map({"k": "v"}))
    answer = (await apply(api, ns, config_map({"k": "w"}), "me")).expect(409)
    assert answer.message == 'Apply failed with 1 conflict: conflict with "curl" using v1: .data.k'


async def test_several_conflicts_are_listed(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v", "l": "v"}), "me")
    answer = (await apply(api, ns, config_map({"k": "w", "l": "w"}), "other")).expect(409)
    assert answer.message == 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.k\n- .data.l'


async def test_force_takes_fields_over(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v"}), "me")
    taken = (await apply(api, ns, config_map({"k": "w"}), "other", force=True)).expect(200).json
    assert taken["data"] == {"k": "w"}
    assert owned(taken, "other") == {"f:data": {"f:k": {}}}
    assert owned(taken, "me") is None


async def test_an_update_takes_over_the_fields_that_it_changes(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v", "l": "v"}), "me")
    changed = (await api.patch(f"{ns}/configmaps/a?fieldManager=curl", {"data": {"k": "w"}})).expect(200).json
    assert owned(changed, "curl") == {"f:data": {"f:k": {}}}
    assert owned(changed, "me") == {"f:data": {"f:l": {}}}


async def test_an_unknown_field_cannot_be_applied(api: API, ns: str) -> None:
    body = {**config_map({}), "bogus": 1}
    answer = (await apply(api, ns, body, "me")).expect(500)
    assert "field not declared in schema" in answer.message


async def test_an_apply_requires_the_kind(api: API, ns: str) -> None:
    answer = await apply(api, ns, {"metadata": {"name": "a"}, "data": {}}, "me")
    answer.expect(400)


async def test_a_resource_version_in_an_apply_must_be_current(api: API, ns: str) -> None:
    await apply(api, ns, config_map({"k": "v"}), "me")
    stale = config_map({"k": "w"})
    stale["metadata"]["resourceVersion"] = "1"
    (await apply(api, ns, stale, "me")).expect(409)


async def test_managed_fields_in_an_apply_are_rejected(api: API, ns: str) -> None:
    body = config_map({"k": "v"})
    body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]
    answer = (await apply(api, ns, body, "me")).expect(400)
    assert "metadata.managedFields must be nil" in answer.message


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]},
        },
    },
}


def container(name: str, **fields: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"name": name, **fields}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


async def test_list_items_are_merged_by_their_keys(api: API, ns: str) -> None:
    path = f"{ns.replace('/api/v1', '/apis/apps/v1')}/deployments/d"
    made = (await api.patch(f"{path}?fieldManager=me", DEPLOYMENT, "apply")).expect(201).json
    fields = owned(made, "me")
    containers = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers['k:{"name":"c"}']["f:ports"] == {
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
    }
    both = await api.patch(f"{path}?fieldManager=other", container("sidecar", image="envoy"), "apply")
    names = [each["name"] for each in both.expect(200).json["spec"]["template"]["spec"]["containers"]]
    assert names == ["c", "sidecar"]
    nothing = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    left = (await api.patch(f"{path}?fieldManager=other", nothing, "apply")).expect(200).json
    assert [each["name"] for each in left["spec"]["template"]["spec"]["containers"]] == ["c"]


async def test_fields_of_client_side_apply_are_taken_over(api: API, ns: str) -> None:
    last = '{"apiVersion":"v1","data":{"k":"v","l":"w"},"kind":"ConfigMap","metadata":{"name":"a"}}'
    body = config_map({"k": "v", "l": "w"})
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    await api.post(f"{ns}/configmaps?fieldManager=kubectl-client-side-apply", body)
    again = config_map({"k": "v"})
    applied = (await apply(api, ns, again, "kubectl", force=True)).expect(200).json
    assert applied["data"].get("k") == "v"
    assert owned(applied, "kubectl")["f:data"] == {"f:k": {}}


@pytest.mark.parametrize("dry_run", ["", "&dryRun=All"])
async def test_status_fields_are_owned_through_the_status_subresource(api: API, ns: str, dry_run: str) -> None:
    path = f"{ns.replace('/api/v1', '/apis/apps/v1')}/deployments/d"
    await api.patch(f"{path}?fieldManager=me", DEPLOYMENT, "apply")
    status = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "status": {"conditions": [{"type": "Custom", "status": "True"}]},
    }
    answer = await api.patch(f"{path}/status?fieldManager=me{dry_run}&force=true", status, "apply")
    entries = [each for each in answer.expect(200).json["metadata"]["managedFields"] if each["manager"] == "me"]
    assert {each.get("subresource") for each in entries} == {None, "status"}


async def test_an_applied_list_with_two_items_of_one_key_is_rejected(api: API, ns: str) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "twice"}, "spec": spec}
    answer = (await api.patch(f"{ns}/pods/twice?fieldManager=m", body, "apply")).expect(500)
    why = '.spec.containers[name="c"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]'
    assert answer.message == f"failed to create typed patch object (/twice; /v1, Kind=Pod): {why}"


async def test_an_apply_that_only_a_default_completes_is_not_written_again(api: API, ns: str) -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    spec = {"containers": [{"name": "c", "image": "i", "env": [{"name": "NAME", "valueFrom": source}]}]}
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "defaulted"}, "template": {"spec": spec}}
    target = f"{ns}/podtemplates/defaulted?fieldManager=m"
    made = (await api.patch(target, body, "apply")).expect(201).json
    made["metadata"]["managedFields"][0]["time"] = "2020-01-01T00:00:00Z"
    before = (await api.put(target, made)).expect(200).json
    again = (await api.patch(target, body, "apply")).expect(200).json
    assert again["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert again["metadata"]["managedFields"] == before["metadata"]["managedFields"]
