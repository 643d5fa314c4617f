"""Admission policies: what a client cannot see of a real server, and limits that only this server has."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API, CONFIG_MAPS, MERGE

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


async def validating(api: API, *validations: dict[str, Any], actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    body = {"matchConstraints": {"resourceRules": [RULE]}, "validations": list(validations), **spec}
    await api.ok("POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": body})
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": list(actions)}}
    await api.ok("POST", f"{GROUP}/validatingadmissionpolicybindings", bound)


async def mutating(api: API, *expressions: str, patch: str = "ApplyConfiguration", **spec: Any) -> None:
    field = patch[0].lower() + patch[1:] if patch != "JSONPatch" else "jsonPatch"
    mutations = [{"patchType": patch, field: {"expression": each}} for each in expressions]
    body = {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": mutations,
        "reinvocationPolicy": "Never",
        **spec,
    }
    await api.ok("POST", f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": body})
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p"}}
    await api.ok("POST", f"{GROUP}/mutatingadmissionpolicybindings", bound)


async def test_audit_annotations_and_failures_are_logged(api: API, caplog: pytest.LogCaptureFixture) -> None:
    annotations = [
        {"key": "size", "valueExpression": "'has ' + string(object.data.size())"},
        {"key": "none", "valueExpression": "null"},
        {"key": "long", "valueExpression": "string(object.data.a) + string(object.data.a)"},
    ]
    await validating(api, {"expression": "false"}, actions=("Audit",), auditAnnotations=annotations)
    with caplog.at_level(logging.INFO):
        await api.config_map("a", a="x" * 6000)
    found = {each.getMessage() for each in caplog.records}
    assert any("Validation failed" in each and "failed expression: false" in each for each in found)
    assert any("p/size" in each and "has 1" in each for each in found)
    assert not any("p/none" in each for each in found)
    assert [each.count("x") for each in found if "p/long" in each] == [10 * 1024]


async def test_a_new_policy_is_enforced_at_once_and_a_deleted_one_no_longer(api: API) -> None:
    await validating(api, {"expression": "false"})
    await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await api.ok("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
    await api.config_map("a")


async def test_stored_policies_are_enforced_after_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    options = ServerOptions(data=tmp_path, clock=clock, tokens={"admin": ADMIN})
    server = APIServer(options)
    await server.start()
    await validating(API(server, clock), {"expression": "object.metadata.name != 'bad'"})
    await server.close()
    server = APIServer(options)
    await server.start()
    api = API(server, clock)
    await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "bad"}})
    await api.config_map("good")
    await server.close()


async def test_a_disabled_plugin_evaluates_no_policies(clock: VirtualClock) -> None:
    disabled = frozenset({"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"})
    server = APIServer(ServerOptions(clock=clock, tokens={"admin": ADMIN}, disabled_admission=disabled))
    await server.start()
    api = API(server, clock)
    await validating(api, {"expression": "false"})
    await mutating(api, "Object{data: {'a': 'b'}}")
    assert "data" not in await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await server.close()


async def test_policies_do_not_concern_policies(api: API) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    await validating(api, {"expression": "false"}, matchConstraints={"resourceRules": [rule]})
    await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await api.rejected(422, "POST", f"{GROUP}/validatingwebhookconfigurations", {"metadata": {"name": "a"}})
    await api.ok("DELETE", f"{GROUP}/validatingadmissionpolicies/p")


async def test_a_hostile_expression_is_stopped(api: API) -> None:
    numbers = "lists.range(1000)"
    expression = f"{numbers}.all(x, {numbers}.all(y, {numbers}.all(z, x + y + z >= 0)))"
    await validating(api, *[{"expression": expression}] * 20)
    status = await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert f"expression '{expression}' resulted in error: operation cancelled" in status["message"]


async def test_the_budget_of_a_binding_is_shared(api: API) -> None:
    check = "authorizer.group('').resource('pods').check('list').allowed() || true"
    await validating(api, *[{"expression": f"{check} || {check}"}] * 15)
    await api.config_map("a")
    double = "authorizer.group('').resource('pods').check('list').allowed()"
    policy = await api.ok("GET", f"{GROUP}/validatingadmissionpolicies/p")
    policy["spec"]["validations"] = [{"expression": f"{double} && {double}"}] * 15
    await api.ok("PUT", f"{GROUP}/validatingadmissionpolicies/p", policy)
    status = await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "b"}})
    why = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert status["message"].endswith(f"denied request: {why}")


async def test_the_expressions_of_a_policy_are_limited(api: API) -> None:
    long = " || ".join(["object.metadata.name == 'x'"] * 1200)
    body = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": long}]}
    body = {"metadata": {"name": "p"}, "spec": body}
    status = await api.rejected(422, "POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert f"has expressions of {len(long)} characters; at most 32768 are compiled" in status["message"]


async def test_a_policy_cannot_change_the_identity_of_an_object(api: API) -> None:
    created = await api.config_map("a", x="1")
    await mutating(api, "[JSONPatch{op: 'add', path: '/metadata/uid', value: 'x'}]", patch="JSONPatch")
    status = await api.rejected(422, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "2"}}, content_type=MERGE)
    assert status["message"].endswith('metadata.uid: Invalid value: "x": field is immutable')
    assert (await api.ok("GET", f"{CONFIG_MAPS}/a"))["metadata"] == created["metadata"]


async def test_a_policy_cannot_change_the_status_through_the_object(api: API) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["services"]}
    patches = (
        "[JSONPatch{op: 'add', path: '/spec/type', value: 'NodePort'},"
        " JSONPatch{op: 'add', path: '/status', value: {'loadBalancer': {'ingress': [{'ip': '1.2.3.4'}]}}}]"
    )
    await mutating(api, patches, patch="JSONPatch", matchConstraints={"resourceRules": [rule]})
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    service = await api.ok("POST", "/api/v1/namespaces/default/services", body)
    assert (service["spec"]["type"], service["status"]) == ("NodePort", {"loadBalancer": {}})


async def test_a_patch_with_unknown_fields_is_an_error(api: API) -> None:
    await mutating(api, "[JSONPatch{op: 'add', path: '/nope', value: 'x'}]", patch="JSONPatch")
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert 'strict decoding error: unknown field "nope"' in status["message"]


async def test_a_scale_is_mutated(api: API) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    await api.ok("POST", deployments, body)
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments/scale"]}
    await mutating(
        api,
        "Object{spec: Object.spec{replicas: object.spec.replicas > 5 ? 5 : object.spec.replicas}}",
        matchConstraints={"resourceRules": [rule]},
    )
    patch = {"spec": {"replicas": 9}}
    scale = await api.ok("PATCH", f"{deployments}/d/scale", patch, content_type=MERGE)
    assert scale["spec"]["replicas"] == 5


async def test_types_of_custom_kinds_are_checked(api: API) -> None:
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}
    await validating(
        api,
        {"expression": "object.spec.size == 'x'"},
        {"expression": "object.metadata.labels.size() > oldObject.spec.size"},
        matchConstraints={"resourceRules": [rule]},
    )
    await api.clock.advance(1)
    status = (await api.ok("GET", f"{GROUP}/validatingadmissionpolicies/p"))["status"]
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    start = "example.com/v1, Kind=Widget: ERROR: <input>:1:18: found no matching overload for '_==_' applied to"
    assert warning["warning"].startswith(f"{start} '(int, string)'")


async def test_many_policies_for_one_write_do_not_delay_others(api: API) -> None:
    await validating(api, {"expression": "object.data.a == 'b'"})
    for number in range(3):
        bound = {"metadata": {"name": f"b{number}"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        await api.ok("POST", f"{GROUP}/validatingadmissionpolicybindings", bound)
    order: list[str] = []

    async def write() -> None:
        await api.config_map("a", a="b")
        order.append("write")

    async def read() -> None:
        await api.ok("GET", CONFIG_MAPS)
        order.append("read")

    await asyncio.gather(write(), read())
    assert order == ["read", "write"]
