"""Requests with values of wrong types and encodings: each is answered like any other mistake, never by a panic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.rawapi import API

APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def found(value: Any) -> str:
    """Return Go's name of a JSON type."""
    return {list: "array", dict: "object", bool: "bool"}.get(type(value), "number")


@pytest.mark.parametrize("wrong", [[], {}, 5, True], ids=repr)
async def test_kinds_and_versions_of_a_wrong_type_are_rejected(api: API, ns: str, wrong: Any) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    for key in ("apiVersion", "kind"):
        why = (
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {found(wrong)} into Go struct field .{key} of type string"
        )
        document = json.dumps({"apiVersion": "v1", "kind": "ConfigMap"} | {key: wrong}).encode()
        expected = f"the object provided is unrecognized (must be of type ConfigMap): {why} ("
        answer = (await api.send("POST", f"{ns}/configmaps", document)).expect(400)
        assert answer.message.startswith(expected)
        as_yaml = await api.send("POST", f"{ns}/configmaps", document, headers={"content-type": "application/yaml"})
        assert as_yaml.expect(400).message.startswith(expected)
        patched = (await api.patch(f"{ns}/configmaps/a", {key: wrong})).expect(422)
        assert patched.message.endswith(why)


async def test_applied_json_that_is_not_yaml_does_not_fail_the_server(api: API, ns: str) -> None:
    config = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"\\ud83d\\ude00","a":"b"}}'
    answer = await api.send("PATCH", f"{ns}/configmaps/a?fieldManager=a", config, headers=APPLY)
    assert answer.status in (201, 400)


@pytest.mark.parametrize(
    ("operation", "status", "message"),
    [
        (None, 422, "the server rejected our request due to an error in our request"),
        ({"op": 5, "path": "/a"}, 400, "number into Go struct field jsonPatchOp.op of type string"),
        ({"op": "add", "path": [], "value": 1}, 400, "array into Go struct field jsonPatchOp.path of type string"),
        ({"op": "move", "path": "/a", "from": {}}, 400, "object into Go struct field jsonPatchOp.from of type string"),
    ],
    ids=repr,
)
async def test_operations_of_a_wrong_type_are_rejected(
    api: API, ns: str, operation: Any, status: int, message: str
) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    answer = (await api.patch(f"{ns}/configmaps/a", [operation], "json")).expect(status)
    prefix = "error decoding patch: json: cannot unmarshal " if status == 400 else ""
    assert answer.message == prefix + message


@pytest.mark.parametrize(
    ("metadata", "name", "why"),
    [
        ("x", "/", ".metadata: expected map, got &{x}"),
        (["x"], "/", ".metadata: expected map, got &{[x]}"),
        ({"name": 5}, "/", ".metadata.name: expected string, got &value.valueUnstructured{Value:5}"),
        (
            {"name": "a", "namespace": {"b": [None, "c", 1]}},
            "/a",
            ".metadata.namespace: expected string, got &value.valueUnstructured{Value:map[string]interface {}"
            '{"b":[]interface {}{interface {}(nil), "c", 1}}}',
        ),
    ],
    ids=repr,
)
async def test_applied_metadata_of_a_wrong_type_is_named(api: API, ns: str, metadata: Any, name: str, why: str) -> None:
    config = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()
    answer = await api.send("PATCH", f"{ns}/configmaps/a?fieldManager=a", config, headers=APPLY)
    expected = f"failed to create typed patch object ({name}; /v1, Kind=ConfigMap): {why}"
    assert answer.expect(500).message == expected


@pytest.mark.parametrize(
    ("sent", "stored"),
    [(b'"\xbf"', "\ufffd"), (b'"\\ud800x"', "\ufffdx"), (b'"\\udc00"', "\ufffd"), (b'"\\ud83d\\ude00"', "\U0001f600")],
)
async def test_texts_that_are_not_unicode_are_repaired(api: API, ns: str, sent: bytes, stored: str) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"first","a":' + sent + b"}}"
    made = (await api.send("POST", f"{ns}/configmaps", body)).expect(201)
    assert made.json["data"] == {"a": stored}
    assert made.headers["warning"] == '299 - "duplicate field \\"data.a\\""'
    patched = await api.send("PATCH", f"{ns}/configmaps/a", b'{"data":{"b":' + sent + b"}}", headers=MERGE)
    assert patched.expect(200).json["data"]["b"] == stored


async def test_names_of_fields_that_cannot_be_printed_are_escaped(api: API, ns: str) -> None:
    body = b'{"metadata":{"name":"a"},"a\\nb":1,"c\\u0000":2,"d\\u007f":3,"\\u2028":4}'
    answer = (await api.send("POST", f"{ns}/configmaps?fieldValidation=Strict", body)).expect(400)
    fields = r'unknown field "a\nb", unknown field "c\x00", unknown field "d\x7f", unknown field "\u2028"'
    assert answer.message.endswith(f"strict decoding error: {fields}")
    (await api.send("POST", f"{ns}/configmaps", body)).expect(201)


