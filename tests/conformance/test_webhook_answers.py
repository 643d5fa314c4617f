"""Answers of admission webhooks: denials, warnings, failures, and patches."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from conformance.hooks import ALLOWED, Hooks, Object, Reply, add, cause, config_map, deployment, patched, rule
from conformance.rawapi import API
from kubewright.http.message import Response

MAPS = rule("configmaps")


DENIALS: list[tuple[Object, int, str, str]] = [
    ({}, 400, "", " without explanation"),
    ({"message": "no", "code": 418, "reason": "Teapot"}, 418, "Teapot", ": no"),
    ({"reason": "Conflict", "code": 200, "status": "Success"}, 400, "Conflict", ": Conflict"),
]


@pytest.mark.parametrize(("status", "code", "reason", "why"), DENIALS)
async def test_a_denial_is_the_status_of_the_webhook(
    api: API, ns: str, hooks: Hooks, status: Object, code: int, reason: str, why: str
) -> None:
    details = {"name": "n", "causes": [{"reason": "r", "message": "m", "field": "f"}]}
    hooks.on("/v", {"allowed": False, "status": {**status, "details": details}, "warnings": ["mind this"]})
    await hooks.validate(hooks.webhook("/v", MAPS))
    answer = (await api.post(f"{ns}/configmaps", config_map())).expect(code)
    assert answer.message == f'admission webhook "v.hooks.example.com" denied the request{why}'
    assert (answer.json["status"], answer.reason or "") == ("Failure", reason)
    assert answer.json["details"] == details
    assert answer.headers["warning"] == '299 - "mind this"'
    (await api.get(f"{ns}/configmaps/a")).expect(404)


async def test_all_validating_webhooks_are_asked_and_one_denial_is_answered(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/denies", {"allowed": False, "status": {"message": "no"}})
    await hooks.validate(hooks.webhook("/allows", MAPS), hooks.webhook("/denies", MAPS), hooks.webhook("/also", MAPS))
    answer = (await api.post(f"{ns}/configmaps", config_map())).expect(400)
    assert "denies.hooks.example.com" in answer.message
    assert {each.path for each in hooks.calls} == {"/allows", "/denies", "/also"}


async def test_warnings_are_passed_on_once(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/one", {**ALLOWED, "warnings": ["first", 'second "quoted"', "first", "not\nthis"]})
    hooks.on("/two", {**ALLOWED, "warnings": ["first"]})
    await hooks.mutate(hooks.webhook("/one", MAPS), hooks.webhook("/two", MAPS))
    answer = (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    assert answer.headers["warning"] == '299 - "first", 299 - "second \\"quoted\\""'


async def test_warnings_are_cut_if_there_are_too_many(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/v", {**ALLOWED, "warnings": ["a" * 300, "b" * 3000, "c" * 3000, "d"]})
    await hooks.validate(hooks.webhook("/v", MAPS))
    answer = (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    cut = [letter * 256 for letter in "abc"]
    assert answer.headers["warning"] == ", ".join(f'299 - "{each}"' for each in (*cut, "d"))


BUSY = {"kind": "Status", "apiVersion": "v1", "message": "busy", "status": "Failure"}
BROKEN: list[tuple[str, Reply, str]] = [
    (
        "absent",
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
        "received invalid webhook response: webhook response was absent",
    ),
    (
        "wrong-uid",
        {"uid": "x", "allowed": True},
        'received invalid webhook response: expected response.uid="UID", got "x"',
    ),
    (
        "patch",
        {"allowed": True, "patch": "W10="},
        "received invalid webhook response: validating webhook may not return response.patch",
    ),
    (
        "patch-type",
        {"allowed": True, "patchType": "JSONPatch"},
        "received invalid webhook response: validating webhook may not return response.patchType",
    ),
    (
        "wrong-kind",
        b'{"kind":"Foo","apiVersion":"v1"}',
        'failed to call webhook: no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    (
        "other-version",
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}',
        "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    (
        "wrong-type",
        {"allowed": "yes"},
        "failed to call webhook: json: cannot unmarshal string into Go struct field "
        "AdmissionResponse.response.allowed of type bool",
    ),
    (
        "empty",
        b"",
        "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
    ),
    (
        "not-found",
        Response(404, {"content-type": "text/plain"}, b"nope"),
        "failed to call webhook: the server could not find the requested resource",
    ),
    (
        "error",
        Response(500, {"content-type": "text/plain"}, b'say "no"'),
        'failed to call webhook: an error on the server ("say \\"no\\"") has prevented the request from succeeding',
    ),
    ("forbidden", Response(403, {"content-type": "text/plain"}, b"not you"), "failed to call webhook: not you"),
    (
        "status",
        Response(503, {"content-type": "application/json"}, json.dumps(BUSY).encode()),
        "failed to call webhook: busy",
    ),
]  # fmt: skip


async def test_a_broken_answer_follows_the_failure_policy(api: API, ns: str, hooks: Hooks) -> None:
    webhooks: list[Object] = []
    for name, reply, _ in BROKEN:
        hooks.on(f"/{name}", reply)
        select = {"matchLabels": {"case": name}}
        webhooks.append(hooks.webhook(f"/{name}", MAPS, objectSelector=select, failurePolicy="Fail"))
        ignored = {**select["matchLabels"], "case": f"{name}-ignored"}
        webhooks.append(
            hooks.webhook(
                f"/{name}",
                MAPS,
                name=f"{name}-ignored.hooks.example.com",
                objectSelector={"matchLabels": ignored},
                failurePolicy="Ignore",
            )
        )
    await hooks.validate(*webhooks)
    for name, _, text in BROKEN:
        answer = (await api.post(f"{ns}/configmaps", config_map(name, {"case": name}))).expect(500)
        (call,) = hooks.called(f"/{name}")
        expected = f'failed calling webhook "{name}.hooks.example.com": {text}'.replace("UID", call["uid"])
        assert answer.message == f"Internal error occurred: {expected}"
        assert (answer.reason, answer.causes) == ("InternalError", [("", "", expected)])
        (await api.post(f"{ns}/configmaps", config_map(name, {"case": f"{name}-ignored"}))).expect(201)


async def test_a_webhook_that_cannot_be_reached_follows_the_failure_policy(api: API, ns: str, hooks: Hooks) -> None:
    nowhere = {"url": "https://127.0.0.1:1/x"}
    untrusted = {"url": hooks.client("/v")["url"]}
    missing = {"service": {"name": "nope", "namespace": hooks.namespace}}
    named = {"closed": nowhere, "untrusted": untrusted, "missing": missing}
    webhooks = [
        hooks.webhook(f"/{name}", MAPS, clientConfig=config, objectSelector={"matchLabels": {"case": name}})
        for name, config in named.items()
    ]
    webhooks += [
        hooks.webhook("/ignored", MAPS, clientConfig=nowhere, failurePolicy="Ignore"),
    ]
    await hooks.validate(*webhooks)
    texts = {"closed": "connection refused", "untrusted": "signed by unknown authority", "missing": 'service "nope"'}
    for name, text in texts.items():
        answer = (await api.post(f"{ns}/configmaps", config_map(name, {"case": name}))).expect(500)
        assert cause(answer).startswith('failed to call webhook: Post "https://')
        assert text in answer.message
    (await api.post(f"{ns}/configmaps", config_map("ignored"))).expect(201)


async def test_the_certificate_of_a_webhook_may_be_its_own_bundle(api: API, ns: str, hooks: Hooks) -> None:
    own = base64.b64encode(hooks.certificate.certificate).decode()
    await hooks.validate(hooks.webhook("/v", MAPS, clientConfig={**hooks.client("/v"), "caBundle": own}))
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    assert len(hooks.called("/v")) == 1


async def test_the_path_of_a_webhook_is_cleaned(api: API, ns: str, hooks: Hooks) -> None:
    paths = {"//double": "/double", "/end/": "/end", "/x/../dots": "/dots", "/a%20b": "/a%20b", "": "/"}
    await hooks.validate(
        *(
            hooks.webhook(f"/{number}", MAPS, clientConfig=hooks.client(path))
            for number, path in enumerate(paths)
        )
    )  # fmt: skip
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    assert sorted(each.path for each in hooks.calls) == sorted(paths.values())


async def test_a_redirect_that_repeats_the_review_is_followed(api: API, ns: str, hooks: Hooks) -> None:
    origin = hooks.client("")["url"]
    locations = {"relative": "/to?a=b", "whole": f"{origin}/to?a=b", "loop": "/loop"}
    for name, location in locations.items():
        hooks.on(f"/{name}", Response(307 if name == "relative" else 308, {"location": location}))
    hooks.on("/nowhere", Response(307, {}))
    names = (*locations, "nowhere")
    await hooks.validate(
        *(hooks.webhook(f"/{name}", MAPS, objectSelector={"matchLabels": {"case": name}}) for name in names)
    )
    for name in ("relative", "whole"):
        (await api.post(f"{ns}/configmaps", config_map(name, {"case": name}))).expect(201)
        assert (hooks.calls[-1].path, hooks.calls[-1].query) == ("/to", "a=b")
        assert hooks.calls[-1].request["name"] == name
    looped = (await api.post(f"{ns}/configmaps", config_map("loop", {"case": "loop"}))).expect(500)
    assert cause(looped) == 'failed to call webhook: Post "/loop": stopped after 10 redirects'
    assert len(hooks.called("/loop")) == 10
    lost = (await api.post(f"{ns}/configmaps", config_map("nowhere", {"case": "nowhere"}))).expect(500)
    assert "the server responded with the status code 307 but did not return more information" in lost.message


# Patches


async def test_a_patch_is_defaulted_and_unknown_fields_are_dropped(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on(
        "/m",
        patched(
            add("/bogus", 1),
            add("/spec/ports/-", {"name": "more", "port": 81}),
            add("/metadata/annotations", {"patched": "yes"}),
        ),
    )
    await hooks.mutate(hooks.webhook("/m", rule("services")))
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "first", "port": 80}]}}
    made = (await api.post(f"{ns}/services", service)).expect(201).json
    assert "bogus" not in made
    assert made["metadata"]["annotations"] == {"patched": "yes"}
    assert made["spec"]["ports"][1] == {"name": "more", "port": 81, "targetPort": 81, "protocol": "TCP"}


BAD_PATCHES: list[tuple[str, Object, int, str]] = [
    (
        "missing",
        patched({"op": "replace", "path": "/nope/x", "value": "y"}),
        500,
        "Internal error occurred: replace operation does not apply: doc is missing path: /nope/x: missing value",
    ),
    (
        "test",
        patched({"op": "test", "path": "/metadata/name", "value": "y"}),
        500,
        "Internal error occurred: testing value /metadata/name failed: test failed",
    ),
    (
        "wrong-type",
        patched(add("/data/x", 5)),
        500,
        "Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    (
        "no-type",
        {"allowed": True, "patch": "W10="},
        500,
        'Internal error occurred: failed calling webhook "no-type.hooks.example.com": received invalid webhook '
        "response: webhook returned response.patch but not response.patchType",
    ),
    (
        "no-patch",
        {"allowed": True, "patchType": "JSONPatch"},
        500,
        'Internal error occurred: failed calling webhook "no-patch.hooks.example.com": received invalid webhook '
        "response: webhook returned response.patchType but not response.patch",
    ),
    (
        "other-type",
        {**patched(add("/data/x", "y")), "patchType": "Merge"},
        500,
        'Internal error occurred: failed calling webhook "other-type.hooks.example.com": '
        'unsupported patch type "Merge"',
    ),
    (
        "no-list",
        {"allowed": True, "patchType": "JSONPatch", "patch": "e30="},
        500,
        'Internal error occurred: failed calling webhook "no-list.hooks.example.com": received undecodable patch in '
        "webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
    ),
    (
        "namespace",
        patched(add("/metadata/namespace", "default")),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
]


async def test_a_patch_that_does_not_apply_is_an_error(api: API, ns: str, hooks: Hooks) -> None:
    for name, reply, _, _ in BAD_PATCHES:
        hooks.on(f"/{name}", reply)
    select = [{"matchLabels": {"case": name}} for name, *_ in BAD_PATCHES]
    await hooks.mutate(
        *(
            hooks.webhook(f"/{name}", MAPS, objectSelector=selector)
            for (name, *_), selector in zip(BAD_PATCHES, select, strict=True)
        )
    )
    for name, _, code, text in BAD_PATCHES:
        answer = (await api.post(f"{ns}/configmaps", config_map(name, {"case": name}, k="v"))).expect(code)
        assert answer.message == text


async def test_the_metadata_of_an_update_cannot_be_changed(api: API, ns: str, hooks: Hooks) -> None:
    changes = {"name": "other", "uid": "other", "namespace": "default"}
    for field, value in changes.items():
        hooks.on(f"/{field}", patched(add(f"/metadata/{field}", value)))
        (await api.post(f"{ns}/configmaps", config_map(field, {"case": field}))).expect(201)
    await hooks.mutate(
        *(hooks.webhook(f"/{each}", MAPS, objectSelector={"matchLabels": {"case": each}}) for each in changes)
    )
    for field, code in (("name", 422), ("uid", 422), ("namespace", 400)):
        answer = (await api.patch(f"{ns}/configmaps/{field}", {"data": {"k": "v"}})).expect(code)
        if code == 422:
            assert (
                "FieldValueInvalid",
                f"metadata.{field}",
                'Invalid value: "other": field is immutable',
            ) in answer.causes


async def test_the_patched_object_is_validated(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/m", patched(add("/data/not a key", "v")))
    await hooks.mutate(hooks.webhook("/m", MAPS))
    answer = (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(422)
    assert answer.causes[0][1] == "data[not a key]"


async def test_a_delete_cannot_be_patched(api: API, ns: str, hooks: Hooks) -> None:
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    hooks.on("/m", patched(add("/data", {})))
    await hooks.mutate(hooks.webhook("/m", rule("configmaps", operations=("DELETE",))))
    answer = (await api.delete(f"{ns}/configmaps/a")).expect(500)
    assert answer.message == (
        'Internal error occurred: admission webhook "m.hooks.example.com" attempted to modify the object, '
        "which is not supported for this operation"
    )


async def test_a_status_that_a_webhook_sets_on_create_is_dropped(api: API, ns: str, hooks: Hooks) -> None:
    deployments = ns.replace("/api/v1", "/apis/apps/v1") + "/deployments"
    hooks.on("/m", patched(add("/status", {"replicas": 9}), add("/spec/replicas", 2)))
    await hooks.mutate(hooks.webhook("/m", rule("deployments", group="apps", operations=("CREATE",))))
    made = (await api.post(deployments, deployment("d"))).expect(201).json
    assert made["spec"]["replicas"] == 2
    assert "replicas" not in made["status"]


async def test_broken_managed_fields_of_a_webhook_are_restored(api: API, ns: str, hooks: Hooks) -> None:
    broken = {
        "empty": ({"manager": "x"}, "operation must be `Apply` or `Update`"),
        "version": ({"operation": "Update", "manager": "x"}, "apiVersion must not be empty"),
        "type": ({"operation": "Apply", "apiVersion": "v1"}, "missing fieldsType in managed fields entry 0"),
        "other": (
            {"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"},
            'invalid fieldsType "V2" in managed fields entry 0',
        ),
    }
    for name, (entry, _) in broken.items():
        hooks.on(f"/{name}", patched(add("/metadata/managedFields", [entry])))
    hooks.on("/none", patched({"op": "remove", "path": "/metadata/managedFields"}))
    await hooks.mutate(
        *(hooks.webhook(f"/{name}", MAPS, objectSelector={"matchLabels": {"case": name}}) for name in (*broken, "none"))
    )
    for name, (_, fault) in broken.items():
        answer = (await api.post(f"{ns}/configmaps?fieldManager=me", config_map(name, {"case": name}))).expect(201)
        (entry,) = answer.json["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("me", "Update")
        assert answer.headers["warning"] == (
            '299 - ".metadata.managedFields was in an invalid state after admission; this could be caused by an '
            f'outdated mutating admission controller; please fix your requests: {fault}"'
        ).replace('"V2"', '\\"V2\\"')
    removed = (await api.post(f"{ns}/configmaps", config_map("none", {"case": "none"}))).expect(201)
    assert "managedFields" not in removed.json["metadata"]
    assert "warning" not in removed.headers


async def test_duplicate_owners_are_dropped_before_and_after_webhooks(api: API, ns: str, hooks: Hooks) -> None:
    uid = (await api.post(f"{ns}/configmaps", config_map("o"))).expect(201).json["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}
    other = {**owner, "blockOwnerDeletion": True}
    warning = (
        '299 - ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, '
        'and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: UID"'
    ).replace('UID"', f'{uid}"')
    twice = config_map("twice")
    twice["metadata"]["ownerReferences"] = [owner, owner, other]
    made = (await api.post(f"{ns}/configmaps", twice)).expect(201)
    assert made.json["metadata"]["ownerReferences"] == [owner, other]
    assert made.headers["warning"] == warning.format("")
    put = (await api.put(f"{ns}/configmaps/twice", twice)).expect(200)
    assert put.headers["warning"] == warning.format("")
    hooks.on("/m", patched(add("/metadata/ownerReferences", [owner, owner])))
    await hooks.mutate(hooks.webhook("/m", MAPS))
    for answer in (
        (await api.post(f"{ns}/configmaps", config_map("new"))).expect(201),
        (await api.patch(f"{ns}/configmaps/twice", {"data": {"k": "v"}})).expect(200),
    ):
        assert answer.json["metadata"]["ownerReferences"] == [owner]
        assert answer.headers["warning"] == warning.format(" after mutating admission happens")


async def test_what_a_patch_of_a_webhook_may_not_replace(api: API, ns: str, hooks: Hooks) -> None:
    cases: dict[str, tuple[Object, int, str]] = {
        "version": (add("/metadata/resourceVersion", "7"), 500, "resourceVersion should not be set on objects"),
        "metadata": (add("/metadata", []), 500, "Internal error occurred: json: cannot unmarshal array into Go"),
        "root": ({"op": "replace", "path": "", "value": []}, 500, "Internal error occurred: "),
        "code": ({"op": "move", "from": "", "path": "/x"}, 500, "Internal error occurred: "),
    }  # fmt: skip
    for name, (operation, _, _) in cases.items():
        hooks.on(f"/{name}", patched(operation))
    fixed = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    hooks.on("/fixed", patched(*(add(f"/metadata/{field}", value) for field, value in fixed.items())))
    await hooks.mutate(
        *(hooks.webhook(f"/{name}", MAPS, objectSelector={"matchLabels": {"case": name}}) for name in (*cases, "fixed"))
    )
    for name, (_, code, text) in cases.items():
        answer = (await api.post(f"{ns}/configmaps", config_map(name, {"case": name}))).expect(code)
        assert answer.message.startswith(text), answer.message
    made = (await api.post(f"{ns}/configmaps", config_map("fixed", {"case": "fixed"}))).expect(201).json["metadata"]
    assert {field: value for field, value in fixed.items() if made.get(field) == value} == {}


CODES: list[tuple[Any, int]] = [(399, 400), (-5, 400), (599, 599), (999, 999)]


async def test_the_code_of_a_denial_is_a_status_code(api: API, ns: str, hooks: Hooks) -> None:
    for given, _ in CODES:
        hooks.on(f"/{given}", {"allowed": False, "status": {"code": given}})
    hooks.on("/huge", {"allowed": False, "status": {"code": 2**31}})
    await hooks.validate(
        *(
            hooks.webhook(
                f"/{name}",
                MAPS,
                name=f"x{name}.hooks.example.com",
                objectSelector={"matchLabels": {"case": f"x{name}x"}},
            )
            for name in (*(given for given, _ in CODES), "huge")
        )
    )
    for given, code in CODES:
        (await api.post(f"{ns}/configmaps", config_map("a", {"case": f"x{given}x"}))).expect(code)
    answer = (await api.post(f"{ns}/configmaps", config_map("a", {"case": "xhugex"}))).expect(500)
    assert cause(answer) == (
        "failed to call webhook: json: cannot unmarshal number 2147483648 into Go struct field "
        "Status.response.status.code of type int32"
    )


# A webhook that writes itself


async def test_an_update_is_tried_again_if_the_object_changes_while_a_webhook_is_asked(
    api: API, ns: str, hooks: Hooks
) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201).json
    await hooks.validate(hooks.webhook("/v", MAPS))
    path, calls = f"{ns}/configmaps/a", hooks.calls

    async def interfere() -> None:
        (await api.patch(path, {"data": {"other": "yes"}})).expect(200)

    async with hooks.before_answer("/v", interfere, times=1):
        changed = (await api.patch(path, {"data": {"k": "w"}})).expect(200).json
    assert changed["data"] == {"k": "w", "other": "yes"}
    assert len(calls) == 3
    calls.clear()
    async with hooks.before_answer("/v", interfere, times=1):
        stale = config_map(k="x")
        stale["metadata"]["resourceVersion"] = changed["metadata"]["resourceVersion"]
        (await api.patch(path, {"data": {"other": None}})).expect(200)
        (await api.put(path, stale)).expect(409)
    assert made["metadata"]["uid"] == changed["metadata"]["uid"]
