"""MutatingAdmissionPolicies change objects."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from conformance.policies import PARAM_KIND, Policies, applied, config_map, json_patch
from conformance.rawapi import API, Answer, until


async def test_an_apply_configuration_is_merged(policies: Policies) -> None:
    await policies.mutating(
        applied("Object{data: {'color': 'red'}, metadata: Object.metadata{labels: {'from': object.metadata.name}}}")
    )
    obj = await policies.changed(config_map("a", size="1"))
    assert obj["data"] == {"size": "1", "color": "red"}
    assert obj["metadata"]["labels"] == {"from": "a"}


async def test_a_json_patch_is_applied(policies: Policies) -> None:
    await policies.mutating(
        json_patch(
            "[JSONPatch{op: 'test', path: '/data/size', value: '1'},"
            " JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a~b'), value: object.metadata.name},"
            " JSONPatch{op: 'move', from: '/data/size', path: '/data/moved'}] + (true ? [] : [JSONPatch{op: 'x'}])"
        )
    )
    # "~" is invalid in the key of a ConfigMap, so the case shows the patch by its fault
    answer = await policies.denied(config_map("a", size="1"))
    assert 'data[a~b]: Invalid value: "a~b"' in answer.message


async def test_a_failed_test_of_a_json_patch_changes_nothing(policies: Policies) -> None:
    await policies.mutating(
        json_patch(
            "[JSONPatch{op: 'test', path: '/data/size', value: '2'}, JSONPatch{op: 'remove', path: '/data/size'}]"
        ),
        json_patch("[JSONPatch{op: 'add', path: '/data/color', value: 'red'}]"),
    )
    obj = await policies.changed(config_map("a", size="1"))
    assert obj["data"] == {"size": "1", "color": "red"}


async def test_a_json_patch_that_cannot_be_applied_denies(policies: Policies) -> None:
    name = await policies.mutating(json_patch("[JSONPatch{op: 'remove', path: '/data/nope'}]"))
    answer = await policies.denied(config_map("a", size="1"), 403)
    start = f"policy '{name}' with binding '{name}' denied request: JSON Patch: "
    assert answer.message.startswith(start)
    assert answer.reason == "Invalid"
    assert answer.causes == [("", "", answer.message)]


async def test_a_mutation_sees_the_one_before_it(policies: Policies) -> None:
    await policies.mutating(
        applied("Object{data: {'a': 'x'}}"),
        applied("Object{data: {'b': object.data.a + variables.suffix}}"),
        variables=[{"name": "suffix", "expression": "'-' + object.data.a"}],
    )
    obj = await policies.changed(config_map("a"))
    assert obj["data"] == {"a": "x", "b": "x-x"}


async def test_the_object_is_defaulted_after_a_mutation(policies: Policies) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    await policies.mutating(
        json_patch("[JSONPatch{op: 'replace', path: '/spec/ports', value: [{'port': 81}]}]"),
        applied("Object{metadata: Object.metadata{annotations: {'protocol': object.spec.ports[0].protocol}}}"),
        match={"resourceRules": [rule]},
    )
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}

    async def changed() -> dict[str, Any] | None:
        answer = (await policies.api.post(f"{policies.ns}/services", body)).expect(201)
        await policies.api.delete(f"{policies.ns}/services/s")
        found: dict[str, Any] = answer.json
        return found if found["spec"]["ports"][0]["port"] == 81 else None

    obj = await until(changed)
    assert obj["spec"]["ports"] == [{"port": 81, "protocol": "TCP", "targetPort": 81}]
    assert obj["metadata"]["annotations"] == {"protocol": "TCP"}


async def test_list_items_are_merged_by_their_keys(policies: Policies) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    await policies.mutating(
        applied(
            "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: ["
            "Object.spec.template.spec.containers{name: 'side', image: 'side:1'},"
            "Object.spec.template.spec.containers{name: 'main', imagePullPolicy: 'Never'}]}}}}"
        ),
        match={"resourceRules": [rule]},
    )
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    body["spec"]["replicas"] = 0  # type: ignore[index]
    path = policies.ns.replace("/api/v1/", "/apis/apps/v1/") + "/deployments"

    async def changed() -> list[dict[str, Any]] | None:
        answer = (await policies.api.post(path, body)).expect(201)
        await policies.api.delete(f"{path}/d")
        found: list[dict[str, Any]] = answer.json["spec"]["template"]["spec"]["containers"]
        return found if len(found) > 1 else None

    shown = [(each["name"], each["image"], each["imagePullPolicy"]) for each in await until(changed)]
    assert sorted(shown) == [("main", "main:1", "Never"), ("side", "side:1", "IfNotPresent")]


async def test_an_apply_configuration_may_not_replace_atomic_values(policies: Policies) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    await policies.mutating(
        applied("Object{spec: Object.spec{externalIPs: ['1.2.3.4'], selector: {'a': 'c'}}}"),
        match={"resourceRules": [rule]},
    )
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}

    async def denied() -> Answer | None:
        answer = await policies.api.post(f"{policies.ns}/services", body)
        await policies.api.delete(f"{policies.ns}/services/s")
        return answer.expect(403) if answer.status != 201 else None

    why = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
    answer = await until(denied)
    found, _, paths = answer.message.rpartition(": ")
    assert found.endswith(f"denied request: {why}")
    assert sorted(paths.split(", ")) == [".spec.externalIPs", ".spec.selector"]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("Object{nope: 'x'}", ".nope: field not declared in schema"),
        ("Object{data: {'a': 1}}", ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        (
            "Object{metadata: Object.spec{name: 'x'}}",
            'unexpected type name "Object.spec", expected "Object.metadata", which matches field name path from '
            "root Object type",
        ),
    ],
)
async def test_an_apply_configuration_must_fit_the_schema(policies: Policies, expression: str, fault: str) -> None:
    await policies.mutating(applied(expression))
    answer = await policies.denied(config_map("a"), 403)
    assert answer.reason == "Invalid"
    assert answer.message.endswith(fault)


async def test_an_error_of_a_mutation_is_ignored_if_the_policy_says_so(policies: Policies) -> None:
    await policies.mutating(
        applied("Object{data: {'a': object.data.nope}}"), applied("Object{data: {'b': 'x'}}"), failurePolicy="Ignore"
    )
    assert (await policies.changed(config_map("a")))["data"] == {"b": "x"}


async def test_a_mutating_policy_with_a_fault_denies(policies: Policies) -> None:
    name = await policies.mutating(applied("Object{data: {'a': object.data.nope}}"))
    answer = await policies.denied(config_map("a"), 403)
    why = "expression 'Object{data: {'a': object.data.nope}}' resulted in error: no such key: data"
    assert answer.message == f"policy '{name}' with binding '{name}' denied request: {why}"


async def test_a_mutating_policy_has_parameters(policies: Policies) -> None:
    path = f"{policies.ns}/configmaps"
    for name in ("p1", "p2"):
        body = {"metadata": {"name": name, "labels": {"params": "yes"}}, "data": {"key": name}}
        (await policies.api.post(path, body)).expect(201)
    await policies.mutating(
        applied("Object{data: {params.data.key: 'found'}}"),
        paramKind=PARAM_KIND,
        matchConditions=[{"name": "no-params", "expression": "!('params' in object.metadata.?labels.orValue({}))"}],
        binding={"paramRef": {"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Allow"}},
    )
    assert (await policies.changed(config_map("a")))["data"] == {"p1": "found", "p2": "found"}


@pytest.mark.parametrize(("reinvocation", "expected"), [("Never", "1"), ("IfNeeded", "2")])
async def test_a_policy_is_reinvoked_if_needed(policies: Policies, reinvocation: str, expected: str) -> None:
    await policies.mutating(
        applied("Object{data: {'count': string(int(object.?data.?count.orValue('0')) + 1)}}"),
        reinvocationPolicy=reinvocation,
    )
    assert (await policies.changed(config_map("a")))["data"] == {"count": expected}


async def test_a_mutated_object_is_validated(policies: Policies) -> None:
    await policies.mutating(applied("Object{data: {'not valid': 'x'}}"))
    answer = await policies.denied(config_map("a"))
    assert "a valid config key must consist of" in answer.message


async def test_validating_policies_see_the_mutated_object(policies: Policies) -> None:
    await policies.mutating(applied("Object{data: {'color': 'red'}}"))
    await policies.validating({"expression": "object.?data.?color.orValue('') != 'red'", "message": "red"})
    assert (await policies.denied(config_map("a"))).message.endswith("denied request: red")


async def test_custom_resources_are_mutated_and_validated(policies: Policies, api: API) -> None:
    group, plural = f"{secrets.token_hex(4)}.example.com", "widgets"
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "maximum": 9},
                    "color": {"type": "string", "default": "red"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                        },
                    },
                },
            }
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Widget"},
            "versions": [version],
        },
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (await api.post(crds, crd)).expect(201)
    path = policies.ns.replace("/api/v1/", f"/apis/{group}/v1/") + f"/{plural}"
    body: dict[str, Any] = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}}
    body["spec"] = {"parts": [{"name": "a", "count": 1}]}
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [plural]}
    try:
        await policies.mutating(
            applied(
                "Object{spec: Object.spec{size: 3, parts: [Object.spec.parts{name: 'a', count: 2},"
                " Object.spec.parts{name: 'b'}]}}"
            ),
            match={"resourceRules": [{**rule, "operations": ["CREATE"]}]},
        )
        await policies.validating(
            {"expression": "object.spec.size != 3", "messageExpression": "string(object.spec.color)"},
            match={"resourceRules": [rule]},
            matchConditions=[{"name": "no-delete", "expression": "request.operation != 'DELETE'"}],
        )

        async def rejected() -> Answer | None:
            answer = await api.post(path, body)
            await api.delete(f"{path}/w")
            return answer if answer.status == 422 else None

        assert (await until(rejected)).message.endswith("denied request: red")
        await api.delete(policies.created.pop())

        async def created() -> dict[str, Any] | None:
            answer = await api.post(path, body)
            await api.delete(f"{path}/w")
            found: dict[str, Any] = answer.json
            return found if answer.status == 201 else None

        spec = (await until(created))["spec"]
        assert spec == {"size": 3, "color": "red", "parts": [{"name": "a", "count": 2}, {"name": "b"}]}
    finally:
        await api.delete(f"{crds}/{plural}.{group}")
