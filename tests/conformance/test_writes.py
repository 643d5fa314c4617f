"""Create, update, patch and delete."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from conformance.rawapi import API


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_a_create_sets_server_assigned_metadata(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})).expect(201).json
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
    assert metadata["namespace"] == ns.rpartition("/")[2]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0


async def test_a_generated_name_has_a_suffix_of_five_characters(api: API, ns: str) -> None:
    body = {"metadata": {"generateName": "web-"}}
    name = (await api.post(f"{ns}/configmaps", body)).expect(201).json["metadata"]["name"]
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5


async def test_a_dry_run_stores_nothing(api: API, ns: str) -> None:
    answer = (await api.post(f"{ns}/configmaps?dryRun=All", config_map())).expect(201)
    assert answer.json["metadata"]["uid"]
    (await api.get(f"{ns}/configmaps/a")).expect(404)


async def test_an_update_that_changes_nothing_keeps_the_resource_version(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201).json
    again = (await api.put(f"{ns}/configmaps/a", made)).expect(200).json
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_an_update_without_a_resource_version_overwrites(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map(k="v"))
    updated = (await api.put(f"{ns}/configmaps/a", config_map(other="w"))).expect(200).json
    assert updated["data"] == {"other": "w"}


async def test_an_update_cannot_change_server_assigned_metadata(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map())).expect(201).json
    body = {**made, "metadata": {**made["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z"}}
    updated = (await api.put(f"{ns}/configmaps/a", body)).expect(200).json
    assert updated["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


async def test_an_update_of_a_missing_object_is_not_found(api: API, ns: str) -> None:
    (await api.put(f"{ns}/configmaps/a", config_map())).expect(404)


async def test_an_update_creates_a_lease(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/coordination.k8s.io/v1")
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    (await api.put(f"{path}/leases/l", body)).expect(201)


async def test_a_merge_patch_sets_and_removes(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map(keep="1", drop="2"))
    patched = (await api.patch(f"{ns}/configmaps/a", {"data": {"drop": None, "new": "3"}})).expect(200).json
    assert patched["data"] == {"keep": "1", "new": "3"}


async def test_a_json_patch_is_all_or_nothing(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map(k="1"))
    patch = [{"op": "add", "path": "/data/x", "value": "2"}, {"op": "remove", "path": "/data/nope"}]
    (await api.patch(f"{ns}/configmaps/a", patch, "json")).expect(422)
    assert (await api.get(f"{ns}/configmaps/a")).json["data"] == {"k": "1"}


async def test_a_strategic_patch_merges_containers_by_name(api: API, ns: str) -> None:
    await api.post(f"{ns}/pods", pod("p", [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]))
    patch = {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}
    patched = (await api.patch(f"{ns}/pods/p", patch, "strategic")).expect(200).json
    assert [each["image"] for each in patched["spec"]["containers"]] == ["a:1", "b:2"]


async def test_a_strategic_patch_deletes_by_directive(api: API, ns: str) -> None:
    body = config_map()
    body["metadata"] = {"name": "a", "labels": {"x": "1", "y": "2"}}
    await api.post(f"{ns}/configmaps", body)
    patch = {"metadata": {"labels": {"$patch": "replace", "z": "3"}}}
    patched = (await api.patch(f"{ns}/configmaps/a", patch, "strategic")).expect(200).json
    assert patched["metadata"]["labels"] == {"z": "3"}


async def test_a_patch_with_a_stale_resource_version_is_a_conflict(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map())).expect(201).json
    await api.patch(f"{ns}/configmaps/a", {"data": {"k": "v"}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "w"}}
    (await api.patch(f"{ns}/configmaps/a", stale)).expect(409)


async def test_concurrent_patches_are_all_kept(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map())
    patches = (api.patch(f"{ns}/configmaps/a", {"data": {f"k{n}": str(n)}}) for n in range(20))
    assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
    assert len((await api.get(f"{ns}/configmaps/a")).json["data"]) == 20


async def test_a_delete_is_answered_with_a_status(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map())).expect(201).json
    answer = (await api.delete(f"{ns}/configmaps/a")).expect(200)
    assert answer.json["status"] == "Success"
    assert answer.json["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    (await api.get(f"{ns}/configmaps/a")).expect(404)


async def test_a_delete_with_another_uid_is_a_conflict(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map())
    answer = (await api.delete(f"{ns}/configmaps/a", {"preconditions": {"uid": "5"}})).expect(409)
    assert "the UID in the precondition (5) does not match the UID in record" in answer.message
    (await api.get(f"{ns}/configmaps/a")).expect(200)


async def test_a_finalizer_keeps_an_object_until_it_is_removed(api: API, ns: str) -> None:
    body = config_map()
    body["metadata"] = {"name": "a", "finalizers": ["example.com/hold"]}
    await api.post(f"{ns}/configmaps", body)
    held = (await api.delete(f"{ns}/configmaps/a")).expect(200).json
    assert held["kind"] == "ConfigMap"
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["deletionTimestamp"]
    (await api.patch(f"{ns}/configmaps/a", {"metadata": {"finalizers": None}})).expect(200)
    (await api.get(f"{ns}/configmaps/a")).expect(404)


async def test_no_finalizer_can_be_added_during_deletion(api: API, ns: str) -> None:
    body = config_map()
    body["metadata"] = {"name": "a", "finalizers": ["example.com/hold"]}
    await api.post(f"{ns}/configmaps", body)
    await api.delete(f"{ns}/configmaps/a")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    answer = (await api.patch(f"{ns}/configmaps/a", more)).expect(422)
    assert "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted" in (
        answer.message
    )
    await api.patch(f"{ns}/configmaps/a", {"metadata": {"finalizers": None}})


async def test_a_collection_is_deleted_by_selector(api: API, ns: str) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        body = config_map(name)
        body["metadata"] = {"name": name, "labels": {"app": app}}
        await api.post(f"{ns}/configmaps", body)
    answer = (await api.delete(f"{ns}/configmaps?labelSelector=app%3Dx")).expect(200).json
    assert answer["kind"] == "ConfigMapList"
    assert [each["metadata"]["name"] for each in answer["items"]] == ["a", "b"]
    left = (await api.get(f"{ns}/configmaps")).json["items"]
    assert "c" in [each["metadata"]["name"] for each in left]
    assert "a" not in [each["metadata"]["name"] for each in left]


async def test_yaml_is_accepted_and_returned(api: API, ns: str) -> None:
    body = b"metadata:\n  name: a\ndata:\n  k: 'on'\n"
    answer = await api.post(f"{ns}/configmaps", body, content_type="application/yaml", accept="application/yaml")
    answer.expect(201)
    assert answer.headers["content-type"] == "application/yaml"
    assert b'k: "on"' in answer.body


async def test_managed_fields_record_the_managers_of_fields(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps?fieldManager=me", config_map(k="v"))).expect(201).json
    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("me", "Update", "v1")
    assert (entry["fieldsType"], entry["fieldsV1"]) == ("FieldsV1", {"f:data": {".": {}, "f:k": {}}})


async def test_the_user_agent_names_the_manager_of_a_plain_write(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map(a="1"), user_agent="tool/v1 (linux)")
    made = (await api.patch(f"{ns}/configmaps/a", {"data": {"k": "v"}})).expect(200).json
    assert {entry["manager"] for entry in made["metadata"]["managedFields"]} == {"tool", "conformance"}


async def test_generation_rises_with_the_spec_alone(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    made = (await api.post(f"{path}/deployments", deployment("d", replicas=0))).expect(201).json
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}
    labelled = await api.patch(f"{path}/deployments/d", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.json["metadata"]["generation"] == 1
    status = await api.patch(f"{path}/deployments/d/status", {"status": {"replicas": 7}})
    assert status.json["metadata"]["generation"] == 1
    scaled = await api.patch(f"{path}/deployments/d", {"spec": {"paused": True}})
    assert scaled.json["metadata"]["generation"] == 2


async def test_status_and_spec_are_written_separately(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    await api.post(f"{path}/deployments", deployment("d", replicas=0, paused=True))
    await api.patch(f"{path}/deployments/d", {"status": {"collisionCount": 7}})
    assert "collisionCount" not in (await api.get(f"{path}/deployments/d")).json["status"]
    body = {"spec": {"minReadySeconds": 7}, "status": {"collisionCount": 7}}
    await api.patch(f"{path}/deployments/d/status", body)
    found = (await api.get(f"{path}/deployments/d")).json
    assert found["status"]["collisionCount"] == 7
    assert "minReadySeconds" not in found["spec"]


async def test_the_status_of_a_pod_is_written_without_its_deletion_time_and_owners(api: API, ns: str) -> None:
    spec = {"containers": [{"name": "c", "image": "nginx:1"}], "schedulerName": "none"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
    written = (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})).expect(201).json
    times = {"deletionTimestamp": "2026-01-31T12:00:00Z", "ownerReferences": [owner]}
    written["metadata"] |= {**times, "labels": {"kept": "yes"}}
    written["status"]["phase"] = "Running"
    answer = (await api.put(f"{ns}/pods/p/status", written)).expect(200).json
    assert (answer["status"]["phase"], answer["metadata"]["labels"]) == ("Running", {"kept": "yes"})
    patched = (await api.patch(f"{ns}/pods/p/status", {"metadata": times, "status": {"reason": "x"}})).expect(200).json
    assert patched["status"]["reason"] == "x"
    assert not times.keys() & {*answer["metadata"], *patched["metadata"]}


async def test_the_status_of_newer_kinds_is_written_without_labels(api: API, ns: str) -> None:
    name = ns.rpartition("/")[2]
    groups = ns.replace("/api/v1", "/apis/resource.k8s.io/v1")
    attachment = {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    objects: dict[str, dict[str, Any]] = {
        f"{groups}/resourceclaims": {},
        "/apis/storage.k8s.io/v1/volumeattachments": attachment,
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "resources": ["y"],
                                                    "operations": ["CREATE"]}]},
            "validations": [{"expression": "true"}],
        },
    }  # fmt: skip
    for path, spec in objects.items():
        body = {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec}
        (await api.post(path, body)).expect(201)
        change = {"metadata": {"labels": {"a": "c"}, "annotations": {"d": "e"}, "finalizers": ["example.com/f"]}}
        metadata = (await api.patch(f"{path}/{name}/status", change)).expect(200).json["metadata"]
        assert metadata["labels"] == {"a": "b"}
        assert not {"annotations", "finalizers"} & metadata.keys()
        (await api.delete(f"{path}/{name}")).expect(200)


async def test_the_scale_subresource_reads_and_sets_replicas(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    await api.post(f"{path}/deployments", deployment("d", replicas=0, paused=True))
    scale = (await api.get(f"{path}/deployments/d/scale")).expect(200).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {})
    assert scale["status"]["selector"] == "app=d"
    scale["spec"]["replicas"] = 2
    del scale["metadata"]["resourceVersion"]
    (await api.put(f"{path}/deployments/d/scale", scale)).expect(200)
    assert (await api.get(f"{path}/deployments/d")).json["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"replicas": -1}, "spec.replicas", "must be greater than or equal to 0"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels", "does not match template"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds", "must be greater than or equal to 0"),
    ],
)
async def test_an_invalid_deployment_names_the_field(
    api: API, ns: str, spec: dict[str, Any], field: str, text: str
) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    body = deployment("d")
    body["spec"].update(spec)
    answer = (await api.post(f"{path}/deployments", body)).expect(422)
    assert any(cause[1] == field and text in cause[2] for cause in answer.causes), answer.causes


async def test_a_deployments_selector_is_immutable(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    await api.post(f"{path}/deployments", deployment("d", replicas=0))
    body = deployment("d", replicas=0)
    body["spec"]["selector"] = {"matchLabels": {"app": "d", "more": "x"}}
    body["spec"]["template"]["metadata"]["labels"]["more"] = "x"
    answer = (await api.put(f"{path}/deployments/d", body)).expect(422)
    assert answer.causes[0][:2] == ("FieldValueInvalid", "spec.selector")
    assert "field is immutable" in answer.message


async def test_a_wrong_type_in_a_body_is_a_bad_request(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    body = deployment("d")
    body["spec"]["replicas"] = "three"
    answer = (await api.post(f"{path}/deployments", body)).expect(400)
    assert answer.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct '
        "field DeploymentSpec.spec.replicas of type int32"
    )


async def test_a_pod_gets_the_defaults_of_its_kind(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/pods", pod("p", [{"name": "a", "image": "nginx"}]))).expect(201).json
    spec, [container] = made["spec"], made["spec"]["containers"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == ("Always", "/dev/termination-log")
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"
    assert made["metadata"]["generation"] == 1


async def test_only_the_image_of_a_running_container_can_change(api: API, ns: str) -> None:
    await api.post(f"{ns}/pods", pod("p", [{"name": "a", "image": "nginx:1"}]))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:2"}]
    (await api.patch(f"{ns}/pods/p", image, "json")).expect(200)
    command = [{"op": "add", "path": "/spec/containers/0/command", "value": ["sh"]}]
    answer = (await api.patch(f"{ns}/pods/p", command, "json")).expect(422)
    assert "pod updates may not change fields other than" in answer.message


async def test_a_node_port_is_allocated_once(api: API, ns: str) -> None:
    first = (await api.post(f"{ns}/services", node_port_service("a", 30999))).expect(201).json
    range_of_services = (await api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")).expect(200).json
    assert ip_address(first["spec"]["clusterIP"]) in ip_network(range_of_services["spec"]["cidrs"][0])
    assert first["spec"]["ports"][0]["targetPort"] == 80
    answer = (await api.post(f"{ns}/services", node_port_service("b", 30999))).expect(422)
    assert answer.message == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30999: provided port is already allocated'
    )
    again = (await api.post(f"{ns}/services", node_port_service("a", 30999))).expect(422)
    assert "provided port is already allocated" in again.message  # checked before the name
    anywhere = node_port_service("a", 30998)
    anywhere["spec"]["clusterIP"] = first["spec"]["clusterIP"]
    same_address = (await api.post(f"{ns}/services", anywhere)).expect(422)
    assert "provided IP is already allocated" in same_address.message
    await api.delete(f"{ns}/services/a")
    (await api.post(f"{ns}/services", node_port_service("b", 30999))).expect(201)
    await api.delete(f"{ns}/services/b")


async def test_a_node_port_out_of_range_is_invalid(api: API, ns: str) -> None:
    answer = (await api.post(f"{ns}/services", node_port_service("a", 80))).expect(422)
    assert "provided port is not in the valid range. The range of valid ports is 30000-32767" in answer.message


async def test_a_secret_converts_string_data_to_base64(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})).expect(201).json
    assert (made["data"], made["type"]) == ({"k": "dg=="}, "Opaque")
    assert "stringData" not in made


async def test_an_immutable_config_map_cannot_change(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {**config_map(k="v"), "immutable": True})
    answer = (await api.patch(f"{ns}/configmaps/a", {"data": {"k": "w"}})).expect(422)
    assert "field is immutable when `immutable` is set" in answer.message


def pod(name: str, containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": containers, "nodeName": "", "schedulerName": ""}} | (
        {"kind": "Pod", "apiVersion": "v1"}
    )


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def node_port_service(name: str, port: int) -> dict[str, Any]:
    ports = [{"port": 80, "nodePort": port}]
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "selector": {"app": "x"}, "ports": ports}}
