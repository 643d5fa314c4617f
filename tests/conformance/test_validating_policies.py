"""ValidatingAdmissionPolicies accept and reject writes."""

from __future__ import annotations

import pytest

from conformance.policies import CONFIG_MAPS, PARAM_KIND, VALIDATING_BINDINGS, Policies, config_map
from conformance.rawapi import Answer, until


async def test_a_write_is_denied_with_the_message_of_the_policy(policies: Policies) -> None:
    name = await policies.validating({"expression": "object.data.color == 'red'", "message": "must be red"})
    answer = await policies.denied(config_map("a", color="blue"))
    text = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: must be red"
    assert answer.message == f'configmaps "a" is forbidden: {text}'
    assert answer.reason == "Invalid"
    assert answer.causes == [("", "", text)]
    assert answer.json["details"]["name"] == "a"
    assert answer.json["details"]["kind"] == "configmaps"
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a", color="red"))).expect(201)
    patch = {"data": {"color": "green"}}
    (await policies.api.patch(f"{policies.ns}/configmaps/a", patch)).expect(422)


async def test_an_update_is_compared_with_the_old_object(policies: Policies) -> None:
    await policies.validating(
        {"expression": "oldObject == null || object.data.color == oldObject.data.color", "message": "no repainting"},
        {"expression": "object.data.color != 'black'"},
    )
    answer = await policies.denied(config_map("b", color="black"))
    assert answer.message.endswith("denied request: failed expression: object.data.color != 'black'")
    path = f"{policies.ns}/configmaps"
    (await policies.api.post(path, config_map("a", color="red"))).expect(201)
    answer = (await policies.api.patch(f"{path}/a", {"data": {"color": "blue"}})).expect(422)
    assert answer.message.endswith("denied request: no repainting")


@pytest.mark.parametrize(
    ("reason", "status"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)]
)  # fmt: skip
async def test_a_denial_has_the_reason_of_the_validation(policies: Policies, reason: str, status: int) -> None:
    await policies.validating({"expression": "false", "reason": reason})
    answer = await policies.denied(config_map("a"), status)
    assert answer.reason == reason
    assert answer.json["code"] == status


async def test_a_message_expression_makes_the_message(policies: Policies) -> None:
    await policies.validating(
        {
            "expression": "size(object.data) < 2",
            "message": "too many keys",
            "messageExpression": "' ' + string(size(object.data)) + ' keys in ' + request.namespace + '\\t'",
        }
    )
    answer = await policies.denied(config_map("a", x="1", y="2"))
    namespace = policies.ns.rpartition("/")[2]
    assert answer.message.endswith(f"denied request: 2 keys in {namespace}")


@pytest.mark.parametrize("expression", ["'two\\nlines'", "object.data.nope + ''", "'x'.replace('x', ' ')"])
async def test_a_message_that_cannot_be_shown_is_replaced(policies: Policies, expression: str) -> None:
    await policies.validating({"expression": "false", "message": "plain", "messageExpression": expression})
    assert (await policies.denied(config_map("a"))).message.endswith("denied request: plain")


async def test_an_error_of_an_expression_denies_the_write(policies: Policies) -> None:
    await policies.validating({"expression": "object.data.color == 'red'"})
    answer = await policies.denied(config_map("a", size="1"))
    why = "expression 'object.data.color == 'red'' resulted in error: no such key: color"
    assert answer.message.endswith(f"denied request: {why}")


async def test_an_error_is_ignored_if_the_failure_policy_says_so(policies: Policies) -> None:
    await policies.validating(
        {"expression": "object.data.color == 'red'"},
        {"expression": "object.metadata.name != 'b'"},
        failurePolicy="Ignore",
    )
    assert (await policies.denied(config_map("b"))).message.endswith("object.metadata.name != 'b'")
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).expect(201)


async def test_warnings_are_sent_instead_of_a_denial(policies: Policies) -> None:
    name = await policies.validating(
        {"expression": "false", "message": "not good"}, binding={"validationActions": ["Warn", "Audit"]}
    )

    async def warned() -> str | None:
        answer = (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).expect(201)
        await policies.api.delete(f"{policies.ns}/configmaps/a")
        return answer.headers.get("warning")

    text = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': not good"
    assert await until(warned) == f'299 - "{text}"'


async def test_a_failure_that_is_only_audited_does_not_deny(policies: Policies) -> None:
    await policies.validating({"expression": "false"}, binding={"validationActions": ["Audit"]})
    await policies.validating({"expression": "object.metadata.name != 'b'"})
    await policies.denied(config_map("b"))
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).expect(201)


