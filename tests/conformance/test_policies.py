"""ValidatingAdmissionPolicies and MutatingAdmissionPolicies."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from conformance.rawapi import API, Answer, until

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingadmissionpolicies"
VALIDATING_BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
MUTATING = f"{GROUP}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}

Setup = Callable[..., Awaitable[str]]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


class Policies:
    """Creates policies that concern one namespace, each with a binding, and deletes them after the case."""

    def __init__(self, api: API, ns: str) -> None:
        self.api = api
        self.ns = ns
        self.created: list[str] = []

    async def validating(
        self, *validations: dict[str, Any], binding: dict[str, Any] | None = None, **spec: Any
    ) -> str:
        """Create a ValidatingAdmissionPolicy for ConfigMaps, and return its name."""
        body = {"validations": list(validations), **spec} if validations else spec
        bound = {"validationActions": ["Deny"], **(binding or {})}
        return await self._create(VALIDATING, VALIDATING_BINDINGS, body, bound)

    async def mutating(self, *mutations: dict[str, Any], binding: dict[str, Any] | None = None, **spec: Any) -> str:
        """Create a MutatingAdmissionPolicy for ConfigMaps, and return its name."""
        body = {"mutations": list(mutations), "reinvocationPolicy": "Never", **spec}
        return await self._create(MUTATING, MUTATING_BINDINGS, body, binding or {})

    async def _create(self, policies: str, bindings: str, spec: dict[str, Any], bound: dict[str, Any]) -> str:
        name = f"policy-{secrets.token_hex(4)}"
        own = {"matchLabels": {"kubernetes.io/metadata.name": self.ns.rpartition("/")[2]}}
        match = {"resourceRules": [CONFIG_MAPS], "namespaceSelector": own, **spec.pop("match", {})}
        body = {"metadata": {"name": name}, "spec": {"matchConstraints": match, **spec}}
        (await self.api.post(policies, body)).expect(201)
        self.created.append(f"{policies}/{name}")
        body = {"metadata": {"name": name}, "spec": {"policyName": name, **bound}}
        (await self.api.post(bindings, body)).expect(201)
        self.created.append(f"{bindings}/{name}")
        return name

    async def denied(self, body: dict[str, Any], status: int = 422) -> Answer:
        """Create a ConfigMap until a policy rejects it. A real API server notices a new policy after a while."""

        async def rejected() -> Answer | None:
            answer = await self.api.post(f"{self.ns}/configmaps", body)
            if answer.status == 201:
                await self.api.delete(f"{self.ns}/configmaps/{body['metadata']['name']}")
                return None
            return answer.expect(status)

        return await until(rejected)

    async def changed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create a ConfigMap until a policy changes its data, and return the ConfigMap."""

        async def created() -> dict[str, Any] | None:
            answer = (await self.api.post(f"{self.ns}/configmaps", body)).expect(201)
            await self.api.delete(f"{self.ns}/configmaps/{body['metadata']['name']}")
            found: dict[str, Any] = answer.json
            return found if found.get("data", {}) != body.get("data", {}) else None

        return await until(created)


@pytest_asyncio.fixture
async def policies(api: API, ns: str) -> AsyncIterator[Policies]:
    policies = Policies(api, ns)
    yield policies
    for path in reversed(policies.created):
        await api.delete(path)


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
        binding={"paramRef": {"name": "limit", "parameterNotFoundAction": "Deny"}},
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
        {"expression": "authorizer.serviceAccount('default', 'default').path('/healthz').check('get').errored()"},
    )
    answer = await policies.denied(config_map("a"))
    assert answer.message.endswith("path('/healthz').check('get').errored()")


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
    await policies.validating(
        {"expression": "false"}, binding={"validationActions": ["Deny"], "matchResources": match}
    )
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


def applied(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


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
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}}
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
            {"validations": [{"expression": "object.x"}, {"expression": "params.x == 1"}, {"expression": "variables.x"}]},
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
    spec = {"matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "x", "mutations": [applied("Object{}")]}
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
        spec = {"policyName": "nope", "validationActions": ["Deny"]}
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
