"""Webhooks in the process of the server: what they see, and when they are called."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kubewright.http.message import Request, Response
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.admission.webhooks.harness import ALLOW, GROUP, Webhooks, answering, configure, patch, review_answer
from unit.apiserver.harness import ADMIN, API, CONFIG_MAPS, MERGE


async def test_a_webhook_in_this_process_needs_no_port(api: API, webhooks: Webhooks) -> None:
    seen: list[Request] = []

    async def handle(request: Request) -> Response:
        seen.append(request)
        return review_answer(request, {"allowed": False, "status": {"message": "no"}})

    webhooks["hooks.test"] = handle
    await configure(api)
    status = await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" denied the request: no'
    assert (seen[0].method, seen[0].target) == ("POST", "/x?timeout=10s")
    assert seen[0].headers["content-type"] == "application/json"
    webhooks["hooks.test"] = ALLOW
    await api.config_map("a")


async def test_a_webhook_of_a_service_in_this_process_has_the_name_of_the_service(api: API, webhooks: Webhooks) -> None:
    webhooks["s.default.svc"] = answering(patch({"op": "add", "path": "/data", "value": {"k": "v"}}))
    await configure(api, "mutating", clientConfig={"service": {"name": "s", "namespace": "default", "path": "/p"}})
    assert (await api.config_map("a"))["data"] == {"k": "v"}


async def test_a_removed_or_changed_configuration_has_an_effect_at_once(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = answering({"allowed": False})
    await configure(api)
    await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    path = f"{GROUP}/validatingwebhookconfigurations/c"
    changed = [{"op": "replace", "path": "/webhooks/0/rules/0/resources/0", "value": "secrets"}]
    await api.ok("PATCH", path, changed, content_type="application/json-patch+json")
    await api.config_map("a")
    await api.ok("DELETE", path)
    await api.ok("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})


async def test_configurations_are_found_again_after_a_restart(
    tmp_path: Path, clock: VirtualClock, webhooks: Webhooks
) -> None:
    webhooks["hooks.test"] = answering({"allowed": False})
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, webhooks=webhooks, data=tmp_path)
    server = APIServer(options)
    await server.start()
    await configure(API(server, clock))
    await server.close()
    server = APIServer(options)
    await server.start()
    await API(server, clock).rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await server.close()


async def test_a_dry_run_is_rejected_if_a_webhook_has_side_effects_then(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = ALLOW
    await configure(api)
    stored = api.server.resources.registry("validatingwebhookconfigurations.admissionregistration.k8s.io")
    configuration = stored.read("c")
    assert configuration is not None
    configuration["webhooks"][0]["sideEffects"] = "Some"  # as an older server may have stored it
    stored.commit(configuration)
    status = await api.rejected(400, "POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" does not support dry run'
    await api.config_map("a")


async def test_a_webhook_of_a_custom_kind_sees_and_changes_its_version(api: API, webhooks: Webhooks) -> None:
    seen: list[dict[str, Any]] = []
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}},
    }
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    crd = {
        "metadata": {"name": "webs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "webs", "kind": "Web"},
            "versions": versions,
        },
    }
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    answer = patch({"op": "add", "path": "/spec", "value": {}}, {"op": "add", "path": "/bogus", "value": 1})

    async def handle(request: Request) -> Response:
        seen.append(json.loads(request.body)["request"])
        return review_answer(request, answer)

    webhooks["hooks.test"] = handle
    rules = [{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["webs"]}]
    await configure(api, "mutating", rules=rules)
    body = {"apiVersion": "example.com/v2", "kind": "Web", "metadata": {"name": "w"}}
    made = await api.ok("POST", "/apis/example.com/v2/namespaces/default/webs", body)
    assert (made["apiVersion"], made["spec"]) == ("example.com/v2", {"size": 1})
    assert "bogus" not in made
    assert seen[0]["object"]["apiVersion"] == "example.com/v1"
    assert (seen[0]["kind"]["version"], seen[0]["requestKind"]["version"]) == ("v1", "v2")


async def test_a_namespace_that_does_not_exist_is_reported_if_a_selector_asks_for_it(
    api: API, webhooks: Webhooks
) -> None:
    webhooks["hooks.test"] = ALLOW
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    await configure(api, rules=rules, namespaceSelector={"matchLabels": {"a": "b"}})
    review = {"metadata": {"namespace": "nons"}, "spec": {"user": "x", "resourceAttributes": {"namespace": "nons"}}}
    path = "/apis/authorization.k8s.io/v1/namespaces/nons/localsubjectaccessreviews"
    status = await api.rejected(404, "POST", path, review)
    assert status["message"] == 'namespaces "nons" not found'


async def test_quotas_are_checked_after_the_webhooks(api: API, webhooks: Webhooks) -> None:
    gate = asyncio.Event()

    async def handle(request: Request) -> Response:
        await gate.wait()
        return review_answer(request, {"allowed": True})

    webhooks["hooks.test"] = handle
    await api.ok(
        "POST",
        "/api/v1/namespaces/default/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}},
    )
    await configure(api)
    writes = [asyncio.create_task(api("POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}})) for i in range(4)]
    await asyncio.sleep(1)
    gate.set()
    codes = sorted([(await each).status for each in writes])
    assert codes.count(403) == 4 - codes.count(201)
    found = await api.ok("GET", CONFIG_MAPS)
    assert len(found["items"]) == 2


async def test_audit_annotations_are_logged_also_those_of_a_denial(
    api: API, webhooks: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    webhooks["hooks.test"] = answering({"allowed": False, "auditAnnotations": {"why": "too late"}})
    await configure(api)
    await api.rejected(400, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    (line,) = [each for each in caplog.records if each.msg == "Audit annotation recorded"]
    assert line.fields == {"key": "hook.example.com/why", "value": "too late"}  # type: ignore[attr-defined]


async def test_a_webhook_that_keeps_changing_the_object_is_called_twice(api: API, webhooks: Webhooks) -> None:
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        return review_answer(request, patch({"op": "add", "path": "/data", "value": {"calls": str(calls)}}))

    webhooks["hooks.test"] = handle
    await configure(api, "mutating", "a", reinvocationPolicy="IfNeeded")
    await configure(api, "mutating", "b", reinvocationPolicy="IfNeeded")
    made = await api.config_map("a")
    assert made["data"] == {"calls": "4"}


async def test_a_write_whose_object_always_changes_meanwhile_is_a_conflict(api: API, webhooks: Webhooks) -> None:
    await api.config_map("a")
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        registry = api.server.resources.registry("configmaps")
        target = registry.open("a", "default")
        registry.replace(target, {**target.draft(), "data": {"other": str(calls)}})
        return review_answer(request, {"allowed": True, "warnings": ["called"]})

    webhooks["hooks.test"] = handle
    await configure(api)
    response = await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    assert response.status == 409
    assert calls == 5
    assert response.headers["warning"] == '299 - "called"'
