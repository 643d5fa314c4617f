"""Admission webhooks and policies of other kinds than ConfigMaps, and what happens when they are changed or removed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.hooks import ALLOWED, GROUP, Hooks, Object, add, cause, config_map, patched, rule
from conformance.policies import VALIDATING, VALIDATING_BINDINGS
from conformance.rawapi import API, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Stones:
    """A kind with two versions that differ in their name only, and paths to its objects."""

    def __init__(self, api: API, ns: str) -> None:
        self.api = api
        self.group = f"g{secrets.token_hex(4)}.example.com"
        self.definition = f"{CRDS}/stones.{self.group}"
        self._namespace = ns.rpartition("/")[2]

    def path(self, version: str = "v1") -> str:
        return f"/apis/{self.group}/{version}/namespaces/{self._namespace}/stones"

    def body(self, name: str = "a", version: str = "v1", **spec: Any) -> Object:
        return {"apiVersion": f"{self.group}/{version}", "kind": "Stone", "metadata": {"name": name}, "spec": spec}

    def document(self, stored: str, **labels: str) -> Object:
        spec = {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        versions = [
            {"name": each, "served": True, "storage": each == stored, "schema": schema} for each in ("v1", "v2")
        ]
        names = {"plural": "stones", "kind": "Stone"}
        return {
            "metadata": {"name": f"stones.{self.group}", "labels": labels},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": versions},
        }


@pytest_asyncio.fixture
async def stones(api: API, ns: str) -> AsyncIterator[Stones]:
    stones = Stones(api, ns)
    (await api.post(CRDS, stones.document("v1"))).expect(201)

    async def are_served() -> bool:
        return {(await api.get(stones.path(version))).status for version in ("v1", "v2")} == {200}

    await until(are_served)
    yield stones
    await api.delete(stones.definition)


async def test_the_discovery_lists_what_configures_admission(api: API) -> None:
    group = (await api.get("/apis/admissionregistration.k8s.io")).expect(200).json
    assert "admissionregistration.k8s.io/v1" in [each["groupVersion"] for each in group["versions"]]
    resources = {each["name"]: each for each in (await api.get(GROUP)).expect(200).json["resources"]}
    for name in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        assert set(resources[name]["verbs"]) == {
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"
        }  # fmt: skip
        assert resources[name]["namespaced"] is False
    assert "validatingadmissionpolicies/status" in resources


async def test_writes_of_custom_resources_are_denied(api: API, hooks: Hooks, stones: Stones) -> None:
    def judge(request: Object) -> Object:
        obj = request["object"] or request["oldObject"]
        return {"allowed": obj["spec"].get("color") != f"no-{request['operation'].lower()}"}

    hooks.on("/v", judge)
    for color in ("no-update", "no-delete"):
        (await api.post(stones.path(), stones.body(color, color="red"))).expect(201)
    await hooks.validate(hooks.webhook("/v", rule("stones", group=stones.group)))
    (await api.post(stones.path(), stones.body("new", color="no-create"))).expect(400)
    (await api.patch(f"{stones.path()}/no-update", {"spec": {"color": "no-update"}})).expect(400)
    (await api.patch(f"{stones.path()}/no-delete", {"spec": {"color": "no-delete"}})).expect(200)
    (await api.delete(f"{stones.path()}/no-delete")).expect(400)
    (await api.delete(f"{stones.path()}/no-update")).expect(200)
    assert {each["kind"]["kind"] for each in hooks.called("/v")} == {"Stone"}


async def test_unknown_fields_that_a_webhook_adds_to_a_custom_resource_are_pruned(
    api: API, hooks: Hooks, stones: Stones
) -> None:
    hooks.on("/first", patched(add("/spec/color", "blue"), add("/spec/unknown", "x")))
    hooks.on("/second", patched(add("/spec/size", 3)))
    await hooks.mutate(
        hooks.webhook("/first", rule("stones", group=stones.group)),
        hooks.webhook("/second", rule("stones", group=stones.group)),
    )
    await hooks.validate(hooks.webhook("/v", rule("stones", group=stones.group)))
    made = (await api.post(stones.path(), stones.body())).expect(201).json
    assert made["spec"] == {"color": "blue", "size": 3}
    (second,), (validated,) = hooks.called("/second"), hooks.called("/v")
    assert second["object"]["spec"] == {"color": "blue", "unknown": "x"}
    assert validated["object"]["spec"] == {"color": "blue", "unknown": "x", "size": 3}
    assert (await api.get(f"{stones.path()}/a")).json["spec"] == made["spec"]


async def test_a_webhook_sees_its_version_whatever_is_stored(api: API, hooks: Hooks, stones: Stones) -> None:
    (await api.post(stones.path("v1"), stones.body("old"))).expect(201)
    hooks.on("/m", patched(add("/spec/size", 1)))
    await hooks.mutate(hooks.webhook("/m", rule("stones", group=stones.group, version="v1")))
    versions = stones.document("v2")["spec"]["versions"]
    (await api.patch(stones.definition, {"spec": {"versions": versions}})).expect(200)
    made = (await api.post(stones.path("v2"), stones.body("new", "v2"))).expect(201).json
    changed = (await api.patch(f"{stones.path('v2')}/old", {"spec": {"color": "red"}})).expect(200).json
    assert (made["apiVersion"], made["spec"]) == (f"{stones.group}/v2", {"size": 1})
    assert (changed["apiVersion"], changed["spec"]) == (f"{stones.group}/v2", {"color": "red", "size": 1})
    assert {each["object"]["apiVersion"] for each in hooks.called("/m")} == {f"{stones.group}/v1"}


async def test_the_creation_of_a_definition_is_denied(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/v", {"allowed": False, "status": {"message": "no such kinds"}})
    label = f"l{secrets.token_hex(4)}"
    definitions = rule("customresourcedefinitions", group="apiextensions.k8s.io", operations=("CREATE",))
    await hooks.validate(hooks.webhook("/v", definitions, objectSelector={"matchLabels": {label: "yes"}}))
    stones = Stones(api, ns)
    answer = (await api.post(CRDS, stones.document("v1", **{label: "yes"}))).expect(400)
    assert answer.message == 'admission webhook "v.hooks.example.com" denied the request: no such kinds'
    (await api.get(stones.definition)).expect(404)


async def test_attaching_to_a_pod_is_denied(api: API, ns: str, hooks: Hooks) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}}
    (await api.post(f"{ns}/pods", pod)).expect(201)
    hooks.on("/v", {"allowed": False, "status": {"message": "keep out"}})
    await hooks.validate(hooks.webhook("/v", rule("pods/attach", operations=("CONNECT",))))
    answer = (await api.post(f"{ns}/pods/p/attach?stdout=true&container=c", {})).expect(400)
    assert answer.message == 'admission webhook "v.hooks.example.com" denied the request: keep out'
    (seen,) = hooks.called("/v")
    assert (seen["object"]["kind"], seen["object"]["container"]) == ("PodAttachOptions", "c")


async def test_a_webhook_has_as_long_as_its_timeout(api: API, ns: str, hooks: Hooks) -> None:
    async def hesitate() -> None:
        await asyncio.sleep(1.2)

    selectors = {name: {"matchLabels": {"case": name}} for name in ("short", "ignored", "long")}
    await hooks.validate(
        hooks.webhook("/short", rule("configmaps"), objectSelector=selectors["short"], timeoutSeconds=1),
        hooks.webhook(
            "/ignored",
            rule("configmaps"),
            objectSelector=selectors["ignored"],
            timeoutSeconds=1,
            failurePolicy="Ignore",
        ),
        hooks.webhook("/long", rule("configmaps"), objectSelector=selectors["long"], timeoutSeconds=30),
    )

    async def create(name: str) -> Any:
        async with hooks.before_answer(f"/{name}", hesitate, times=1):
            return await api.post(f"{ns}/configmaps", config_map(name, {"case": name}))

    short, ignored, long = await asyncio.gather(*map(create, selectors))
    short.expect(500)
    assert cause(short).endswith("context deadline exceeded"), short.message
    ignored.expect(201)
    long.expect(201)
    assert hooks.called("/long")


async def test_a_changed_configuration_is_used(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/m", patched(add("/metadata/annotations", {"seen": "yes"})))
    await hooks.mutate(hooks.webhook("/m", rule("configmaps")))
    (await api.post(f"{ns}/configmaps", config_map("a"))).expect(201)
    assert len(hooks.called("/m")) == 1
    path = f"{GROUP}/mutatingwebhookconfigurations/m-{hooks.namespace}"

    async def creates_annotated(expected: bool) -> bool:
        made = (await api.post(f"{ns}/configmaps?dryRun=All", config_map("b"))).expect(201).json
        return ("annotations" in made["metadata"]) is expected

    operations = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["UPDATE"]}]
    (await api.patch(path, operations, "json")).expect(200)
    await until(lambda: creates_annotated(False))
    operations = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}]
    (await api.patch(path, operations, "json")).expect(200)
    await until(lambda: creates_annotated(True))
    condition = [{"name": "skip", "expression": "object.metadata.name != 'b'"}]
    (await api.patch(path, [{"op": "add", "path": "/webhooks/0/matchConditions", "value": condition}], "json")).expect(
        200
    )
    await until(lambda: creates_annotated(False))


async def test_a_removed_collection_of_configurations_is_not_used(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/v", {"allowed": False})
    await hooks.validate(hooks.webhook("/v", rule("configmaps")), name="one")
    await hooks.validate(hooks.webhook("/v", rule("configmaps")), name="two")
    label = f"l{secrets.token_hex(4)}"
    path = f"{GROUP}/validatingwebhookconfigurations"
    for name in ("one", "two"):
        labels = {"metadata": {"labels": {label: "yes"}}}
        (await api.patch(f"{path}/{name}-{hooks.namespace}", labels)).expect(200)
    (await api.post(f"{ns}/configmaps", config_map("a"))).expect(400)
    listed = (await api.get(f"{path}?labelSelector={label}")).expect(200).json["items"]
    assert [each["metadata"]["name"] for each in listed] == [f"{name}-{hooks.namespace}" for name in ("one", "two")]
    (await api.delete(f"{path}?labelSelector={label}")).expect(200)

    async def is_created() -> bool:
        return (await api.post(f"{ns}/configmaps", config_map("a"))).status == 201

    await until(is_created)


async def test_a_policy_and_its_binding_are_ordinary_objects(api: API, ns: str) -> None:
    label = f"l{secrets.token_hex(4)}"
    metadata = {"name": label, "labels": {label: "yes"}}
    constraints = {"resourceRules": [rule("configmaps")], "namespaceSelector": {"matchLabels": {label: "nowhere"}}}
    policy = {"metadata": metadata, "spec": {"matchConstraints": constraints, "validations": [{"expression": "true"}]}}
    binding = {"metadata": metadata, "spec": {"policyName": label, "validationActions": ["Deny"]}}
    for path, body in ((VALIDATING, policy), (VALIDATING_BINDINGS, binding)):
        watch = await api.watch(f"{path}?watch=true&labelSelector={label}")
        (await api.post(path, body)).expect(201)
        assert (await watch.next())["type"] == "ADDED"
        listed = (await api.get(f"{path}?labelSelector={label}")).expect(200).json["items"]
        assert [each["metadata"]["name"] for each in listed] == [label]
        (await api.patch(f"{path}/{label}", {"metadata": {"annotations": {"a": "b"}}})).expect(200)
        target = f"{path}/{label}"

        async def annotate(target: str = target) -> Any:  # again if a controller has written the status meanwhile
            document = (await api.get(target)).json
            document["metadata"]["annotations"] = {"a": "c"}
            answer = await api.put(target, document)
            return answer.json if answer.status == 200 else None

        updated = await until(annotate)
        assert updated["metadata"]["generation"] == 1
        assert updated["metadata"]["annotations"] == {"a": "c"}
        assert (await watch.next())["type"] == "MODIFIED"
        await watch.close()
    status = f"{VALIDATING}/{label}/status"
    (await api.get(status)).expect(200)
    now = "2026-01-01T00:00:00Z"
    condition = {"type": "Checked", "status": "False", "reason": "Because", "message": "", "lastTransitionTime": now}
    kept = (await api.patch(status, {"status": {"conditions": [condition]}}, "merge")).expect(200).json
    assert kept["status"]["conditions"] == [condition]
    for path in (VALIDATING_BINDINGS, VALIDATING):
        (await api.delete(f"{path}?labelSelector={label}")).expect(200)
        (await api.get(f"{path}/{label}")).expect(404)


async def test_a_webhook_that_allows_everything_changes_nothing(api: API, ns: str, hooks: Hooks) -> None:
    hooks.on("/m", ALLOWED)
    await hooks.mutate(hooks.webhook("/m", rule("*", group="*", operations=("*",))))
    made = (await api.post(f"{ns}/configmaps", config_map("a", k="v"))).expect(201).json
    again = (await api.put(f"{ns}/configmaps/a", made)).expect(200).json
    assert again == made
