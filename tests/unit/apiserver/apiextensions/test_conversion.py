"""Conversion webhooks: objects in every version, whatever version they are stored in.

A Host has `spec.address` ("example.com:80") in v1, and `spec.host` and `spec.port` in v2, which may also have a `note`.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kubewright.http.message import Request, Response
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API, MERGE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/hosts.example.com"
V1, V2 = ("/apis/example.com/v1/namespaces/default/hosts", "/apis/example.com/v2/namespaces/default/hosts")
APPLY = "application/apply-patch+yaml"
PREFIX = "conversion webhook for example.com/v1, Kind=Host "
NOTE = "example.com/note"

POLICIES = "/apis/admissionregistration.k8s.io/v1"

Document = dict[str, Any]


class Hook:
    """A conversion webhook in this process. Tests change its answers."""

    def __init__(self) -> None:
        self.calls: list[Document] = []
        self.answer: Callable[[Document], Any] = convert_review
        self.status = 200

    async def handle(self, request: Request) -> Response:
        review = json.loads(request.body)
        self.calls.append(review)
        answer = self.answer(review)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Response(self.status, {"content-type": "application/json"}, body)

    def wanted(self) -> list[tuple[str, list[str]]]:
        """Return what was asked for: the wanted version, and the names of the objects."""
        return [
            (call["request"]["desiredAPIVersion"], [each["metadata"]["name"] for each in call["request"]["objects"]])
            for call in self.calls
        ]


def convert_review(review: Document) -> Document:
    request = review["request"]
    converted = [convert(each, request["desiredAPIVersion"]) for each in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
    return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}


def convert(obj: Document, version: str) -> Document:
    spec, annotations = obj["spec"], dict(obj["metadata"].get("annotations") or {})
    if version == "example.com/v1":
        new: Document = {"address": f"{spec['host']}:{spec['port']}"}
        if spec.get("note"):
            annotations[NOTE] = spec["note"]
    else:
        host, _, port = spec["address"].partition(":")
        new = {"host": host, "port": int(port)}
        if NOTE in annotations:
            new["note"] = annotations.pop(NOTE)
    metadata = {**obj["metadata"], "annotations": annotations}
    return {**obj, "apiVersion": version, "metadata": metadata, "spec": new}


def failing(**response: Any) -> Callable[[Document], Document]:
    """Return an answer to every review with other fields in its response."""

    def answer(review: Document) -> Document:
        good = convert_review(review)
        return {**good, "response": {**good["response"], **response}}

    return answer


def changing(**fields: Any) -> Callable[[Document], Document]:
    """Return an answer whose objects have other fields."""

    def answer(review: Document) -> Document:
        good = convert_review(review)
        good["response"]["convertedObjects"] = [{**each, **fields} for each in good["response"]["convertedObjects"]]
        return good

    return answer


def version(name: str, storage: str, **fields: str) -> Document:
    properties: Document = {field: {"type": kind} for field, kind in fields.items()}
    spec: Document = {"type": "object", "properties": properties}
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "name": name,
        "served": True,
        "storage": name == storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def definition(storage: str = "v2", **conversion: Any) -> Document:
    webhook = {"clientConfig": {"url": "https://hooks.test/convert"}, "conversionReviewVersions": ["v1"]}
    return {
        "metadata": {"name": "hosts.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "hosts", "kind": "Host"},
            "conversion": conversion or {"strategy": "Webhook", "webhook": webhook},
            "versions": [
                version("v1", storage, address="string"),
                version("v2", storage, host="string", port="integer", note="string"),
            ],
        },
    }


def host(name: str, **spec: object) -> Document:
    version = "v1" if "address" in spec else "v2"
    return {"apiVersion": f"example.com/{version}", "kind": "Host", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def api(clock: VirtualClock, hook: Hook) -> AsyncIterator[API]:
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, webhooks={"hooks.test": hook.handle})
    server = APIServer(options)
    await server.start()
    api = API(server, clock)
    await api.ok("POST", DEFINITIONS, definition())
    yield api
    await server.close()


async def test_an_object_is_read_in_each_version(api: API) -> None:
    created = await api.ok("POST", V1, host("a", address="example.com:80"))
    assert (created["apiVersion"], created["spec"]) == ("example.com/v1", {"address": "example.com:80"})
    newer = await api.ok("GET", f"{V2}/a")
    assert (newer["apiVersion"], newer["spec"]) == ("example.com/v2", {"host": "example.com", "port": 80})
    older = await api.ok("GET", f"{V1}/a")
    assert older["spec"] == created["spec"]
    assert older["metadata"] == {**created["metadata"], "managedFields": older["metadata"]["managedFields"]}


async def test_an_object_in_the_stored_version_is_not_sent_to_the_webhook(api: API, hook: Hook) -> None:
    await api.ok("POST", V2, host("a", host="example.com", port=80))
    await api.ok("GET", f"{V2}/a")
    await api.ok("PATCH", f"{V2}/a", {"spec": {"port": 81}}, content_type=MERGE)
    await api.ok("DELETE", f"{V2}/a")
    assert hook.calls == []


async def test_a_field_that_a_version_lacks_survives_in_an_annotation(api: API) -> None:
    await api.ok("POST", V2, host("a", host="example.com", port=80, note="kept"))
    older = await api.ok("GET", f"{V1}/a")
    assert older["metadata"]["annotations"] == {NOTE: "kept"}
    await api.ok("PATCH", f"{V1}/a", {"spec": {"address": "example.org:81"}}, content_type=MERGE)
    newer = await api.ok("GET", f"{V2}/a")
    assert newer["spec"] == {"host": "example.org", "port": 81, "note": "kept"}
    assert "annotations" not in newer["metadata"]


async def test_a_list_is_converted_with_one_call(api: API, hook: Hook) -> None:
    for name in "abc":
        await api.ok("POST", V2, host(name, host=name, port=1))
    listed = await api.ok("GET", V1)
    assert [each["spec"]["address"] for each in listed["items"]] == ["a:1", "b:1", "c:1"]
    assert hook.wanted() == [("example.com/v1", ["a", "b", "c"])]


async def test_a_large_list_is_converted_with_several_calls(api: API, hook: Hook) -> None:
    long = "x" * 1_000_000
    for name in "abcdefghi":
        await api.ok("POST", V2, host(name, host=name + long, port=1))
    listed = await api.ok("GET", V1)
    assert [each["spec"]["address"][0] for each in listed["items"]] == list("abcdefghi")
    assert [names for _, names in hook.wanted()] == [list("abcd"), list("efgh"), ["i"]]


async def test_a_watch_shows_each_event_in_its_own_version(api: API) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    watches = [await api.watch(f"{path}?watch=true") for path in (V1, V2)]
    await api.ok("POST", V1, host("b", address="b:2"))
    await api.ok("DELETE", f"{V2}/a")
    older, newer = [[await watch.next() for _ in range(3)] for watch in watches]
    assert [(type, obj["spec"]) for type, obj in older] == [
        ("ADDED", {"address": "a:1"}),
        ("ADDED", {"address": "b:2"}),
        ("DELETED", {"address": "a:1"}),
    ]
    assert [(type, obj["spec"]) for type, obj in newer] == [
        ("ADDED", {"host": "a", "port": 1}),
        ("ADDED", {"host": "b", "port": 2}),
        ("DELETED", {"host": "a", "port": 1}),
    ]
    for watch in watches:
        await watch.close()


async def test_watches_of_one_version_share_a_call(api: API, hook: Hook) -> None:
    watches = [await api.watch(f"{V1}?watch=true&resourceVersion=0") for _ in range(5)]
    waiting = [asyncio.ensure_future(watch.next()) for watch in watches]
    await asyncio.sleep(1)
    await api.ok("POST", V2, host("a", host="a", port=1))
    events = await asyncio.gather(*waiting)
    assert [obj["spec"] for _, obj in events] == [{"address": "a:1"}] * 5
    assert hook.wanted() == [("example.com/v1", ["a"])]
    for watch in watches:
        await watch.close()


async def test_a_failed_conversion_ends_a_watch_with_its_error(api: API, hook: Hook) -> None:
    watch = await api.watch(f"{V1}?watch=true&resourceVersion=0")
    hook.answer = failing(result={"status": "Failure", "message": "no such host"})
    await api.ok("POST", V2, host("a", host="a", port=1))
    type, status = await watch.next()
    assert (type, status["code"]) == ("ERROR", 500)
    assert status["message"] == "conversion webhook for example.com/v2, Kind=Host failed: no such host"
    with pytest.raises(StopAsyncIteration):
        await watch.next()


async def test_a_conversion_that_fails_after_its_client_has_left_is_not_logged(
    api: API, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        await api.ok("POST", V2, host(name, host="a", port=1))
    asked, go_on = asyncio.Event(), asyncio.Event()
    hook.status = 500
    handle = hook.handle

    async def slow(request: Request) -> Response:
        asked.set()
        await go_on.wait()
        return await handle(request)

    api.server.options.webhooks["hooks.test"] = slow  # type: ignore[index]
    reading = asyncio.ensure_future(api.ok("GET", f"{V1}/a"))
    await asked.wait()
    reading.cancel()
    await asyncio.wait([reading])
    go_on.set()
    for _ in range(2):
        await api.rejected(500, "GET", f"{V1}/b")
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_status_is_written_in_either_version(api: API) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    written = await api.ok("PATCH", f"{V1}/a/status", {"status": {"ready": True}}, content_type=MERGE)
    assert (written["spec"], written["status"]) == ({"address": "a:1"}, {"ready": True})
    assert (await api.ok("GET", f"{V2}/a"))["status"] == {"ready": True}


async def test_server_side_apply_works_in_each_version(api: API) -> None:
    config = host("a", address="a:1")
    await api.ok("PATCH", f"{V1}/a?fieldManager=ann", config, content_type=APPLY)
    config["spec"]["address"] = "a:2"
    applied = await api.ok("PATCH", f"{V1}/a?fieldManager=ann", config, content_type=APPLY)
    assert applied["spec"] == {"address": "a:2"}
    assert (await api.ok("GET", f"{V2}/a"))["spec"] == {"host": "a", "port": 2}


async def test_objects_stay_readable_after_the_storage_version_changes(api: API) -> None:
    await api.ok("POST", V2, host("old", host="old", port=1))
    await api.ok("PATCH", DEFINITION, {"spec": {"versions": definition("v1")["spec"]["versions"]}}, content_type=MERGE)
    await api.ok("POST", V2, host("new", host="new", port=2))
    for path, specs in (
        (V1, [{"address": "new:2"}, {"address": "old:1"}]),
        (V2, [{"host": "new", "port": 2}, {"host": "old", "port": 1}]),
    ):
        assert [each["spec"] for each in (await api.ok("GET", path))["items"]] == specs
    crd = await api.ok("GET", DEFINITION)
    assert crd["status"]["storedVersions"] == ["v2", "v1"]


async def test_an_update_without_a_change_stores_an_object_in_the_new_storage_version(api: API, hook: Hook) -> None:
    created = await api.ok("POST", V2, host("a", host="a", port=1))
    await api.ok("PATCH", DEFINITION, {"spec": {"versions": definition("v1")["spec"]["versions"]}}, content_type=MERGE)
    migrated = await api.ok("PUT", f"{V2}/a", await api.ok("GET", f"{V2}/a"))
    assert migrated["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    again = await api.ok("PUT", f"{V2}/a", await api.ok("GET", f"{V2}/a"))
    assert again["metadata"]["resourceVersion"] == migrated["metadata"]["resourceVersion"]
    hook.calls.clear()
    await api.ok("GET", f"{V1}/a")
    assert hook.calls == []


async def test_a_write_is_repeated_if_the_object_changed_while_the_webhook_was_asked(api: API, hook: Hook) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    asked, go_on = asyncio.Event(), asyncio.Event()
    handle = hook.handle

    async def slow(request: Request) -> Response:
        asked.set()
        await go_on.wait()
        return await handle(request)

    api.server.options.webhooks["hooks.test"] = slow  # type: ignore[index]
    writing = asyncio.ensure_future(
        api.ok("PATCH", f"{V1}/a", {"metadata": {"labels": {"x": "1"}}}, content_type=MERGE)
    )
    await asked.wait()
    await api.ok("PATCH", f"{V2}/a", {"spec": {"port": 2}}, content_type=MERGE)
    go_on.set()
    assert (await writing)["spec"] == {"address": "a:2"}
    final = await api.ok("GET", f"{V2}/a")
    assert (final["spec"]["port"], final["metadata"]["labels"]) == (2, {"x": "1"})


async def test_an_object_is_deleted_through_either_version(api: API) -> None:
    for name in ("a", "b"):
        await api.ok("POST", V2, {**host(name, host="a", port=1)})
    await api.ok("DELETE", f"{V1}/a")
    await api.ok("DELETE", V1)
    assert (await api.ok("GET", V2))["items"] == []


async def test_a_finalizer_keeps_an_object_that_is_deleted_through_another_version(api: API) -> None:
    kept = host("a", host="a", port=1)
    kept["metadata"]["finalizers"] = ["example.com/keep"]
    await api.ok("POST", V2, kept)
    marked = await api.ok("DELETE", f"{V1}/a")
    assert (marked["spec"], "deletionTimestamp" in marked["metadata"]) == ({"address": "a:1"}, True)
    await api.ok("PATCH", f"{V1}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await api.rejected(404, "GET", f"{V2}/a")


async def test_a_definition_can_be_deleted_while_its_webhook_is_dead(api: API, hook: Hook) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    await api.ok("PATCH", DEFINITION, {"spec": {"versions": definition("v1")["spec"]["versions"]}}, content_type=MERGE)
    hook.status = 500
    await api.ok("DELETE", DEFINITION)
    await api.rejected(404, "GET", DEFINITION)


async def test_unknown_fields_in_an_answer_are_pruned(api: API, hook: Hook) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    hook.answer = changing(spec={"address": "a:1", "unknown": 1}, extra=2)
    assert (await api.ok("GET", f"{V1}/a"))["spec"] == {"address": "a:1"}


async def test_only_labels_and_annotations_of_an_answer_count(api: API, hook: Hook) -> None:
    created = await api.ok("POST", V2, host("a", host="a", port=1))

    def answer(review: Document) -> Document:
        good = convert_review(review)
        for each in good["response"]["convertedObjects"]:
            each["metadata"] |= {"labels": {"x": "1"}, "finalizers": ["example.com/x"], "resourceVersion": "1"}
        return good

    hook.answer = answer
    metadata = (await api.ok("GET", f"{V1}/a"))["metadata"]
    assert metadata["labels"] == {"x": "1"}
    assert "finalizers" not in metadata
    assert metadata["resourceVersion"] == created["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: b"", "failed: 0-length response with status code: 200 and content type: application/json"),
        (lambda _: {"kind": "ConversionReview"}, "failed: no response provided"),
        (failing(uid="other"), 'failed: expected response.uid="'),
        (failing(result={"status": "Failure"}), "failed: response.result.status was 'Failure', not 'Success'"),
        (failing(result={}), "failed: response.result.status was '', not 'Success'"),
        (failing(result={"status": "Failure", "message": "too old"}), "failed: too old"),
        (failing(convertedObjects=[]), "returned 0 objects, expected 1"),
        (
            changing(apiVersion="example.com/v2"),
            "returned invalid object at index 0: invalid groupVersion "
            "(expected example.com/v1, received example.com/v2)",
        ),
        (
            changing(kind="Guest"),
            "returned invalid object at index 0: invalid kind (expected Host, received Guest)",
        ),
        (changing(metadata=None), "returned invalid metadata: missing metadata in converted object"),
        (changing(metadata={"name": "b"}), "returned invalid object: must have the same name: a != b"),
    ],
)
async def test_a_broken_answer_fails_the_request(
    api: API, hook: Hook, answer: Callable[[Document], Any], why: str
) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))
    hook.answer = answer
    status = await api.rejected(500, "GET", f"{V1}/a")
    assert status["message"].startswith(f"conversion webhook for example.com/v2, Kind=Host {why}")


async def test_a_webhook_that_answers_with_an_error_fails_the_request(api: API, hook: Hook) -> None:
    hook.status, hook.answer = 500, lambda _: b"broken"
    status = await api.rejected(500, "POST", V1, host("a", address="a:1"))
    assert status["message"] == (
        f'{PREFIX}failed: an error on the server ("broken") has prevented the request from succeeding'
    )
    assert (await api.ok("GET", V2))["items"] == []


RULE = {"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["hosts"]}


async def enforce(api: API, kind: str, **spec: Any) -> None:
    """Store a policy for v2, and a binding."""
    policy = {"metadata": {"name": kind}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    await api.ok("POST", f"{POLICIES}/{kind}admissionpolicies", policy)
    bound: Document = {"policyName": kind} | ({"validationActions": ["Deny"]} if kind == "validating" else {})
    await api.ok("POST", f"{POLICIES}/{kind}admissionpolicybindings", {"metadata": {"name": kind}, "spec": bound})


async def test_policies_see_the_version_that_they_match(api: API) -> None:
    await enforce(api, "validating", validations=[{"expression": "object.spec.port != 13 && oldObject == null"}])
    await api.ok("POST", V1, host("a", address="a:1"))
    for document in (host("b", address="b:13"), host("b", host="b", port=13)):
        await api.rejected(422, "POST", V1 if "address" in document["spec"] else V2, document)
    await api.rejected(422, "PATCH", f"{V1}/a", {"spec": {"address": "a:2"}}, content_type=MERGE)


async def test_policies_change_the_version_that_they_match(api: API) -> None:
    def sets(value: str) -> Document:
        expression = f"Object{{spec: Object.spec{{{value}}}}}"
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}

    mutations = [sets("port: object.spec.port + 1"), sets("note: 'at ' + string(object.spec.port)")]
    await enforce(api, "mutating", mutations=mutations, reinvocationPolicy="Never")
    created = await api.ok("POST", V1, host("a", address="a:1"))
    assert created["spec"] == {"address": "a:2"}
    assert (await api.ok("GET", f"{V2}/a"))["spec"] == {"host": "a", "port": 2, "note": "at 2"}


async def test_labels_must_be_strings(api: API, hook: Hook) -> None:
    await api.ok("POST", V2, host("a", host="a", port=1))

    def answer(review: Document) -> Document:
        good = convert_review(review)
        good["response"]["convertedObjects"][0]["metadata"]["labels"] = {"x": 1}
        return good

    hook.answer = answer
    status = await api.rejected(500, "GET", f"{V1}/a")
    assert status["message"].endswith(
        "returned invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object"
    )


@pytest.mark.parametrize(
    ("conversion", "faults"),
    [
        (
            {"strategy": "Webhook"},
            {
                "spec.conversion.webhookClientConfig": "Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions": "Required value",
            },
        ),
        (
            {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v2"]}},
            {
                "spec.conversion.webhookClientConfig": "Required value: exactly one of url or service is required",
                "spec.conversion.conversionReviewVersions": (
                    'Invalid value: ["v2"]: must include at least one of v1, v1beta1'
                ),
            },
        ),
        (
            {
                "strategy": "None",
                "webhook": {"clientConfig": {"url": "https://a.b/"}, "conversionReviewVersions": ["v1"]},
            },
            {
                f"spec.conversion.{field}": "Forbidden: should not be set when strategy is not set to Webhook"
                for field in ("webhookClientConfig", "conversionReviewVersions")
            },
        ),
    ],
)
async def test_an_invalid_conversion_is_refused(api: API, conversion: Document, faults: dict[str, str]) -> None:
    await api.ok("DELETE", DEFINITION)
    refused = await api.rejected(422, "POST", DEFINITIONS, definition(**conversion))
    assert {each["field"]: each["message"] for each in refused["details"]["causes"]} == faults
