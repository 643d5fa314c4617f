"""Admission policies and their bindings as objects: validation, defaults, type checks."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from conformance.policies import (
    CONFIG_MAPS,
    MUTATING,
    PARAM_KIND,
    VALIDATING,
    VALIDATING_BINDINGS,
    Policies,
    applied,
    json_patch,
)
from conformance.rawapi import API, Answer, until


async def test_the_status_warns_of_expressions_that_do_not_fit_the_kinds(policies: Policies, api: API) -> None:
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["deployments", "statefulsets", "deployments/scale"],
        },
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods"]},
    ]
    name = await policies.validating(
        {"expression": "object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'"},
        {"expression": "object.spec.replicas == variables.name", "messageExpression": "string(object.spec.nope)"},
        {"expression": "object.spec.strategy.type == 'x' && params.data.x == 'y'"},
        {"expression": "quantity(object.spec.template.spec.containers[0].resources.limits['cpu']).isInteger()"},
        {"expression": "object.spec.strategy.rollingUpdate.maxSurge == 1"},
        {"expression": "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')"},
        {"expression": "authorizer.requestResource.check('get').allowed()"},
        match={"resourceRules": rules},
        variables=[{"name": "name", "expression": "object.metadata.name"}],
        paramKind=PARAM_KIND,
    )

    async def checked() -> dict[str, Any] | None:
        policy = (await api.get(f"{VALIDATING}/{name}")).json
        found: dict[str, Any] = policy.get("status", {})
        return found if found.get("observedGeneration") == policy["metadata"]["generation"] else None

    status = await until(checked)
    warnings = {each["fieldRef"]: each["warning"] for each in status["typeChecking"]["expressionWarnings"]}
    assert list(warnings) == [
        "spec.validations[1].expression",
        "spec.validations[1].messageExpression",
        "spec.validations[2].expression",
        "spec.validations[3].expression",  # the schema does not say what type a quantity has
        "spec.validations[4].expression",
        "spec.validations[6].expression",
    ]
    fault = "ERROR: <input>:1:19: undefined field 'nope'\n | string(object.spec.nope)\n | ..................^\n"
    kinds = ("apps/v1, Kind=Deployment", "apps/v1, Kind=StatefulSet")
    assert warnings["spec.validations[1].messageExpression"] == "\n".join(f"{kind}: {fault}" for kind in kinds)
    fault = "ERROR: <input>:1:22: found no matching overload for '_==_' applied to '(int, string)'"
    assert warnings["spec.validations[1].expression"].startswith(f"apps/v1, Kind=Deployment: {fault}\n")


async def test_a_policy_without_faults_is_checked_once_for_each_generation(policies: Policies, api: API) -> None:
    name = await policies.validating({"expression": "object.data.size() < 9"})

    async def checked() -> dict[str, Any] | None:
        policy: dict[str, Any] = (await api.get(f"{VALIDATING}/{name}")).json
        observed = policy.get("status", {}).get("observedGeneration")
        return policy if observed == policy["metadata"]["generation"] else None

    policy = await until(checked)
    assert policy["status"] == {"observedGeneration": 1, "typeChecking": {}}
    owners = {(each["manager"], each["operation"]) for each in policy["metadata"]["managedFields"]}
    assert ("validatingadmissionpolicy-status", "Apply") in owners
    policy["spec"]["validations"][0]["expression"] = "object.data.nope() < 9 || object.size() < 9"
    answer = (await api.put(f"{VALIDATING}/{name}", policy)).expect(422)
    assert "undeclared reference to 'nope'" in answer.message
    policy["spec"]["validations"][0]["expression"] = "object.nope.size() < 9"
    (await api.put(f"{VALIDATING}/{name}", policy)).expect(200)
    policy = await until(checked)
    assert policy["metadata"]["generation"] == 2
    assert "undefined field 'nope'" in policy["status"]["typeChecking"]["expressionWarnings"][0]["warning"]


VALID: dict[str, Any] = {"matchConstraints": {"resourceRules": [CONFIG_MAPS]}, "validations": [{"expression": "true"}]}
CEL = "compilation failed: ERROR: <input>"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (
            {"matchConstraints": None, "validations": [], "failurePolicy": "x"},
            [
                ("spec.failurePolicy", 'Unsupported value: "x": supported values: "Fail", "Ignore"'),
                ("spec.matchConstraints", "Required value"),
                ("spec.validations", "Required value: validations or auditAnnotations must contain at least one item"),
                (
                    "spec.auditAnnotations",
                    "Required value: validations or auditAnnotations must contain at least one item",
                ),
            ],
        ),
        (
            {
                "validations": [
                    {"expression": "object.x"},
                    {"expression": "params.x == 1"},
                    {"expression": "variables.x"},
                ]
            },
            [
                ("spec.validations[0].expression", 'Invalid value: "object.x": must evaluate to bool but got dyn'),
                (
                    "spec.validations[1].expression",
                    f"Invalid value: \"params.x == 1\": {CEL}:1:1: undeclared reference to 'params' (in container '')"
                    "\n | params.x == 1\n | ^",
                ),
                (
                    "spec.validations[2].expression",
                    f"Invalid value: \"variables.x\": {CEL}:1:1: undeclared reference to 'variables' (in container '')"
                    "\n | variables.x\n | ^",
                ),
            ],
        ),
        (
            {
                "validations": [
                    {"expression": " ", "message": " ", "reason": "Unknown", "messageExpression": " "},
                    {"expression": "true", "message": "a\nb", "messageExpression": "authorizer.path('/') == null"},
                ]
            },
            [
                ("spec.validations[0].expression", "Required value: expression is not specified"),
                ("spec.validations[0].messageExpression", 'Invalid value: " ": must be non-empty if specified'),
                ("spec.validations[0].message", 'Invalid value: " ": must be non-empty if specified'),
                (
                    "spec.validations[0].reason",
                    'Unsupported value: "Unknown": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
                ),
                (
                    "spec.validations[1].messageExpression",
                    f"Invalid value: \"authorizer.path('/') == null\": {CEL}:1:1: undeclared reference to 'authorizer' "
                    "(in container '')\n | authorizer.path('/') == null\n | ^",
                ),
                ("spec.validations[1].message", 'Invalid value: "a\\nb": must not contain line breaks'),
            ],
        ),
        (
            {
                "variables": [{"name": "for", "expression": "1"}, {"name": "x", "expression": "variables.y"}],
                "matchConditions": [{"name": "", "expression": "variables.x"}],
                "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
            },
            [
                ("spec.matchConditions[0].name", "Required value"),
                (
                    "spec.matchConditions[0].expression",
                    f"Invalid value: \"variables.x\": {CEL}:1:1: undeclared reference to 'variables' (in container '')"
                    "\n | variables.x\n | ^",
                ),
                ("spec.variables[0].name", 'Invalid value: "for": must be a valid CEL identifier'),
                (
                    "spec.variables[1].expression",
                    f"Invalid value: \"variables.y\": {CEL}:1:10: undefined field 'y'\n | variables.y\n | .........^",
                ),
                (
                    "spec.auditAnnotations[0].valueExpression",
                    'Invalid value: "1": must evaluate to one of [string null_type] but got int',
                ),
            ],
        ),
    ],
)
async def test_an_invalid_policy_is_rejected(api: API, spec: dict[str, Any], faults: list[tuple[str, str]]) -> None:
    name = f"policy-{secrets.token_hex(4)}"
    answer = (await api.post(VALIDATING, {"metadata": {"name": name}, "spec": VALID | spec})).expect(422)
    assert sorted(each[1:] for each in answer.causes) == sorted(faults)


@pytest.mark.parametrize(
    ("mutation", "field", "fault"),
    [
        (applied("{}"), "applyConfiguration.expression", 'Invalid value: "{}": must evaluate to Object but got map'),
        (applied(""), "applyConfiguration.expression", "Required value"),
        (applied("Nothing{}"), "applyConfiguration.expression", "undeclared reference to 'Nothing' (in container '')"),
        (
            applied("Object{?a: 1}"),
            "applyConfiguration.expression",
            "expected type 'optional_type(int)' but found 'int'",
        ),
        (json_patch("[]"), "jsonPatch.expression", "must evaluate to list(JSONPatch) but got list(dyn)"),
        (
            json_patch("[JSONPatch{op: 1}]"),
            "jsonPatch.expression",
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        ({"patchType": "JSONPatch"}, "jsonPatch", "must be specified when patchType is JSONPatch"),
        ({"patchType": "x"}, "patchType", 'supported values: "ApplyConfiguration", "JSONPatch"'),
    ],
)
async def test_an_invalid_mutation_is_rejected(api: API, mutation: dict[str, Any], field: str, fault: str) -> None:
    spec = {"matchConstraints": VALID["matchConstraints"], "reinvocationPolicy": "Never", "mutations": [mutation]}
    body = {"metadata": {"name": f"policy-{secrets.token_hex(4)}"}, "spec": spec}
    ((_, found, message),) = (await api.post(MUTATING, body)).expect(422).causes
    assert found == f"spec.mutations[0].{field}"
    assert fault in message


async def test_a_mutating_policy_cannot_match_deletes(api: API) -> None:
    rule = {**CONFIG_MAPS, "operations": ["DELETE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "reinvocationPolicy": "x",
        "mutations": [applied("Object{}")],
    }
    body = {"metadata": {"name": f"policy-{secrets.token_hex(4)}"}, "spec": spec}
    assert sorted(each[1:] for each in (await api.post(MUTATING, body)).expect(422).causes) == [
        (
            "spec.matchConstraints.resourceRules.operations",
            'Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"',
        ),
        ("spec.reinvocationPolicy", 'Unsupported value: "x": supported values: "IfNeeded", "Never"'),
    ]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"validationActions": []}, ("spec.validationActions", "at least one validation action is required")),
        ({"validationActions": ["Deny", "Warn"]}, ("spec.validationActions", "must not contain both Deny and Warn")),
        ({"validationActions": ["Deny", "Deny"]}, ("spec.validationActions[1]", 'Duplicate value: "Deny"')),
        ({"policyName": "A"}, ("spec.policyName", "a lowercase RFC 1123 subdomain must consist of")),
        (
            {"paramRef": {"name": "a", "parameterNotFoundAction": "x"}},
            ("spec.paramRef.parameterNotFoundAction", 'Unsupported value: "x": supported values: "Deny", "Allow"'),
        ),
        (
            {"paramRef": {"parameterNotFoundAction": "Deny"}},
            ("spec.paramRef", "Required value: one of name or selector must be specified"),
        ),
    ],
)
async def test_an_invalid_binding_is_rejected(api: API, spec: dict[str, Any], fault: tuple[str, str]) -> None:
    name = f"binding-{secrets.token_hex(4)}"
    body = {"metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": ["Deny"], **spec}}
    ((_, field, message),) = (await api.post(VALIDATING_BINDINGS, body)).expect(422).causes
    assert field == fault[0]
    assert fault[1] in message


async def test_policies_are_defaulted(policies: Policies, api: API) -> None:
    name = await policies.validating({"expression": "true"}, binding={"matchResources": {}})
    spec = (await api.get(f"{VALIDATING}/{name}")).json["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert spec["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert spec["matchConstraints"]["objectSelector"] == {}
    assert spec["matchConstraints"]["resourceRules"][0]["scope"] == "*"
    match = (await api.get(f"{VALIDATING_BINDINGS}/{name}")).json["spec"]["matchResources"]
    assert match == {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


async def test_an_author_must_be_able_to_read_the_parameters(api: API) -> None:
    user = f"user-{secrets.token_hex(4)}"
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["create"]}
    (await api.post(roles, {"metadata": {"name": user}, "rules": [rule]})).expect(201)
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": user}, "subjects": [subject], "roleRef": reference}
    (await api.post(f"{roles.removesuffix('s')}bindings", binding)).expect(201)
    try:
        body = {"metadata": {"name": user}, "spec": VALID | {"paramKind": PARAM_KIND}}

        async def rejected() -> Answer | None:
            answer = await api.post(VALIDATING, body, impersonate_user=user)
            return answer if answer.status == 422 else None

        shown = f"&{{{user}  [system:authenticated] map[]}}"
        why = f'user {shown} must have "get" permission on all objects of the referenced paramKind'
        expected = f"Forbidden: {why} (kind=ConfigMap, apiVersion=v1)"
        assert (await until(rejected)).causes == [("FieldValueForbidden", "spec.paramKind", expected)]
        spec: dict[str, Any] = {"policyName": "nope", "validationActions": ["Deny"]}
        spec["paramRef"] = {"name": "x", "parameterNotFoundAction": "Deny"}
        answer = await api.post(VALIDATING_BINDINGS, {"metadata": {"name": user}, "spec": spec}, impersonate_user=user)
        why = "unable to get policy nope to determine minimum required permissions"
        permission = f'user {shown} does not have "get" permission for all groups, versions and resources'
        assert answer.expect(422).causes == [
            ("FieldValueForbidden", "spec.paramRef", f"Forbidden: {why} and {permission}")
        ]
    finally:
        await api.delete(f"{roles.removesuffix('s')}bindings/{user}")
        await api.delete(f"{roles}/{user}")