async def test_match_conditions_select_writes(policies: Policies) -> None:
    await policies.validating(
        {"expression": "false"},
        matchConditions=[
            {"name": "named-b", "expression": "object.metadata.name == 'b'"},
            {"name": "not-a-node", "expression": "!('system:nodes' in request.userInfo.groups)"},
        ],
    )
    await policies.denied(config_map("b"))
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).expect(201)


async def test_an_error_of_a_match_condition_denies_the_write(policies: Policies) -> None:
    await policies.validating(
        {"expression": "true"}, matchConditions=[{"name": "c", "expression": "object.data.color == 'red'"}]
    )
    answer = await policies.denied(config_map("a"))
    why = "expression 'object.data.color == 'red'' resulted in error: no such key: data"
    assert answer.message.endswith(f"denied request: {why}")


async def test_variables_are_computed_from_one_another(policies: Policies) -> None:
    await policies.validating(
        {"expression": "variables.total < 10", "messageExpression": "'total is ' + string(variables.total)"},
        variables=[
            {"name": "sizes", "expression": "object.data.map(k, int(object.data[k]))"},
            {"name": "total", "expression": "variables.sizes.sum()"},
            {"name": "broken", "expression": "1 / (variables.total - variables.total)"},
        ],
    )
    answer = await policies.denied(config_map("a", x="7", y="5"))
    assert answer.message.endswith("denied request: total is 12")
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a", x="7"))).expect(201)


async def test_an_error_of_a_variable_is_that_of_its_user(policies: Policies) -> None:
    await policies.validating(
        {"expression": "variables.zero > 0 || true"},
        {"expression": "variables.zero > 0"},
        variables=[{"name": "zero", "expression": "1 / 0"}],
    )
    answer = await policies.denied(config_map("a"))
    why = 'composited variable "zero" fails to evaluate: division by zero'
    assert answer.message.endswith(f"expression 'variables.zero > 0' resulted in error: {why}")


async def test_the_namespace_and_the_request_are_known(policies: Policies) -> None:
    await policies.validating(
        {
            "expression": "false",
            "messageExpression": (
                "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] + ' ' + namespaceObject.status.phase"
                " + ' ' + request.operation + ' ' + request.kind.kind + ' ' + request.resource.resource + ' '"
                " + request.name + ' ' + string(request.dryRun) + ' ' + string(has(request.subResource))"
            ),
        }
    )
    namespace = policies.ns.rpartition("/")[2]
    answer = await policies.denied(config_map("a"))
    assert answer.message.endswith(f"{namespace} Active CREATE ConfigMap configmaps a false false")


async def test_a_parameter_is_found_by_name(policies: Policies) -> None:
    path = f"{policies.ns}/configmaps"
    (await policies.api.post(path, config_map("limit", size="3"))).expect(201)
    await policies.validating(
        {"expression": "size(object.data) <= int(params.data.size)", "messageExpression": "'over ' + params.data.size"},
        paramKind=PARAM_KIND,
        binding={"paramRef": {"name": "limit", "parameterNotFoundAction": "Allow"}},
    )
    answer = await policies.denied(config_map("a", v="1", w="2", x="3", y="4"))
    assert answer.message.endswith("denied request: over 3")
    (await policies.api.post(path, config_map("b", x="1"))).expect(201)


async def test_each_selected_parameter_is_evaluated(policies: Policies) -> None:
    path = f"{policies.ns}/configmaps"
    for name in ("banned-1", "banned-2"):
        body = {"metadata": {"name": name, "labels": {"banned": "yes"}}, "data": {"name": f"x-{name}"}}
        (await policies.api.post(path, body)).expect(201)
    await policies.validating(
        {"expression": "object.metadata.name != params.data.name"},
        paramKind=PARAM_KIND,
        binding={"paramRef": {"selector": {"matchLabels": {"banned": "yes"}}, "parameterNotFoundAction": "Allow"}},
    )
    await policies.denied(config_map("x-banned-1"))
    await policies.denied(config_map("x-banned-2"))
    (await policies.api.post(path, config_map("other"))).expect(201)


async def test_a_missing_parameter_denies_or_allows(policies: Policies) -> None:
    name = await policies.validating(
        {"expression": "true"},
        paramKind=PARAM_KIND,
        binding={"paramRef": {"name": "nope", "parameterNotFoundAction": "Deny"}},
    )
    answer = await policies.denied(config_map("a"))
    why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    expected = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {why}"
    assert answer.message.endswith(expected)
    binding = (await policies.api.get(f"{VALIDATING_BINDINGS}/{name}")).json
    binding["spec"]["paramRef"]["parameterNotFoundAction"] = "Allow"
    (await policies.api.put(f"{VALIDATING_BINDINGS}/{name}", binding)).expect(200)

    async def allowed() -> bool:
        return (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).status == 201

    await until(allowed)


