"""Conversion webhooks: one kind in two versions with different fields.

A Host has `spec.address` ("a:80") in v1, and `spec.host` and `spec.port` in v2. In v2 it may have a `note`, which v1
keeps in an annotation.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from conformance.hooks import Hooks
from conformance.rawapi import API, Answer, until

Object: TypeAlias = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
NOTE = "example.com/note"


class Hosts:
    """The kind of one test."""

    def __init__(self, api: API, hooks: Hooks, ns: str) -> None:
        self.api = api
        self.hooks = hooks
        self.group = f"g{secrets.token_hex(4)}.example.com"
        self.definition = f"{CRDS}/hosts.{self.group}"
        self.namespace = ns.rpartition("/")[2]

    def path(self, version: str, name: str = "", query: str = "") -> str:
        path = f"/apis/{self.group}/{version}/namespaces/{self.namespace}/hosts"
        return f"{path}/{name}{query}" if name else f"{path}{query}"

    def host(self, name: str, **spec: object) -> Object:
        version = "v1" if "address" in spec else "v2"
        return {"apiVersion": f"{self.group}/{version}", "kind": "Host", "metadata": {"name": name}, "spec": spec}

    async def create(self, name: str, **spec: object) -> Object:
        obj = self.host(name, **spec)
        version = obj["apiVersion"].rpartition("/")[2]
        created: Object = (await self.api.post(self.path(version), obj)).expect(201).json
        return created

    def answer(self, reply: Callable[[Object], Any]) -> None:
        """Let the webhook answer otherwise; `reply` gets the request of a review."""
        self.hooks.on("/convert", reply)

    def convert(self, request: Object) -> Object:
        converted = [self.convert_object(each, request["desiredAPIVersion"]) for each in request["objects"]]
        return {"convertedObjects": converted, "result": {"status": "Success"}}

    def convert_object(self, obj: Object, version: str) -> Object:
        spec, annotations = obj.get("spec") or {}, dict(obj["metadata"].get("annotations") or {})
        new: Object = {}
        if version.endswith("/v1"):
            new = {"address": f"{spec.get('host', '')}:{spec.get('port', 0)}"}
            if spec.get("note"):
                annotations[NOTE] = spec["note"]
        else:
            host, _, port = spec.get("address", "").partition(":")
            new = {"host": host, "port": int(port or 0)}
            if NOTE in annotations:
                new["note"] = annotations.pop(NOTE)
        return {**obj, "apiVersion": version, "metadata": {**obj["metadata"], "annotations": annotations}, "spec": new}

    async def store_in(self, version: str) -> None:
        """Change the storage version, and wait until the server uses it."""
        (await self.api.patch(self.definition, {"spec": {"versions": versions(version)}})).expect(200)

        async def is_used() -> bool:
            probe = f"probe-{secrets.token_hex(4)}"
            await self.create(probe, **({"address": "p:1"} if version == "v1" else {"host": "p", "port": 1}))
            await self.api.get(self.path(version, probe))
            (await self.api.delete(self.path(version, probe))).expect(200)
            wanted = f"{self.group}/{version}"
            converted = [each for each in self.hooks.called("/convert") if each["desiredAPIVersion"] == wanted]
            return not any(obj["metadata"]["name"] == probe for each in converted for obj in each["objects"])

        await until(is_used)


def versions(storage: str) -> list[Object]:
    def version(name: str, **fields: str) -> Object:
        spec = {"type": "object", "properties": {field: {"type": kind} for field, kind in fields.items()}}
        status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
        schema = {"type": "object", "properties": {"spec": spec, "status": status}}
        return {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }

    return [version("v1", address="string"), version("v2", host="string", port="integer", note="string")]


@pytest_asyncio.fixture
async def hosts(api: API, ns: str) -> AsyncIterator[Hosts]:
    hooks = Hooks(api, ns.rpartition("/")[2])
    await hooks.start()
    hosts = Hosts(api, hooks, ns)
    hosts.answer(hosts.convert)
    webhook = {"clientConfig": hooks.client("/convert"), "conversionReviewVersions": ["v1"]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"hosts.{hosts.group}"},
        "spec": {
            "group": hosts.group,
            "scope": "Namespaced",
            "names": {"plural": "hosts", "kind": "Host"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": versions("v2"),
        },
    }
    (await api.post(CRDS, definition)).expect(201)

    async def is_served() -> bool:
        return all([(await api.get(hosts.path(version))).status == 200 for version in ("v1", "v2")])

    await until(is_served)
    hooks.calls.clear()
    yield hosts
    hosts.answer(hosts.convert)
    await api.delete(hosts.definition)
    await until(lambda: _is_gone(api, hosts.definition))
    await hooks.close()


async def _is_gone(api: API, path: str) -> bool:
    return (await api.get(path)).status == 404


async def test_an_object_is_read_and_written_in_each_version(hosts: Hosts) -> None:
    created = await hosts.create("a", address="a:80")
    assert created["spec"] == {"address": "a:80"}
    newer = (await hosts.api.get(hosts.path("v2", "a"))).expect(200).json
    assert (newer["apiVersion"], newer["spec"]) == (f"{hosts.group}/v2", {"host": "a", "port": 80})
    (await hosts.api.patch(hosts.path("v2", "a"), {"spec": {"port": 81, "note": "kept"}})).expect(200)
    patched = (await hosts.api.patch(hosts.path("v1", "a"), {"spec": {"address": "b:81"}})).expect(200).json
    assert (patched["spec"], patched["metadata"]["annotations"]) == ({"address": "b:81"}, {NOTE: "kept"})
    newer = (await hosts.api.get(hosts.path("v2", "a"))).json
    assert newer["spec"] == {"host": "b", "port": 81, "note": "kept"}
    assert "annotations" not in newer["metadata"]


async def test_lists_and_watches_show_their_version(hosts: Hosts) -> None:
    await hosts.create("a", host="a", port=1)
    await hosts.create("b", address="b:2")
    listed = (await hosts.api.get(hosts.path("v1"))).expect(200).json
    assert [each["spec"] for each in listed["items"]] == [{"address": "a:1"}, {"address": "b:2"}]
    stream = await hosts.api.watch(hosts.path("v1", query="?watch=true&resourceVersion=0"))
    first = sorted([(await stream.next())["object"]["spec"]["address"] for _ in range(2)])
    assert first == ["a:1", "b:2"]
    (await hosts.api.patch(hosts.path("v2", "a"), {"spec": {"port": 9}})).expect(200)
    event = await stream.next()
    assert (event["type"], event["object"]["spec"]) == ("MODIFIED", {"address": "a:9"})


async def test_status_is_written_in_either_version(hosts: Hosts) -> None:
    await hosts.create("a", host="a", port=1)
    written = (await hosts.api.patch(hosts.path("v1", "a/status"), {"status": {"ready": True}})).expect(200).json
    assert (written["spec"], written["status"]) == ({"address": "a:1"}, {"ready": True})
    assert (await hosts.api.get(hosts.path("v2", "a"))).json["status"] == {"ready": True}


async def test_objects_keep_the_version_of_their_last_write_when_the_strategy_changes(hosts: Hosts) -> None:
    webhook = (await hosts.api.get(hosts.definition)).expect(200).json["spec"]["conversion"]
    await hosts.store_in("v1")
    await hosts.create("a", address="a:80")
    before = (await hosts.create("b", address="b:80"))["metadata"]["resourceVersion"]
    by_name = {"conversion": {"strategy": "None", "webhook": None}, "versions": versions("v2")}
    (await hosts.api.patch(hosts.definition, {"spec": by_name})).expect(200)

    async def specs(expected: Object) -> bool:
        items = (await hosts.api.get(hosts.path("v2"))).expect(200).json["items"]
        return {each["metadata"]["name"]: each["spec"] for each in items} == expected

    await until(lambda: specs({"a": {}, "b": {}}))

    async def is_written_in_v2() -> bool:
        unchanged = (await hosts.api.patch(hosts.path("v2", "b"), {})).expect(200).json
        return unchanged["metadata"]["resourceVersion"] != before

    await until(is_written_in_v2)
    (await hosts.api.patch(hosts.definition, {"spec": {"conversion": webhook}})).expect(200)
    await until(lambda: specs({"a": {"host": "a", "port": 80}, "b": {}}))


async def test_an_apply_in_another_version_removes_labels_that_it_no_longer_has(hosts: Hosts) -> None:
    older = hosts.host("a", address="a:1")
    older["metadata"]["labels"] = {"x": "y"}
    (await hosts.api.patch(hosts.path("v1", "a", "?fieldManager=m"), older, "apply")).expect(201)
    newer = hosts.host("a", host="a", port=1)
    applied = (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=m"), newer, "apply")).expect(200).json
    assert "labels" not in applied["metadata"]
    assert applied["spec"] == {"host": "a", "port": 1}


async def test_managers_own_fields_in_their_versions(hosts: Hosts) -> None:
    older = hosts.host("a", address="a:1")
    target = hosts.path("v1", "a", "?fieldManager=ann")
    (await hosts.api.patch(target, older, "apply")).expect(201)
    newer = {**hosts.host("a", port=2), "apiVersion": f"{hosts.group}/v2"}
    refused = (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=bob"), newer, "apply")).expect(409)
    assert refused.causes == [("FieldManagerConflict", ".spec.address", 'conflict with "ann"')]
    forced = hosts.path("v2", "a", "?fieldManager=bob&force=true")
    (await hosts.api.patch(forced, newer, "apply")).expect(200)
    managed = (await hosts.api.get(hosts.path("v2", "a"))).json["metadata"]["managedFields"]
    assert [(each["manager"], each["apiVersion"], each["fieldsV1"]) for each in managed] == [
        ("bob", f"{hosts.group}/v2", {"f:spec": {"f:port": {}}})
    ]


async def test_an_applier_that_changes_versions_gives_up_the_fields_that_it_no_longer_applies(hosts: Hosts) -> None:
    first = hosts.path("v2", "a", "?fieldManager=ann")
    (await hosts.api.patch(first, hosts.host("a", host="a", port=1, note="old"), "apply")).expect(201)
    (await hosts.api.patch(hosts.path("v1", "a", "?fieldManager=ann"), hosts.host("a", address="a:1"), "apply")).expect(
        200
    )
    assert (await hosts.api.get(hosts.path("v2", "a"))).json["spec"] == {"host": "a", "port": 1}
    managed = (await hosts.api.get(hosts.path("v2", "a"))).json["metadata"]["managedFields"]
    assert [(each["manager"], each["apiVersion"], each["fieldsV1"]) for each in managed] == [
        ("ann", f"{hosts.group}/v1", {"f:spec": {"f:address": {}}})
    ]


async def test_an_applier_that_changes_versions_leaves_the_fields_of_other_managers(hosts: Hosts) -> None:
    note = hosts.host("a", host="a", port=1, note="ours")
    (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=ann"), note, "apply")).expect(201)
    shared = {**hosts.host("a", note="ours"), "apiVersion": f"{hosts.group}/v2"}
    (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=bob"), shared, "apply")).expect(200)
    (await hosts.api.patch(hosts.path("v1", "a", "?fieldManager=ann"), hosts.host("a", address="a:2"), "apply")).expect(
        200
    )
    assert (await hosts.api.get(hosts.path("v2", "a"))).json["spec"] == {"host": "a", "port": 2, "note": "ours"}


async def test_an_applier_leaves_fields_that_others_own_in_another_version(hosts: Hosts) -> None:
    (
        await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=ann"), hosts.host("a", host="a", port=1), "apply")
    ).expect(201)
    (await hosts.api.patch(hosts.path("v1", "a", "?fieldManager=bob"), hosts.host("a", address="a:1"), "apply")).expect(
        200
    )
    less = {**hosts.host("a", host="a"), "apiVersion": f"{hosts.group}/v2"}
    (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=ann"), less, "apply")).expect(200)
    assert (await hosts.api.get(hosts.path("v1", "a"))).json["spec"] == {"address": "a:1"}


async def test_an_update_takes_fields_from_managers_of_other_versions(hosts: Hosts) -> None:
    (await hosts.api.patch(hosts.path("v1", "a", "?fieldManager=ann"), hosts.host("a", address="a:1"), "apply")).expect(
        201
    )
    (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=bob"), {"spec": {"port": 2}})).expect(200)
    managed = (await hosts.api.get(hosts.path("v1", "a"))).json["metadata"]["managedFields"]
    assert [(each["manager"], each["operation"], each["apiVersion"], each["fieldsV1"]) for each in managed] == [
        ("bob", "Update", f"{hosts.group}/v2", {"f:spec": {"f:port": {}}})
    ]


async def test_an_apply_sends_incomplete_objects_to_the_webhook(hosts: Hosts) -> None:
    (await hosts.api.post(hosts.path("v1", query="?fieldManager=bob"), hosts.host("a", address="a:1"))).expect(201)
    for note in ("first", "second"):
        config = hosts.host("a", note=note)
        (await hosts.api.patch(hosts.path("v2", "a", "?fieldManager=ann"), config, "apply")).expect(200)
    sent = [obj for each in hosts.hooks.called("/convert") for obj in each["objects"]]
    newer = [obj.get("spec", {}) for obj in sent if obj["apiVersion"].endswith("/v2")]
    assert any("host" not in each for each in newer)


async def test_a_policy_sees_the_version_that_it_matches(hosts: Hosts) -> None:
    rule = {"apiGroups": [hosts.group], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["hosts"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.port != 13", "message": "an unlucky port"}],
    }
    name = hosts.group
    (
        await hosts.api.post(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    ).expect(201)
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    (await hosts.api.post(f"{POLICIES}/validatingadmissionpolicybindings", bound)).expect(201)

    async def is_refused() -> bool:
        unlucky = hosts.host(f"h{secrets.token_hex(4)}", address="a:13")
        answer = await hosts.api.post(hosts.path("v1"), unlucky)
        return answer.status == 422 and "an unlucky port" in answer.json["message"]

    try:
        await until(is_refused)
        await hosts.create("lucky", address="a:14")
    finally:
        await hosts.api.delete(f"{POLICIES}/validatingadmissionpolicybindings/{name}")
        await hosts.api.delete(f"{POLICIES}/validatingadmissionpolicies/{name}")


async def test_objects_stay_readable_when_the_storage_version_changes(hosts: Hosts) -> None:
    await hosts.create("a", host="a", port=1)
    await hosts.store_in("v1")
    (await hosts.api.get(hosts.path("v2", "a"))).expect(200)
    assert (await hosts.api.get(hosts.path("v1", "a"))).json["spec"] == {"address": "a:1"}
    definition = (await hosts.api.get(hosts.definition)).json
    assert definition["status"]["storedVersions"] == ["v2", "v1"]


async def test_an_update_without_a_change_stores_an_object_in_the_new_storage_version(hosts: Hosts) -> None:
    created = await hosts.create("a", host="a", port=1)
    await hosts.store_in("v1")
    read = (await hosts.api.get(hosts.path("v2", "a"))).json
    migrated = (await hosts.api.put(hosts.path("v2", "a"), read)).expect(200).json
    assert migrated["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    again = (await hosts.api.put(hosts.path("v2", "a"), migrated)).expect(200).json
    assert again["metadata"]["resourceVersion"] == migrated["metadata"]["resourceVersion"]


def _changed(hosts: Hosts, **fields: Any) -> Callable[[Object], Object]:
    def reply(request: Object) -> Object:
        good = hosts.convert(request)
        return {**good, "convertedObjects": [{**each, **fields} for each in good["convertedObjects"]]}

    return reply


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"uid": "other"}, 'failed: expected response.uid="<uid>", got "other"'),
        ({"result": {"status": "Failure"}}, "failed: response.result.status was 'Failure', not 'Success'"),
        ({"result": {"status": "Failure", "message": "too old"}}, "failed: too old"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        (b'{"kind": "ConversionReview"}', None),
        (b"nothing", None),
    ],
)
async def test_a_broken_answer_fails_the_request(hosts: Hosts, reply: Any, why: str | None) -> None:
    await hosts.create("a", host="a", port=1)
    hosts.answer(lambda request: reply if isinstance(reply, bytes) else {**hosts.convert(request), **reply})
    answer = (await hosts.api.post(hosts.path("v1"), hosts.host("b", address="b:1"))).expect(500)
    prefix = f"conversion webhook for {hosts.group}/v1, Kind=Host "
    assert answer.message.startswith(prefix)
    if why is not None:
        assert _without_uid(hosts, answer) == prefix + why


def _without_uid(hosts: Hosts, answer: Answer) -> str:
    message = answer.message
    for request in hosts.hooks.called("/convert"):
        message = message.replace(request["uid"], "<uid>")
    return message


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"apiVersion": "example.com/v9"},
            "returned invalid object at index 0: invalid groupVersion (expected <group>/v2, received example.com/v9)",
        ),
        (
            {"kind": "Guest"},
            "returned invalid object at index 0: invalid kind (expected Host, received Guest)",
        ),
        ({"metadata": {"name": "other"}}, "returned invalid object: must have the same name: b != other"),
    ],
)
async def test_a_webhook_cannot_change_what_an_object_is(hosts: Hosts, fields: Object, why: str) -> None:
    hosts.answer(_changed(hosts, **fields))
    answer = (await hosts.api.post(hosts.path("v1"), hosts.host("b", address="b:1"))).expect(500)
    prefix = f"conversion webhook for {hosts.group}/v1, Kind=Host "
    assert answer.message == prefix + why.replace("<group>", hosts.group)


async def test_only_labels_and_annotations_of_an_answer_count(hosts: Hosts) -> None:
    await hosts.create("a", host="a", port=1)

    def reply(request: Object) -> Object:
        good = hosts.convert(request)
        for each in good["convertedObjects"]:
            each["metadata"] |= {"labels": {"x": "1"}, "finalizers": ["example.com/x"], "generation": 99}
            each["spec"]["unknown"] = 1
        return good

    await hosts.api.get(hosts.path("v1", "a"))
    hosts.answer(reply)
    (await hosts.api.patch(hosts.path("v2", "a"), {"spec": {"port": 2}})).expect(200)
    read = (await hosts.api.get(hosts.path("v1", "a"))).expect(200).json
    assert (read["metadata"]["labels"], read["metadata"]["generation"]) == ({"x": "1"}, 2)
    assert "finalizers" not in read["metadata"]
    assert read["spec"] == {"address": "a:2"}


@pytest.mark.parametrize(
    ("conversion", "faults"),
    [
        (
            {"strategy": "Webhook"},
            [
                ("FieldValueRequired", "spec.conversion.webhookClientConfig"),
                ("FieldValueRequired", "spec.conversion.conversionReviewVersions"),
            ],
        ),
        (
            {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v9", "v9"]}},
            [
                ("FieldValueRequired", "spec.conversion.webhookClientConfig"),
                ("FieldValueInvalid", "spec.conversion.conversionReviewVersions[1]"),
                ("FieldValueInvalid", "spec.conversion.conversionReviewVersions"),
            ],
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v1"]},
            },
            [("FieldValueInvalid", "spec.conversion.webhookClientConfig.url")],
        ),
        (
            {
                "strategy": "None",
                "webhook": {"clientConfig": {"url": "https://a.b"}, "conversionReviewVersions": ["v1"]},
            },
            [
                ("FieldValueForbidden", "spec.conversion.webhookClientConfig"),
                ("FieldValueForbidden", "spec.conversion.conversionReviewVersions"),
            ],
        ),
        ({"strategy": "Other"}, [("FieldValueNotSupported", "spec.conversion.strategy")]),
    ],
)
async def test_an_invalid_conversion_is_refused(
    hosts: Hosts, conversion: Object, faults: list[tuple[str, str]]
) -> None:
    definition = (await hosts.api.get(hosts.definition)).json
    definition["spec"]["conversion"] = conversion
    answer = (await hosts.api.put(hosts.definition, definition)).expect(422)
    assert [(reason, field) for reason, field, _ in answer.causes] == faults
