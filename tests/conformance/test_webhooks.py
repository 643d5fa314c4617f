"""Admission webhooks: which are called, in which order, what they see, and what their answers do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from conformance.hooks import ALLOWED, GROUP, Hooks, Object, Reply, cause, config_map, patched, rule
from conformance.rawapi import API
from kubewright.http.message import Response

MAPS = rule("configmaps")


@pytest_asyncio.fixture
async def hooks(api: API, ns: str) -> AsyncIterator[Hooks]:
    hooks = Hooks(api, ns.rpartition("/")[2])
    await hooks.start()
    yield hooks
    await hooks.close()


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


# Order and reinvocation


async def test_mutating_webhooks_run_by_configuration_and_place_and_see_earlier_changes(
    api: API, ns: str, hooks: Hooks
) -> None:
    def append(letter: str) -> Any:
        return lambda request: patched(add("/data/order", request["object"]["data"].get("order", "") + letter))

    for path, letter in (("/one", "1"), ("/two", "2"), ("/three", "3")):
        hooks.on(path, append(letter))
    await hooks.mutate(hooks.webhook("/three", MAPS), name="b")
    await hooks.mutate(hooks.webhook("/two", MAPS), hooks.webhook("/one", MAPS), name="a")
    made = (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201).json
    assert made["data"] == {"k": "v", "order": "213"}


async def test_validating_webhooks_see_the_result_of_mutating_ones(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/mutate", patched(add("/data/more", "yes")))
    await hooks.mutate(hooks.webhook("/mutate", MAPS))
    await hooks.validate(hooks.webhook("/validate", MAPS))
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    (seen,) = hooks.called("/validate")
    assert seen["object"]["data"] == {"k": "v", "more": "yes"}


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", 2), ("Never", 1)])
async def test_a_webhook_is_called_again_if_a_later_one_changed_the_object(
    api: API, ns: str, hooks: Hooks, policy: str, calls: int
) -> None:
    hooks.on("/second", patched(add("/data/second", "yes")))
    await hooks.mutate(
        hooks.webhook("/first", MAPS, reinvocationPolicy=policy),
        hooks.webhook("/second", MAPS, reinvocationPolicy=policy),
    )
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    assert len(hooks.called("/first")) == calls
    assert len(hooks.called("/second")) == 1


async def test_no_webhook_is_called_again_if_nothing_changed(api: API, ns: str, hooks: Hooks) -> None:
    await hooks.mutate(
        hooks.webhook("/first", MAPS, reinvocationPolicy="IfNeeded"),
        hooks.webhook("/same", MAPS, reinvocationPolicy="IfNeeded"),
    )
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    assert [each.path for each in hooks.calls] == ["/first", "/same"]


async def test_a_patch_of_a_builtin_kind_counts_as_a_change_even_if_it_changes_nothing(
    api: API, ns: str, hooks: Hooks
) -> None:
    hooks.on("/same", patched(add("/data/k", "v")))
    await hooks.mutate(
        hooks.webhook("/first", MAPS, reinvocationPolicy="IfNeeded"),
        hooks.webhook("/same", MAPS, reinvocationPolicy="IfNeeded"),
    )
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    assert [each.path for each in hooks.calls] == ["/first", "/same", "/first"]


async def test_a_webhook_that_did_not_match_at_first_is_not_called_in_the_second_round(
    api: API, ns: str, hooks: Hooks
) -> None:
    hooks.on("/label", patched(add("/metadata/labels", {"late": "yes"})))
    await hooks.mutate(
        hooks.webhook("/late", MAPS, reinvocationPolicy="IfNeeded", objectSelector={"matchLabels": {"late": "yes"}}),
        hooks.webhook("/label", MAPS),
    )
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    assert hooks.called("/late") == []


# What a webhook sees


async def test_a_review_of_a_create(api: API, ns: str, hooks: Hooks) -> None:
    await hooks.validate(hooks.webhook("/v", MAPS))
    (await api.post(f"{ns}/configmaps?fieldManager=me", config_map(k="v"))).expect(201)
    (call,) = hooks.calls
    request = dict(call.request)
    assert call.query == "timeout=5s"
    assert (call.review["kind"], call.review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    made, user = request.pop("object"), request.pop("userInfo")
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
    assert "system:masters" in user["groups"]
    assert request.pop("uid")
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a",
        "namespace": hooks.namespace,
        "operation": "CREATE",
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    }


async def test_a_generated_name_and_the_uid_are_known_to_validating_webhooks_only(
    api: API, ns: str, hooks: Hooks
) -> None:
    await hooks.mutate(hooks.webhook("/m", MAPS))
    await hooks.validate(hooks.webhook("/v", MAPS))
    body = {"metadata": {"generateName": "x-", "uid": "mine"}}
    made = (await api.post(f"{ns}/configmaps", body)).expect(201).json["metadata"]
    (mutated,), (validated,) = hooks.called("/m"), hooks.called("/v")
    assert "name" not in mutated
    assert "uid" not in mutated["object"]["metadata"]
    assert "name" not in mutated["object"]["metadata"]
    assert validated["name"] == made["name"]
    assert validated["object"]["metadata"]["uid"] == made["uid"]


async def test_updates_by_put_patch_and_apply_show_the_old_object(api: API, ns: str, hooks: Hooks) -> None:
    (await api.post(f"{ns}/configmaps", config_map(k="1"))).expect(201)
    await hooks.validate(hooks.webhook("/v", MAPS))
    (await api.put(f"{ns}/configmaps/a", config_map(k="2"))).expect(200)
    (await api.patch(f"{ns}/configmaps/a", {"data": {"k": "3"}})).expect(200)
    (await api.patch(f"{ns}/configmaps/a?fieldManager=f&force=true", config_map(k="4"), "apply")).expect(200)
    seen = hooks.called("/v")
    changes = [(each["oldObject"]["data"]["k"], each["object"]["data"]["k"]) for each in seen]
    assert changes == [("1", "2"), ("2", "3"), ("3", "4")]
    assert {each["operation"] for each in seen} == {"UPDATE"}
    assert {each["options"]["kind"] for each in seen} == {"UpdateOptions"}


async def test_a_create_by_put_or_apply_is_a_create(api: API, ns: str, hooks: Hooks) -> None:
    await hooks.validate(hooks.webhook("/v", rule("*", group="*")))
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}
    path = ns.replace("/api/v1", "/apis/coordination.k8s.io/v1")
    (await api.put(f"{path}/leases/l", lease)).expect(201)
    (await api.patch(f"{ns}/configmaps/a?fieldManager=f", config_map(k="v"), "apply")).expect(201)
    seen = hooks.called("/v")
    assert [(each["operation"], each["options"]["kind"]) for each in seen] == [("CREATE", "CreateOptions")] * 2


async def test_a_delete_has_only_an_old_object(api: API, ns: str, hooks: Hooks) -> None:
    (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201)
    await hooks.validate(hooks.webhook("/v", MAPS))
    (await api.delete(f"{ns}/configmaps/a?propagationPolicy=Background")).expect(200)
    (seen,) = hooks.called("/v")
    assert seen["object"] is None
    assert seen["oldObject"]["data"] == {"k": "v"}
    assert (seen["name"], seen["operation"]) == ("a", "DELETE")
    assert seen["options"]["propagationPolicy"] == "Background"


async def test_each_delete_of_a_collection_is_reviewed_without_a_name(api: API, ns: str, hooks: Hooks) -> None:
    for name in ("a", "b", "kept"):
        (await api.post(f"{ns}/configmaps", config_map(name, {"all": "yes"}))).expect(201)
    hooks.on("/v", lambda request: {"allowed": request["oldObject"]["metadata"]["name"] != "kept"})
    await hooks.validate(hooks.webhook("/v", MAPS))
    answer = (await api.delete(f"{ns}/configmaps?labelSelector=all%3Dyes")).expect(400)
    assert answer.message == 'admission webhook "v.hooks.example.com" denied the request without explanation'
    assert all("name" not in each for each in hooks.called("/v"))
    left = (await api.get(f"{ns}/configmaps?labelSelector=all%3Dyes")).json["items"]
    assert "kept" in [each["metadata"]["name"] for each in left]


async def test_a_status_update_is_reviewed_as_a_subresource(api: API, ns: str, hooks: Hooks) -> None:
    pods = ns + "/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    (await api.post(pods, pod)).expect(201)
    hooks.on("/status", patched(add("/metadata/labels", {"seen": "yes"}), add("/status/reason", "Because")))
    await hooks.mutate(
        hooks.webhook("/status", rule("pods/status")), hooks.webhook("/pods", rule("pods", operations=("UPDATE",)))
    )
    made = (await api.patch(f"{pods}/p/status", {"status": {"message": "m"}})).expect(200).json
    seen = next(each for each in hooks.called("/status") if each["object"]["status"].get("message") == "m")
    assert (seen["subResource"], seen["requestSubResource"], seen["kind"]["kind"]) == ("status", "status", "Pod")
    assert made["status"]["reason"] == "Because"
    assert made["metadata"]["labels"] == {"seen": "yes"}
    assert hooks.called("/pods") == []


async def test_a_scale_is_reviewed_as_a_scale(api: API, ns: str, hooks: Hooks) -> None:
    deployments = ns.replace("/api/v1", "/apis/apps/v1") + "/deployments"
    (await api.post(deployments, deployment("d"))).expect(201)
    hooks.on("/scale", patched(add("/spec/replicas", 0)))
    await hooks.mutate(hooks.webhook("/scale", rule("deployments/scale", group="apps")))
    made = (await api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 3}})).expect(200).json
    seen = hooks.called("/scale")[-1]  # a controller may have written the Deployment, then the request is tried again
    assert seen["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (seen["oldObject"]["spec"], seen["object"]["spec"]) == ({"replicas": 1}, {"replicas": 3})
    assert made["spec"] == {}
    assert (await api.get(f"{deployments}/d")).json["spec"]["replicas"] == 0


async def test_a_binding_and_an_eviction_are_creates_of_subresources(api: API, ns: str, hooks: Hooks) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}}
    (await api.post(f"{ns}/pods", pod)).expect(201)
    await hooks.validate(hooks.webhook("/v", rule("pods/*", operations=("CREATE",))))
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "nowhere"}}
    (await api.post(f"{ns}/pods/p/binding", target)).expect(201)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    (await api.post(f"{ns}/pods/p/eviction", eviction)).expect(201)
    binding, evicted = hooks.called("/v")
    assert (binding["subResource"], binding["kind"]["kind"]) == ("binding", "Binding")
    assert binding["object"]["target"] == {"kind": "Node", "name": "nowhere"}
    assert (evicted["subResource"], evicted["kind"]) == (
        "eviction", {"group": "policy", "version": "v1", "kind": "Eviction"}
    )  # fmt: skip


async def test_a_connection_is_reviewed_with_its_options_and_a_log_is_not(api: API, ns: str, hooks: Hooks) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}}
    (await api.post(f"{ns}/pods", pod)).expect(201)
    hooks.on("/v", {"allowed": False, "status": {"message": "no shells"}})
    await hooks.validate(hooks.webhook("/v", rule("pods/*", operations=("CONNECT",))))
    answer = (await api.post(f"{ns}/pods/p/exec?command=ls&command=-l&stdout=true", {})).expect(400)
    assert answer.message == 'admission webhook "v.hooks.example.com" denied the request: no shells'
    (seen,) = hooks.called("/v")
    assert seen["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdout": True,
        "command": ["ls", "-l"],
    }
    assert (seen["operation"], seen["oldObject"], seen["options"]) == ("CONNECT", None, None)
    await api.get(f"{ns}/pods/p/log")
    assert len(hooks.called("/v")) == 1


async def test_a_dry_run_is_reviewed_as_one(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/m", patched(add("/data/more", "yes")))
    await hooks.mutate(hooks.webhook("/m", MAPS, sideEffects="NoneOnDryRun"))
    made = (await api.post(f"{ns}/configmaps?dryRun=All", config_map(k="v"))).expect(201).json
    assert made["data"] == {"k": "v", "more": "yes"}
    (seen,) = hooks.called("/m")
    assert seen["dryRun"] is True
    (await api.get(f"{ns}/configmaps/a")).expect(404)


async def test_a_v1beta1_review_is_answered_without_a_uid(api: API, ns: str, hooks: Hooks) -> None:
    def answer(request: Object) -> bytes:
        return json.dumps({"response": {**patched(add("/data/more", "yes")), "patchType": None}}).encode()

    hooks.on("/m", answer)
    await hooks.mutate(hooks.webhook("/m", MAPS, admissionReviewVersions=["v9", "v1beta1", "v1"]))
    made = (await api.post(f"{ns}/configmaps", config_map(k="v"))).expect(201).json
    assert made["data"] == {"k": "v", "more": "yes"}
    assert hooks.calls[0].review["apiVersion"] == "admission.k8s.io/v1beta1"


# Matching


async def test_another_version_of_the_resource_is_equivalent(api: API, ns: str, hooks: Hooks) -> None:
    path = ns.replace("/api/v1", "/apis/autoscaling/v2") + "/horizontalpodautoscalers"
    v1 = rule("horizontalpodautoscalers", group="autoscaling", version="v1")
    hooks.on("/equivalent", patched(add("/spec/targetCPUUtilizationPercentage", 77)))
    await hooks.mutate(
        hooks.webhook("/equivalent", v1, matchPolicy="Equivalent"), hooks.webhook("/exact", v1, matchPolicy="Exact")
    )
    body = {
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    }
    made = (await api.post(path, body)).expect(201).json
    (seen,) = hooks.called()
    assert seen["kind"]["version"] == seen["resource"]["version"] == "v1"
    assert seen["requestKind"]["version"] == seen["requestResource"]["version"] == "v2"
    assert seen["object"]["apiVersion"] == "autoscaling/v1"
    assert made["apiVersion"] == "autoscaling/v2"
    assert made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 77


async def test_an_object_selector_matches_the_new_or_the_old_object(api: API, ns: str, hooks: Hooks) -> None:
    await hooks.validate(hooks.webhook("/v", MAPS, objectSelector={"matchLabels": {"on": "yes"}}))
    (await api.post(f"{ns}/configmaps", config_map("off"))).expect(201)
    assert hooks.called("/v") == []
    (await api.post(f"{ns}/configmaps", config_map("a", {"on": "yes"}))).expect(201)
    (await api.patch(f"{ns}/configmaps/a", {"metadata": {"labels": None}})).expect(200)
    (await api.patch(f"{ns}/configmaps/a", {"data": {"k": "v"}})).expect(200)
    assert [each["operation"] for each in hooks.called("/v")] == ["CREATE", "UPDATE"]


async def test_a_namespace_selector_sees_the_labels_of_the_namespace_that_is_written(api: API, hooks: Hooks) -> None:
    selector = {"matchLabels": {"team": hooks.namespace}}
    await hooks.validate(hooks.webhook("/v", rule("namespaces"), namespaceSelector=selector))
    name = f"{hooks.namespace}-2"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    assert hooks.called("/v") == []
    labels = {"metadata": {"labels": {"team": hooks.namespace}}}
    (await api.patch(f"/api/v1/namespaces/{name}", labels)).expect(200)
    (seen,) = hooks.called("/v")
    assert (seen["namespace"], seen["name"]) == (name, name)
    await api.delete(f"/api/v1/namespaces/{name}")


async def test_an_object_of_the_cluster_is_matched_whatever_the_namespace_selector(api: API, hooks: Hooks) -> None:
    await hooks.validate(hooks.webhook("/v", rule("clusterroles", group="rbac.authorization.k8s.io")))
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    (await api.post(path, {"metadata": {"name": hooks.namespace}, "rules": []})).expect(201)
    (await api.delete(f"{path}/{hooks.namespace}")).expect(200)
    ours = [each for each in hooks.called("/v") if each["name"] == hooks.namespace]
    assert [each["operation"] for each in ours] == ["CREATE", "DELETE"]


@pytest.mark.parametrize(("scope", "calls"), [("Namespaced", 1), ("Cluster", 0), ("*", 1)])
async def test_a_rule_may_be_for_one_scope(api: API, ns: str, hooks: Hooks, scope: str, calls: int) -> None:
    await hooks.validate(hooks.webhook("/v", {**MAPS, "scope": scope}))
    (await api.post(f"{ns}/configmaps", config_map())).expect(201)
    assert len(hooks.called("/v")) == calls


async def test_webhook_configurations_are_not_reviewed(api: API, hooks: Hooks) -> None:
    hooks.on("/v", {"allowed": False})
    await hooks.validate(hooks.webhook("/v", rule("*/*", group="admissionregistration.k8s.io")))
    body = {"metadata": {"name": f"empty-{hooks.namespace}"}}
    for kind in ("mutating", "validating"):
        (await api.post(f"{GROUP}/{kind}webhookconfigurations", body)).expect(201)
        (await api.delete(f"{GROUP}/{kind}webhookconfigurations/empty-{hooks.namespace}")).expect(200)
    assert hooks.called("/v") == []


async def test_all_match_conditions_must_be_true(api: API, ns: str, hooks: Hooks) -> None:
    conditions = [
        {"name": "create", "expression": "request.operation == 'CREATE' && request.namespace != 'kube-system'"},
        {"name": "named", "expression": "object.metadata.name.startsWith('x') && oldObject == null"},
        {"name": "permitted", "expression": "authorizer.requestResource.check('create').allowed()"},
        {
            "name": "denied",
            "expression": "!authorizer.serviceAccount('default', 'x').path('/x').check('get').allowed()",
        },
    ]
    await hooks.validate(hooks.webhook("/v", MAPS, matchConditions=conditions))
    (await api.post(f"{ns}/configmaps", config_map("a"))).expect(201)
    (await api.post(f"{ns}/configmaps", config_map("x"))).expect(201)
    (await api.patch(f"{ns}/configmaps/x", {"data": {"k": "v"}})).expect(200)
    assert [each["name"] for each in hooks.called("/v")] == ["x"]


async def test_a_condition_without_a_value_follows_the_failure_policy(api: API, ns: str, hooks: Hooks) -> None:
    broken = [{"name": "broken", "expression": "object.nope.nope"}]
    broken[0]["expression"] += " == 'x'"
    false = [*broken, {"name": "false", "expression": "request.name == 'other'"}]
    select = {"objectSelector": {"matchLabels": {"fails": "yes"}}}
    await hooks.validate(
        hooks.webhook("/ignored", MAPS, matchConditions=broken, failurePolicy="Ignore"),
        hooks.webhook("/skipped", MAPS, matchConditions=false, failurePolicy="Fail"),
        hooks.webhook("/failing", MAPS, matchConditions=broken, failurePolicy="Fail", **select),
    )
    (await api.post(f"{ns}/configmaps", config_map("a"))).expect(201)
    answer = (await api.post(f"{ns}/configmaps", config_map("b", {"fails": "yes"}))).expect(403)
    why = "expression 'object.nope.nope == 'x'' resulted in error: no such key: nope"
    assert answer.message == f'configmaps "b" is forbidden: {why}'
    assert hooks.calls == []


async def test_conditions_have_a_budget(api: API, ns: str, hooks: Hooks) -> None:
    checks = " && ".join(["authorizer.requestResource.check('create').allowed()"] * 2)
    conditions = [{"name": f"c{index}", "expression": checks} for index in range(4)]
    select = {"matchLabels": {"costly": "yes"}}
    await hooks.validate(hooks.webhook("/v", MAPS, matchConditions=conditions, objectSelector=select))
    answer = (await api.post(f"{ns}/configmaps", config_map("a", {"costly": "yes"}))).expect(403)
    assert answer.message.endswith("running out of cost budget, no further validation rules will be run")


# Answers


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


# Configurations


async def test_the_defaults_of_a_configuration(api: API, hooks: Hooks) -> None:
    path, name = f"{GROUP}/mutatingwebhookconfigurations", f"defaults-{hooks.namespace}"
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"service": {"name": "s", "namespace": "nowhere"}},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["x"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made = (await api.post(path, {"metadata": {"name": name}, "webhooks": [webhook]})).expect(201).json
    assert made["metadata"]["generation"] == 1
    assert made["webhooks"] == [
        {
            "name": "a.example.com",
            "clientConfig": {"service": {"name": "s", "namespace": "nowhere", "port": 443}},
            "rules": [{**webhook["rules"][0], "scope": "*"}],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": "Never",
        }
    ]
    again = (await api.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})).expect(200).json
    assert again["metadata"]["generation"] == 1
    unconditional = {"metadata": {"name": name}, "webhooks": [webhook]}
    answer = (await api.put(f"{path}/{name}", unconditional)).expect(422)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message
    (await api.delete(f"{path}/{name}")).expect(200)


async def test_the_faults_of_a_configuration(api: API) -> None:
    ok = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://a/"}}
    webhooks: list[Object] = [
        {
            "name": "short",
            "failurePolicy": "X",
            "matchPolicy": "Y",
            "sideEffects": "Some",
            "timeoutSeconds": 31,
            "reinvocationPolicy": "Z",
            "clientConfig": {"url": "http://u:p@a/?q#f"},
            "admissionReviewVersions": ["v1", "v1", "No"],
            "rules": [
                {
                    "operations": ["CREATE", "*", "FOO"],
                    "apiGroups": ["*", "a"],
                    "apiVersions": ["", "*"],
                    "resources": ["pods/*", "pods/x", "*/y", "a/y", "*/*", ""],
                    "scope": "Q",
                },
                {"resources": ["*", "pods"]},
            ],
            "matchConditions": [
                {"name": "a", "expression": "x"},
                {"name": "a", "expression": "1"},
                {"name": "a b", "expression": " "},
                {"name": "dyn", "expression": "object.x"},
            ],
            "namespaceSelector": {"matchLabels": {"a b": "c"}},
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
        },
        {},
        {**ok, "name": "a.example.com", "clientConfig": {"service": {"name": "s", "path": "x//Y/", "port": 70000}}},
        {**ok, "name": "a.example.com", "clientConfig": {"url": "https://a", "service": {"name": "s"}}},
        {**ok, "name": "b.example.com", "admissionReviewVersions": ["v9"], "clientConfig": {"url": "https://a:x/"}},
        {**ok, "name": "c.example.com", "clientConfig": {"url": "https:///x"}, "timeoutSeconds": 0},
        {**ok, "name": "Not.A.Name"},
    ]  # fmt: skip
    body = {"metadata": {"name": "faults"}, "webhooks": webhooks}
    answer = (await api.post(f"{GROUP}/mutatingwebhookconfigurations", body)).expect(422)
    assert [(field, text) for _, field, text in answer.causes] == CONFIGURATION_FAULTS


CONFIGURATION_FAULTS: list[tuple[str, str]] = [
    (
        "webhooks[0].name",
        'Invalid value: "short": should be a domain with at least three segments separated by dots',
    ),
    (
        "webhooks[0].rules[0].operations",
        'Invalid value: ["CREATE","*","FOO"]: if \'*\' is present, must not specify other operations',
    ),
    (
        "webhooks[0].rules[0].operations[2]",
        'Unsupported value: "FOO": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
    ),
    (
        "webhooks[0].rules[0].apiGroups",
        'Invalid value: ["*","a"]: if \'*\' is present, must not specify other API groups',
    ),
    (
        "webhooks[0].rules[0].apiVersions",
        'Invalid value: ["","*"]: if \'*\' is present, must not specify other API versions',
    ),
    (
        "webhooks[0].rules[0].apiVersions[0]",
        "Required value",
    ),
    (
        "webhooks[0].rules[0].resources[1]",
        "Invalid value: \"pods/x\": if 'pods/*' is present, must not specify pods/x",
    ),
    (
        "webhooks[0].rules[0].resources[3]",
        "Invalid value: \"a/y\": if '*/y' is present, must not specify a/y",
    ),
    (
        "webhooks[0].rules[0].resources[5]",
        "Required value",
    ),
    (
        "webhooks[0].rules[0].resources",
        'Invalid value: ["pods/*","pods/x","*/y","a/y","*/*",""]: if \'*/*\' is present, must not '
        "specify other resources",
    ),
    (
        "webhooks[0].rules[0].scope",
        'Unsupported value: "Q": supported values: "*", "Cluster", "Namespaced"',
    ),
    (
        "webhooks[0].rules[1].operations",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].apiGroups",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].apiVersions",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].resources",
        'Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources without subresources',
    ),
    (
        "webhooks[0].failurePolicy",
        'Unsupported value: "X": supported values: "Fail", "Ignore"',
    ),
    (
        "webhooks[0].matchPolicy",
        'Unsupported value: "Y": supported values: "Equivalent", "Exact"',
    ),
    (
        "webhooks[0].sideEffects",
        'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    (
        "webhooks[0].timeoutSeconds",
        "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    (
        "webhooks[0].namespaceSelector.matchLabels",
        "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
        "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    (
        "webhooks[0].objectSelector.matchExpressions[0].values",
        "Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    (
        "webhooks[0].reinvocationPolicy",
        'Unsupported value: "Z": supported values: "IfNeeded", "Never"',
    ),
    (
        "webhooks[0].clientConfig.url",
        "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "u:p": user information is not permitted in the URL',
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "f": fragments are not permitted in the URL',
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "q": query parameters are not permitted in the URL',
    ),
    (
        "webhooks[0].matchConditions[0].expression",
        "Invalid value: \"x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' "
        "(in container '')\n | x\n | ^",
    ),
    (
        "webhooks[0].matchConditions[1].expression",
        'Invalid value: "1": must evaluate to bool but got int',
    ),
    (
        "webhooks[0].matchConditions[1].name",
        'Duplicate value: "a"',
    ),
    (
        "webhooks[0].matchConditions[2].expression",
        "Required value",
    ),
    (
        "webhooks[0].matchConditions[2].name",
        "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
        "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    (
        "webhooks[0].matchConditions[3].expression",
        'Invalid value: "object.x": must evaluate to bool but got dyn',
    ),
    (
        "webhooks[0].admissionReviewVersions[1]",
        'Invalid value: "v1": duplicate version',
    ),
    (
        "webhooks[0].admissionReviewVersions[2]",
        'Invalid value: "No": a DNS-1035 label must consist of lower case alphanumeric characters or '
        "'-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
        "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    ),
    (
        "webhooks[1].name",
        "Required value",
    ),
    (
        "webhooks[1].sideEffects",
        "Required value: must specify one of None, NoneOnDryRun",
    ),
    (
        "webhooks[1].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        "webhooks[1].admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
    (
        "webhooks[2].clientConfig.service.name",
        "Required value",
    ),
    (
        "webhooks[2].clientConfig.service.port",
        "Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
    ),
    (
        "webhooks[2].clientConfig.service.path",
        "Invalid value: \"x//Y/\": must start with a '/'",
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[0] may not be empty',
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[1] may not be empty',
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[2]: a lowercase RFC 1123 subdomain must consist of lower '
        "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
    (
        "webhooks[3].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        "webhooks[3].name",
        'Duplicate value: "a.example.com"',
    ),
    (
        "webhooks[4].clientConfig.url",
        'Required value: url must be a valid URL: parse "https://a:x/": invalid port ":x" after '
        "host; desired format: https://host[/path]",
    ),
    (
        "webhooks[4].admissionReviewVersions",
        'Invalid value: ["v9"]: must include at least one of v1, v1beta1',
    ),
    (
        "webhooks[5].timeoutSeconds",
        "Invalid value: 0: the timeout value must be between 1 and 30 seconds",
    ),
    (
        "webhooks[5].clientConfig.url",
        'Invalid value: "": host must be specified; desired format: https://host[/path]',
    ),
    (
        "webhooks[6].name",
        'Invalid value: "Not.A.Name": a lowercase RFC 1123 subdomain must consist of lower case '
        "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
]


def deployment(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
