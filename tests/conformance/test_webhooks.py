"""Admission webhooks: which are called, in which order, and what they see."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from conformance.hooks import GROUP, Hooks, Object, add, config_map, deployment, patched, rule
from conformance.rawapi import API, Answer, until

MAPS = rule("configmaps")


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
    changes = {each["object"]["data"]["k"]: each["oldObject"]["data"]["k"] for each in seen}
    assert changes == {"2": "1", "3": "2", "4": "3"}  # a real API server may try a write again, with a newer object
    assert {each["operation"] for each in seen} == {"UPDATE"}
    assert {each["options"]["kind"] for each in seen} == {"UpdateOptions"}


async def test_a_mutating_webhook_sees_a_put_as_the_client_sent_it(api: API, ns: str, hooks: Hooks) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map(k="1"))).expect(201).json["metadata"]
    await hooks.mutate(hooks.webhook("/m", MAPS))
    await hooks.validate(hooks.webhook("/v", MAPS))
    body = config_map(k="2")
    body["metadata"] |= {"generation": 7, "selfLink": "/mine", "creationTimestamp": "2020-01-01T00:00:00Z"}
    (await api.put(f"{ns}/configmaps/a?fieldManager=me", body)).expect(200)
    mutated, validated = hooks.called("/m")[-1], hooks.called("/v")[-1]  # a real API server may try the write again
    seen = mutated["object"]["metadata"]
    assert {each["manager"] for each in seen.pop("managedFields")} == {"conformance", "me"}
    assert seen == {**body["metadata"], "namespace": hooks.namespace}
    final = validated["object"]["metadata"]
    assert [final[key] for key in ("uid", "creationTimestamp")] == [made["uid"], made["creationTimestamp"]]
    assert "generation" not in final


async def test_a_mutating_webhook_sees_the_status_of_a_put(api: API, ns: str, hooks: Hooks) -> None:
    path = f"{ns}/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {"a": "b"}, "template": template}}
    (await api.post(path, body)).expect(201)
    updates = rule("replicationcontrollers", operations=("UPDATE",))
    await hooks.mutate(hooks.webhook("/m", updates))
    await hooks.validate(hooks.webhook("/v", updates))
    (await api.put(f"{path}/a", body | {"status": {"replicas": 5}})).expect(200)
    mutated, validated = hooks.called("/m")[-1], hooks.called("/v")[-1]
    assert mutated["object"]["status"]["replicas"] == 5
    assert validated["object"]["status"]["replicas"] == 0


async def test_a_write_of_an_old_version_is_refused_after_the_mutating_webhooks(
    api: API, ns: str, hooks: Hooks
) -> None:
    (await api.post(f"{ns}/configmaps", config_map(k="1"))).expect(201)
    await hooks.mutate(hooks.webhook("/m", MAPS))
    await hooks.validate(hooks.webhook("/v", MAPS))
    body = config_map(k="2")
    body["metadata"]["resourceVersion"] = "1"
    (await api.put(f"{ns}/configmaps/a", body)).expect(409)
    assert hooks.called("/m")
    assert not hooks.called("/v")


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
    assert list(dict.fromkeys(each["operation"] for each in hooks.called("/v"))) == ["CREATE", "UPDATE"]


async def test_a_namespace_selector_sees_the_labels_of_the_namespace_that_is_written(api: API, hooks: Hooks) -> None:
    selector = {"matchLabels": {"team": hooks.namespace}}
    await hooks.validate(hooks.webhook("/v", rule("namespaces"), namespaceSelector=selector))
    name = f"{hooks.namespace}-2"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    assert hooks.called("/v") == []
    labels = {"metadata": {"labels": {"team": hooks.namespace}}}
    (await api.patch(f"/api/v1/namespaces/{name}", labels)).expect(200)
    assert {(each["namespace"], each["name"]) for each in hooks.called("/v")} == {(name, name)}
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


# Writes that wait at the same time


async def test_two_services_that_wait_for_a_webhook_never_share_an_address(api: API, ns: str, hooks: Hooks) -> None:
    def service(name: str, ip: str = "", port: int = 0) -> Object:
        chosen = {"clusterIP": ip} if ip else {}
        ports = [{"port": 80, "nodePort": port} if port else {"port": 80}]
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports, **chosen}}

    async def create_both(**wanted: Any) -> list[Answer]:
        async with hooks.answering_together("/slow", 2) as answers:
            return await asyncio.gather(
                *(answers.of(api.post(f"{ns}/services", service(name, **wanted))) for name in ("a", "b"))
            )

    free = (await api.post(f"{ns}/services", service("c"))).expect(201).json["spec"]
    (await api.delete(f"{ns}/services/c")).expect(200)
    await hooks.validate(hooks.webhook("/slow", rule("services", operations=("CREATE",)), timeoutSeconds=30))
    for wanted in ({"ip": free["clusterIP"]}, {"port": free["ports"][0]["nodePort"]}):
        both = await create_both(**wanted)
        assert sorted(each.status for each in both) == [201, 422], wanted
        assert "already allocated" in max(both, key=lambda each: each.status).message
        for name in ("a", "b"):
            await api.delete(f"{ns}/services/{name}")
    both = await create_both()
    assert [each.status for each in both] == [201, 201]
    assert len({each.json["spec"]["clusterIP"] for each in both}) == 2


async def test_two_writes_that_wait_for_a_webhook_never_exceed_a_quota(api: API, ns: str, hooks: Hooks) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "1"}}}
    (await api.post(f"{ns}/resourcequotas", quota)).expect(201)

    async def is_counted() -> bool:
        return "used" in (await api.get(f"{ns}/resourcequotas/q")).json.get("status", {})

    await until(is_counted)
    await hooks.validate(hooks.webhook("/slow", rule("secrets"), timeoutSeconds=30))
    async with hooks.answering_together("/slow", 2) as answers:
        both = await asyncio.gather(
            *(answers.of(api.post(f"{ns}/secrets", {"metadata": {"name": name}})) for name in ("a", "b"))
        )
    assert sorted(each.status for each in both) == [201, 403]
