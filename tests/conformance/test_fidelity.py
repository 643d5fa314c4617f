"""Differences that were found by comparing the answers of two servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.rawapi import API

OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
TWICE = b'{"data": {"a": "b", "a": "c"}}'


async def send_patch(api: API, target: str, body: Any, kind: str) -> Any:
    return await api.send("PATCH", target, body, headers={"content-type": f"application/{kind}+json"})


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_named_path_without_a_namespace_is_not_found(api: API, method: str) -> None:
    body = {"metadata": {"name": "a"}} if method == "PUT" else None
    answer = (await api.send(method, "/api/v1/configmaps/a", body)).expect(404)
    assert answer.message == "the server could not find the requested resource"


@pytest.mark.parametrize("kind", ["merge-patch", "strategic-merge-patch"])
async def test_duplicate_fields_in_a_patch_are_reported(api: API, ns: str, kind: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    target = f"{ns}/configmaps/a"
    warned = (await send_patch(api, f"{target}?fieldValidation=Warn", TWICE, kind)).expect(200)
    assert warned.headers["warning"] == '299 - "duplicate field \\"data.a\\""'
    strict = (await send_patch(api, f"{target}?fieldValidation=Strict", TWICE, kind)).expect(422)
    assert 'strict decoding error: duplicate field "data.a"' in strict.message
    silent = (await send_patch(api, f"{target}?fieldValidation=Ignore", TWICE, kind)).expect(200)
    assert "warning" not in silent.headers


@pytest.mark.parametrize("kind", ["merge-patch", "strategic-merge-patch"])
async def test_unknown_fields_in_a_patch_are_reported(api: API, ns: str, kind: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    target, bogus = f"{ns}/configmaps/a", {"bogus": {"a": "b"}}
    warned = (await send_patch(api, f"{target}?fieldValidation=Warn", bogus, kind)).expect(200)
    assert warned.headers["warning"] == '299 - "unknown field \\"bogus\\""'
    strict = (await send_patch(api, f"{target}?fieldValidation=Strict", bogus, kind)).expect(422)
    assert 'strict decoding error: unknown field "bogus"' in strict.message


async def test_an_object_that_is_too_large_is_rejected(api: API, ns: str) -> None:
    body = {"metadata": {"name": "a"}, "data": {"a": "x" * (1024 * 1024 + 1)}}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(422)
    assert answer.causes == [("FieldValueTooLong", "[]", "Too long: may not be more than 1048576 bytes")]


@pytest.mark.parametrize("accept", ["application/json", OPENAPI_V2])
async def test_openapi_v2_has_a_document(api: API, accept: str) -> None:
    answer = (await api.get("/openapi/v2", accept=accept)).expect(200)
    if accept == "application/json":
        assert json.loads(answer.body)["swagger"] == "2.0"
    else:
        assert answer.body.startswith(b"\x0a\x032.0\x12")


async def test_a_job_without_labels_gets_those_of_its_pods(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/batch/v1")
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nginx"}]}
    body = {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"spec": spec}}}
    made = (await api.post(f"{path}/jobs", body)).expect(201).json
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    assert made["metadata"]["labels"]["job-name"] == "j"


async def test_what_a_dry_run_would_create_is_shown_as_a_table(api: API, ns: str) -> None:
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    answer = await api.post(f"{ns}/configmaps?dryRun=All", {"metadata": {"name": "a"}}, accept=accept)
    assert answer.expect(201).json["rows"][0]["cells"][:2] == ["a", 0]


async def test_server_assigned_fields_have_no_owner(api: API) -> None:
    body = {"metadata": {"name": "dry"}}
    made = (await api.post("/api/v1/namespaces?dryRun=All&fieldManager=me", body)).expect(201).json
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}


async def fault_of_applying(api: API, ns: str, spec: dict[str, Any], **metadata: Any) -> str:
    """Return the error of applying a Deployment with this spec."""
    target = f"{ns.replace('/api/v1', '/apis/apps/v1')}/deployments/d?fieldManager=me"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", **metadata}, "spec": spec}
    return (await api.patch(target, body, "apply")).expect(500).message


def pods_of(*containers: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(containers)}}}


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        (
            pods_of({"name": "a", "bogus": 1}),
            '.spec.template.spec.containers[name="a"].bogus: field not declared in schema',
        ),
        (
            pods_of({"name": "a", "ports": [{"containerPort": "80"}]}),
            '.spec.template.spec.containers[name="a"].ports[containerPort="80",protocol="TCP"].containerPort: '
            "expected numeric (int or float), got string",
        ),
        (
            pods_of({"name": "a", "command": ["x", 1]}),
            '.spec.template.spec.containers[name="a"].command[1]: expected string, got '
            "&value.valueUnstructured{Value:1}",
        ),
        ({"replicas": "3"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"paused": "x"}, ".spec.paused: expected boolean, got &{x}"),
        ({"template": []}, ".spec.template: expected map, got &{[]}"),
        (
            {"template": {"spec": {"containers": {"a": 1}}}},
            ".spec.template.spec.containers: expected list, got &{map[a:1]}",
        ),
        (
            pods_of("a"),
            ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
    ],
)
async def test_fields_that_cannot_be_applied_are_reported_by_path(
    api: API, ns: str, spec: dict[str, Any], fault: str
) -> None:
    whole = f"failed to create typed patch object ({ns.rpartition('/')[2]}/d; apps/v1, Kind=Deployment): {fault}"
    assert await fault_of_applying(api, ns, spec, namespace=ns.rpartition("/")[2]) == whole


async def test_all_fields_that_cannot_be_applied_are_reported_together(api: API, ns: str) -> None:
    said = await fault_of_applying(api, ns, {"replicas": "3"}, labels={"a": 1})
    assert "errors:\n  " in said
    assert ".spec.replicas: expected numeric (int or float), got string" in said
    assert ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}" in said


async def test_a_container_that_is_applied_without_a_name_is_invalid(api: API, ns: str) -> None:
    target = f"{ns}/pods/p?fieldManager=me"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"image": "x"}]}}
    answer = (await api.patch(target, body, "apply")).expect(422)
    assert ("FieldValueRequired", "spec.containers[0].name", "Required value") in answer.causes


async def test_an_apply_of_an_existing_object_may_omit_the_name(api: API, ns: str) -> None:
    target, body = f"{ns}/configmaps/a?fieldManager=me", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}
    answer = (await api.patch(target, body, "apply")).expect(400)
    assert answer.message == "the name of the object (a based on URL) was undeterminable: name must be provided"
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    assert (await api.patch(target, body, "apply")).expect(200).json["data"] == {"k": "v"}


async def test_line_breaks_in_base64_are_ignored(api: API, ns: str) -> None:
    for value, stored in (("YWJj\nZGVm\r\n", "YWJjZGVm"), ("Y\nQ\n=\n=", "YQ=="), ("YR==", "YQ==")):
        for path, field in (("secrets", "data"), ("configmaps", "binaryData")):
            body = {"metadata": {"name": "a"}, field: {"a": value}}
            made = (await api.post(f"{ns}/{path}?dryRun=All", body)).expect(201).json
            assert made[field] == {"a": stored}
    for value, offset in (("YW Jj", 2), ("YWJ", 0), ("=", 0), ("YQ==YQ==", 4), ("YWJj=", 4), ("YQ=a", 2)):
        answer = (await api.post(f"{ns}/secrets", {"metadata": {"name": "a"}, "data": {"a": value}})).expect(400)
        assert answer.message.endswith(f"illegal base64 data at input byte {offset}")


async def test_a_strategic_merge_patch_of_a_wrong_type_is_reported_as_the_patch(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    for patch, shown, why in (
        ({"metadata": "x"}, "map[metadata:x]", "cannot restore struct from: string"),
        ({"data": []}, "map[data:[]]", "cannot restore map from slice"),
        ({"metadata": {"finalizers": "x"}}, "map[metadata:map[finalizers:x]]", "cannot restore slice from string"),
        ({"metadata": {"finalizers": [1]}}, "map[metadata:map[finalizers:[1]]]", "cannot convert int64 to string"),
    ):
        answer = (await api.patch(f"{ns}/configmaps/a", patch, "strategic")).expect(422)
        assert answer.causes == [("FieldValueInvalid", "patch", f'Invalid value: "{shown}": {why}')]
    answer = (await api.patch(f"{ns}/configmaps/a", {"metadata": "x"})).expect(422)
    assert "cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta" in answer.message


async def test_patches_that_are_not_of_their_type_are_rejected(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    target = f"{ns}/configmaps/a"
    answer = (await api.patch(target, {"data": {}}, "json")).expect(400)
    assert answer.message.endswith("cannot unmarshal object into Go value of type []handlers.jsonPatchOp")
    assert (await api.patch(target, b"{", "merge")).expect(400).message.endswith("unexpected end of JSON input")
    assert (await api.patch(target, b"null", "merge")).expect(400).message == "Invalid JSON Patch"
    answer = (await api.patch(target, b'{"a":1}x', "strategic")).expect(400)
    assert answer.message == "invalid character 'x' after top-level value"
    (await api.patch(target, b"null", "strategic")).expect(200)
    (await api.patch(target, {"kind": "Pod", "data": {"a": "b"}}, "strategic")).expect(200)


@pytest.mark.parametrize("path", ["/api", "/apis/apps/v1", "/api/v1/namespaces/default", "/api/v1/namespaces/missing"])
async def test_json_is_indented_for_people(api: API, path: str) -> None:
    compact = await api.get(path)
    assert compact.body.endswith(b"}\n")
    assert compact.body.count(b"\n") == 1
    for query, agent in (("?pretty=true", "a/1"), ("?pretty=1", "a/1"), ("", "curl/8"), ("", "Mozilla/5.0 (X11)")):
        shown = await api.get(path + query, user_agent=agent)
        assert b'\n  "kind": ' in shown.body
        assert shown.json == compact.json
    assert (await api.get(f"{path}?pretty=false", user_agent="curl/8")).body == compact.body


async def test_the_version_is_always_indented(api: API) -> None:
    assert b'\n  "gitVersion": "v1.36.1"' in (await api.get("/version")).expect(200).body
