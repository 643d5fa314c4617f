"""Errors: code, reason and message of rejected requests."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API


def config_map(name: str = "a", **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_an_object_that_is_missing_is_not_found(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/configmaps/nope")).expect(404)
    assert (answer.reason, answer.message) == ("NotFound", 'configmaps "nope" not found')
    assert answer.json["details"] == {"name": "nope", "kind": "configmaps"}


async def test_details_of_a_missing_object_name_its_group(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    answer = (await api.get(f"{path}/deployments/nope")).expect(404)
    assert answer.message == 'deployments.apps "nope" not found'
    assert answer.json["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}


async def test_a_resource_that_does_not_exist_is_not_found(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/gizmos")).expect(404)
    assert answer.message == "the server could not find the requested resource"
    assert answer.json["details"] == {}


async def test_a_missing_group_is_not_found_in_plain_text(api: API) -> None:
    answer = (await api.get("/apis/nope.example.com/v1/gizmos")).expect(404)
    assert answer.body == b"404 page not found\n"


async def test_a_second_create_is_already_exists(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    answer = (await api.post(f"{ns}/configmaps", config_map())).expect(409)
    assert (answer.reason, answer.message) == ("AlreadyExists", 'configmaps "a" already exists')


async def test_an_update_from_a_stale_read_is_a_conflict(api: API, ns: str) -> None:
    first = (await api.post(f"{ns}/configmaps", config_map())).expect(201).json
    (await api.put(f"{ns}/configmaps/a", config_map(k="v"))).expect(200)
    answer = (await api.put(f"{ns}/configmaps/a", first)).expect(409)
    assert answer.reason == "Conflict"
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_with_another_uid_is_a_conflict(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map())).expect(201).json
    other = config_map()
    other["metadata"] = {"name": "a", "uid": "5"}
    answer = (await api.put(f"{ns}/configmaps/a", other)).expect(409)
    uid = made["metadata"]["uid"]
    assert answer.message.endswith(f"Precondition failed: UID in precondition: 5, UID in object meta: {uid}")


async def test_an_object_without_a_name_is_invalid(api: API, ns: str) -> None:
    answer = (await api.post(f"{ns}/configmaps", {"metadata": {}})).expect(422)
    assert answer.message == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert answer.causes == [
        ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
    ]


async def test_a_resource_version_on_create_is_rejected(api: API, ns: str) -> None:
    body = config_map()
    body["metadata"] = {"name": "a", "resourceVersion": "1"}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(500)
    assert answer.message == "resourceVersion should not be set on objects to be created"


async def test_a_body_for_another_namespace_is_a_bad_request(api: API, ns: str) -> None:
    body = config_map()
    body["metadata"] = {"name": "a", "namespace": "elsewhere"}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(400)
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_a_body_with_another_name_is_a_bad_request(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    answer = (await api.put(f"{ns}/configmaps/a", config_map("b"))).expect(400)
    assert answer.message == "the name of the object (b) does not match the name on the URL (a)"


async def test_a_body_of_another_kind_is_a_bad_request(api: API, ns: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(400)
    assert answer.message.startswith('Secret in version "v1" cannot be handled as a ConfigMap')


async def test_strict_decoding_reports_every_unknown_and_duplicate_field(api: API, ns: str) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"bogus":1}'
    answer = (await api.post(f"{ns}/configmaps?fieldValidation=Strict", body)).expect(400)
    assert 'strict decoding error: duplicate field "data.k", unknown field "bogus"' in answer.message


async def test_unknown_fields_cause_warnings_by_default(api: API, ns: str) -> None:
    body = {"metadata": {"name": "a", "foo": "x"}}
    answer = (await api.post(f"{ns}/configmaps", body)).expect(201)
    assert answer.headers["warning"] == '299 - "unknown field \\"metadata.foo\\""'


async def test_a_json_patch_whose_test_fails_is_invalid(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    patch = [{"op": "test", "path": "/data/k", "value": "other"}]
    answer = (await api.patch(f"{ns}/configmaps/a", patch, "json")).expect(422)
    assert answer.reason == "Invalid"
    assert "the server rejected our request due to an error in our request" in answer.message


async def test_an_unknown_patch_type_is_unsupported(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    answer = (await api.send("PATCH", f"{ns}/configmaps/a", {})).expect(415)
    assert answer.reason == "UnsupportedMediaType"


async def test_an_accept_that_cannot_be_met_is_not_acceptable(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/configmaps", accept="image/png")).expect(406)
    assert answer.reason == "NotAcceptable"


async def test_an_apply_without_a_field_manager_is_invalid(api: API, ns: str) -> None:
    answer = (await api.patch(f"{ns}/configmaps/a", config_map(), "apply")).expect(422)
    assert answer.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


async def test_a_method_that_a_resource_does_not_have_is_not_allowed(api: API, ns: str) -> None:
    (await api.send("PUT", f"{ns}/configmaps", config_map())).expect(405)


@pytest.mark.parametrize("more", ["", "&resourceVersionMatch=NotOlderThan&limit=1"])
async def test_a_future_resource_version_is_a_timeout(api: API, ns: str, more: str) -> None:
    answer = (await api.get(f"{ns}/configmaps?resourceVersion=999999999{more}")).expect(504)
    assert answer.reason == "Timeout"
    assert answer.causes[0][0] == "ResourceVersionTooLarge"
    assert answer.json["details"]["retryAfterSeconds"] == 1


async def test_a_resource_version_that_is_not_a_number_is_a_bad_request(api: API, ns: str) -> None:
    (await api.get(f"{ns}/configmaps?resourceVersion=abc")).expect(400)


async def test_creates_in_a_missing_namespace_are_not_found(api: API) -> None:
    answer = (await api.post("/api/v1/namespaces/nons/configmaps", config_map())).expect(404)
    assert answer.message == 'namespaces "nons" not found'


async def test_an_unknown_field_selector_is_a_bad_request(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/configmaps?fieldSelector=spec.foo=x")).expect(400)
    assert answer.message == ('"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"')


async def test_a_config_map_above_one_mebibyte_is_too_long(api: API, ns: str) -> None:
    answer = (await api.post(f"{ns}/configmaps", config_map(k="x" * 1048577))).expect(422)
    assert "Too long" in answer.message


async def test_a_body_above_three_mebibytes_is_too_large(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", config_map(k="x" * 3145728))).expect(413)


async def test_an_unknown_dry_run_is_rejected(api: API, ns: str) -> None:
    answer = (await api.post(f"{ns}/configmaps?dryRun=Some", config_map())).expect(422)
    assert answer.message == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )


@pytest.mark.parametrize("digits", [20, 5000])
@pytest.mark.parametrize("parameter", ["limit", "watch=1&timeoutSeconds", "resourceVersion"])
async def test_a_number_with_too_many_digits_is_a_bad_request(api: API, ns: str, parameter: str, digits: int) -> None:
    number = "9" * digits
    answer = (await api.get(f"{ns}/configmaps?{parameter}={number}")).expect(400)
    assert answer.message.endswith(f'parsing "{number}": value out of range')


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"gracePeriodSeconds": "now"}, "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"),
        ({"dryRun": "All"}, "string into Go struct field DeleteOptions.dryRun of type []string"),
        ({"preconditions": "x"}, "string into Go struct field DeleteOptions.preconditions of type v1.Preconditions"),
        ({"orphanDependents": "no"}, "string into Go struct field DeleteOptions.orphanDependents of type bool"),
        ({"propagationPolicy": 5}, "number into Go struct field DeleteOptions.propagationPolicy of type"),
    ],
)
async def test_delete_options_of_a_wrong_type_are_a_bad_request(
    api: API, ns: str, options: dict[str, object], field: str
) -> None:
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    answer = (await api.delete(f"{ns}/configmaps/a", options)).expect(400)
    assert answer.message.startswith(f"json: cannot unmarshal {field}")
    (await api.get(f"{ns}/configmaps/a")).expect(200)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"scopes": ["Terminating", "NotTerminating"]}, "conflicting scopes"),
        ({"scopes": ["Bogus"]}, "unsupported scope"),
        ({"scopes": ["BestEffort"], "hard": {"cpu": "1"}}, "unsupported scope applied to resource"),
        ({"hard": {"pods": "1.5"}}, "must be an integer"),
        ({"hard": {"count/jobs.batch": "1.5"}}, "must be an integer"),
    ],
)
async def test_a_quota_that_cannot_be_enforced_is_rejected(api: API, ns: str, spec: Any, why: str) -> None:
    answer = (await api.post(f"{ns}/resourcequotas", {"metadata": {"name": "q"}, "spec": spec})).expect(422)
    assert answer.message.endswith(f": {why}")


async def test_sysctls_of_a_pod_have_valid_names_and_belong_to_its_own_namespaces(api: API, ns: str) -> None:
    named = ("foo-", "kernel.shmmax", "net/ipv4.ip_forward", "kernel.shmmax", "", "bar..")
    spec = {
        "containers": [{"name": "c", "image": "nginx:1"}],
        "hostNetwork": True,
        "hostPID": True,
        "shareProcessNamespace": True,
        "securityContext": {"sysctls": [{"name": name, "value": "1"} for name in named]},
    }
    answer = (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})).expect(422)
    why = (
        "must have at most 253 characters and match regex "
        "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
    )
    path = "spec.securityContext"
    assert answer.causes == [
        (
            "FieldValueInvalid",
            f"{path}.shareProcessNamespace",
            "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
        ),
        ("FieldValueInvalid", f"{path}.sysctls[0].name", f'Invalid value: "foo-": {why}'),
        (
            "FieldValueInvalid",
            f"{path}.sysctls[2].name",
            "Invalid value: \"net/ipv4.ip_forward\": may not be specified when 'hostNetwork' is true",
        ),
        ("FieldValueDuplicate", f"{path}.sysctls[3].name", 'Duplicate value: "kernel.shmmax"'),
        ("FieldValueRequired", f"{path}.sysctls[4].name", "Required value"),
        ("FieldValueInvalid", f"{path}.sysctls[5].name", f'Invalid value: "bar..": {why}'),
    ]