async def test_without_a_reference_parameters_are_null(policies: Policies) -> None:
    await policies.validating({"expression": "params != null"}, paramKind=PARAM_KIND)
    assert (await policies.denied(config_map("a"))).message.endswith("params != null")


async def test_an_unknown_kind_of_parameters_is_a_fault_of_the_policy(policies: Policies) -> None:
    name = await policies.validating(
        {"expression": "true"},
        paramKind={"apiVersion": "rules.example.com/v1", "kind": "Nothing"},
        binding={"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}},
    )
    answer = await policies.denied(config_map("a"))
    kind = "rules.example.com/v1, Kind=Nothing"
    why = f"failed to configure policy: failed to find resource referenced by paramKind: '{kind}'"
    assert answer.message.endswith(f"ValidatingAdmissionPolicy '{name}' denied request: {why}")


async def test_the_authorizer_answers_for_the_user(policies: Policies) -> None:
    await policies.validating(
        {"expression": "authorizer.group('').resource('pods').check('list').allowed()"},
        {"expression": "authorizer.requestResource.check('deletecollection').allowed()"},
        {"expression": "!authorizer.serviceAccount('default', 'default').path('/metrics').check('get').allowed()"},
        {
            "expression": "authorizer.serviceAccount('default', 'default').path('/healthz').check('get').errored()",
            "messageExpression": "'no error'",
        },
    )
    answer = await policies.denied(config_map("a"))
    assert answer.message.endswith("denied request: no error")


async def test_the_authorizer_of_a_service_account_knows_only_its_own_groups(policies: Policies) -> None:
    check = "authorizer.serviceAccount('default', 'default').path('/healthz').check('get')"
    await policies.validating({"expression": f"{check}.allowed() || {check}.reason() != ''", "message": "denied"})
    assert (await policies.denied(config_map("a"))).message.endswith("denied request: denied")


async def test_an_authorization_check_is_expensive(policies: Policies) -> None:
    check = "authorizer.group('').resource('pods').check('list').allowed()"
    await policies.validating({"expression": " && ".join([check] * 3)})
    answer = await policies.denied(config_map("a"))
    assert answer.message.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_an_audit_annotation_with_an_error_denies(policies: Policies) -> None:
    await policies.validating(auditAnnotations=[{"key": "color", "valueExpression": "'is ' + object.data.color"}])
    answer = await policies.denied(config_map("a"))
    assert answer.message.endswith("expression ''is ' + object.data.color' resulted in error: no such key: data")
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("b", color="red"))).expect(201)


async def test_excluded_rules_and_names_limit_a_policy(policies: Policies) -> None:
    await policies.validating(
        {"expression": "false"}, match={"excludeResourceRules": [{**CONFIG_MAPS, "resourceNames": ["free"]}]}
    )
    await policies.denied(config_map("a"))
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("free"))).expect(201)


async def test_a_binding_limits_a_policy(policies: Policies) -> None:
    match = {"objectSelector": {"matchLabels": {"checked": "yes"}}}
    await policies.validating({"expression": "false"}, binding={"validationActions": ["Deny"], "matchResources": match})
    await policies.denied({"metadata": {"name": "a", "labels": {"checked": "yes"}}})
    (await policies.api.post(f"{policies.ns}/configmaps", config_map("a"))).expect(201)


async def test_a_policy_matches_other_versions_of_a_resource(policies: Policies) -> None:
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"]}
    rule |= {"resources": ["horizontalpodautoscalers"]}
    await policies.validating(
        {"expression": "false", "messageExpression": "object.apiVersion + ' ' + request.requestKind.version"},
        match={"resourceRules": [rule]},
    )
    path = policies.ns.replace("/api/v1/", "/apis/autoscaling/v2/") + "/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    body = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}

    async def rejected() -> Answer | None:
        answer = await policies.api.post(path, body)
        await policies.api.delete(f"{path}/a")
        return answer if answer.status == 422 else None

    answer = await until(rejected)
    assert answer.message.endswith("denied request: autoscaling/v1 v2")


async def test_deletes_are_checked(policies: Policies) -> None:
    await policies.validating(
        {"expression": "object == null && oldObject.metadata.name != 'kept'"},
        match={"resourceRules": [{**CONFIG_MAPS, "operations": ["DELETE"]}]},
    )
    path = f"{policies.ns}/configmaps"

    async def rejected() -> Answer | None:
        await policies.api.post(path, config_map("kept"))
        answer = await policies.api.delete(f"{path}/kept")
        return answer if answer.status == 422 else None

    await until(rejected)
    (await policies.api.post(path, config_map("other"))).expect(201)
    (await policies.api.delete(f"{path}/other")).expect(200)