@pytest.mark.parametrize(
    ("path", "spec", "kind"),
    [
        ("/api/v1/namespaces", {}, "Namespace"),
        ("{batch}/jobs", {"template": {"spec": {"restartPolicy": "Never", "containers": []}}}, "Job.batch"),
        ("{autoscaling}/horizontalpodautoscalers", {"maxReplicas": 1}, "HorizontalPodAutoscaler.autoscaling"),
        ("{batch}/cronjobs", {"schedule": "* * * * *", "jobTemplate": {"spec": {}}}, "CronJob.batch"),
    ],
)
async def test_an_object_without_a_name_is_invalid(api: API, ns: str, path: str, spec: Any, kind: str) -> None:
    groups = {group: ns.replace("/api/v1", f"/apis/{group}/v1") for group in ("autoscaling", "batch")}
    answer = (await api.post(path.format(**groups), {"spec": spec})).expect(422)
    assert answer.message.startswith(f'{kind} "" is invalid: ')
    assert ("FieldValueRequired", "metadata.name") in [cause[:2] for cause in answer.causes]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array", "items": ["x"]}, "cannot unmarshal string into {place}.items of type v1.JSONSchemaProps"),
        (
            {"type": "array", "items": {"properties": {"b": "x"}}},
            "cannot unmarshal string into {place}.items.properties of type v1.JSONSchemaProps",
        ),
        (
            {"type": "object", "additionalProperties": {"type": 5}},
            "cannot unmarshal number into {place}.additionalProperties.type of type string",
        ),
        (
            {"type": "object", "additionalProperties": {"x-kubernetes-validations": ["x"]}},
            "cannot unmarshal string into {place}.additionalProperties.x-kubernetes-validations of type "
            "v1.ValidationRule",
        ),
        ({"type": "object", "additionalProperties": 5}, "boolean or JSON schema expected"),
        (
            {"type": "string", "dependencies": {"a": [5]}},
            "cannot unmarshal number into {place}.dependencies of type string",
        ),
    ],
)
async def test_nested_schemas_of_a_wrong_type_are_rejected(api: API, schema: Any, why: str) -> None:
    root = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    names = {"plural": "wrongs", "kind": "Wrong"}
    spec = {"group": "wrong.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    answer = (await api.post(CRDS, {"metadata": {"name": "wrongs.wrong.example.com"}, "spec": spec})).expect(400)
    place = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties"
    assert answer.message.endswith(f": {why.format(place=place)}".replace(": cannot", ": json: cannot"))


async def test_tables_have_no_protobuf_encoding_and_metadata_has_one(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})
    form = "application/vnd.kubernetes.protobuf;v=v1;g=meta.k8s.io;as="
    for path in (f"{ns}/configmaps", f"{ns}/configmaps/a"):
        answer = (await api.get(path, accept=f"{form}Table")).expect(406)
        assert answer.reason == "NotAcceptable"
    item = (await api.get(f"{ns}/configmaps/a", accept=f"{form}PartialObjectMetadata")).expect(200)
    assert item.body.startswith(b"k8s\0")
    assert b"PartialObjectMetadata" in item.body
    items = (await api.get(f"{ns}/configmaps", accept=f"{form}PartialObjectMetadataList")).expect(200)
    assert b"PartialObjectMetadataList" in items.body


@pytest.mark.parametrize("seconds", [10**11, 9 * 10**17, 2**63 - 1])
async def test_grace_periods_of_centuries_wrap_around_as_in_go(api: API, ns: str, seconds: int) -> None:
    spec = {"nodeName": "none", "containers": [{"name": "a", "image": "a"}]}
    (await api.post(f"{ns}/pods", {"metadata": {"name": "a"}, "spec": spec})).expect(201)
    deleted = (await api.delete(f"{ns}/pods/a?gracePeriodSeconds={seconds}")).expect(200).json["metadata"]
    assert deleted["deletionGracePeriodSeconds"] == seconds
    year = {10**11: "2272", 9 * 10**17: "1887"}.get(seconds, deleted["creationTimestamp"][:4])
    assert deleted["deletionTimestamp"].startswith(year)


async def test_watches_of_both_versions_of_events_have_their_own_fields(api: API, ns: str) -> None:
    modern = ns.replace("/api/v1", "/apis/events.k8s.io/v1")
    streams = [await api.watch(f"{path}/events?watch=1") for path in (ns, modern)]
    name = ns.rpartition("/")[2]
    event = {
        "metadata": {"name": "a", "namespace": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/a",
        "reportingInstance": "a",
        "action": "A",
        "reason": "A",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "a", "namespace": name},
    }
    (await api.post(f"{modern}/events", event)).expect(201)
    (core, _), (other, _) = [((await stream.next())["object"], await stream.close()) for stream in streams]
    assert core["involvedObject"]["name"] == "a"
    assert core["apiVersion"] == "v1"
    assert other["regarding"]["name"] == "a"
    assert other["apiVersion"] == "events.k8s.io/v1"


async def test_null_quantities_are_zero(api: API, ns: str) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": None}}}
    answer = await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": claim})
    why = 'spec.resources[storage]: Invalid value: "0": must be greater than zero'
    assert answer.expect(422).message == f'PersistentVolumeClaim "a" is invalid: {why}'
    claim["resources"] = {"requests": {"storage": "1"}, "limits": {"storage": None}}
    created = (await api.post(f"{ns}/persistentvolumeclaims", {"metadata": {"name": "a"}, "spec": claim})).expect(201)
    assert created.json["spec"]["resources"]["limits"] == {"storage": "0"}
    quota = {"metadata": {"name": "a"}, "spec": {"hard": {"pods": None}}}
    created = (await api.post(f"{ns}/resourcequotas?dryRun=All", quota)).expect(201)
    assert created.json["spec"]["hard"] == {"pods": "0"}
    container = {"name": "a", "image": "a", "resources": {"limits": {"memory": None}}}
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [container]}}
    created = (await api.post(f"{ns}/pods?dryRun=All", pod)).expect(201)
    assert created.json["spec"]["containers"][0]["resources"]["limits"] == {"memory": "0"}
