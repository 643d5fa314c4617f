"""Large requests do not delay small ones, and their writes are as atomic."""

from __future__ import annotations

import asyncio
import gc
import gzip
from typing import Any

import pytest

from unit.apiserver.harness import API, CONFIG_MAPS, MERGE

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LISTS = "/apis/example.com/v1/namespaces/default/lists"
LARGE = "x" * 40_000


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def many_lines(name: str) -> bytes:
    """Return a ConfigMap in YAML that takes long to read."""
    return f"metadata: {{name: {name}}}\ndata:\n".encode() + b"".join(b" k%d: v\n" % i for i in range(5000))


async def start(request: Any) -> asyncio.Task[Any]:
    """Start a request, which then waits for the worker."""
    task = asyncio.create_task(request)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def served_meanwhile(api: API, request: Any) -> Any:
    """Return the answer to a request during which another one was served."""
    task = await start(request)
    await api.ok("GET", "/api/v1/namespaces/default")
    assert not task.done()
    return await task


async def test_others_are_served_while_a_large_body_is_read(api: API) -> None:
    response = await served_meanwhile(
        api, api("POST", CONFIG_MAPS, many_lines("large"), content_type="application/yaml")
    )
    assert response.status == 201
    read = await served_meanwhile(api, api("GET", f"{CONFIG_MAPS}/large", accept="application/yaml"))
    assert b"k4999: v" in read.body


async def test_others_are_served_while_many_small_parts_get_their_defaults(api: API) -> None:
    containers = [{"name": f"c{number}", "image": "i"} for number in range(700)]
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert (await served_meanwhile(api, api("POST", path, deployment))).status == 201


async def test_others_are_served_while_a_collection_is_listed_and_deleted(api: API) -> None:
    for index in range(40):
        await api.config_map(f"c{index}", a=LARGE)
    listed = await served_meanwhile(api, api("GET", CONFIG_MAPS))
    assert listed.body.count(b'"uid"') == 40
    deleted = await served_meanwhile(api, api("DELETE", CONFIG_MAPS))
    assert deleted.status == 200
    assert not (await api.ok("GET", CONFIG_MAPS))["items"]


@pytest.mark.parametrize("count", [255, 256, 600])
async def test_others_are_served_while_a_watch_sends_what_exists(api: API, count: int) -> None:
    registry = api.server.resources.registry("configmaps")
    for index in range(count):
        registry.create({"metadata": {"name": f"c{index:03}"}}, "default")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await api.watch(f"{CONFIG_MAPS}?{query}")
    seen = await watch.names(count)
    assert seen == [("ADDED", f"c{index:03}") for index in range(count)]
    assert (await watch.next())[0] == "BOOKMARK"
    await api.config_map("later")
    assert await watch.names(1) == [("ADDED", "later")]
    await watch.close()


async def test_a_patch_of_a_large_object_begins_again_after_another_write(api: API) -> None:
    await api.config_map("a", large=LARGE)
    patch = await start(api.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"one": "1", "more": LARGE}}, content_type=MERGE))
    assert not patch.done()
    target = api.server.resources.registry("configmaps")
    opened = target.open("a", "default")
    changed = opened.draft()
    changed["data"]["two"] = "2"
    target.replace(opened, changed)
    assert (await patch)["data"].keys() == {"large", "one", "two", "more"}


async def test_an_update_of_a_version_that_was_replaced_meanwhile_is_a_conflict(api: API) -> None:
    made = await api.config_map("a", large=LARGE)
    puts = [api("PUT", f"{CONFIG_MAPS}/a", made | {"data": {"large": LARGE, "n": str(n)}}) for n in range(5)]
    assert sorted(each.status for each in await asyncio.gather(*puts)) == [200, 409, 409, 409, 409]


async def test_large_objects_do_not_exceed_a_quota_together(api: API) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2"}}}
    await api.ok("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    creates = [api("POST", CONFIG_MAPS, config_map(f"c{n}", a=LARGE)) for n in range(4)]
    assert sorted(each.status for each in await asyncio.gather(*creates)) == [201, 201, 403, 403]


async def test_a_large_object_is_not_created_in_a_namespace_that_has_gone(api: API) -> None:
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "brief"}})
    create = await start(api("POST", "/api/v1/namespaces/brief/configmaps", config_map("a", a=LARGE)))
    await api.ok("DELETE", "/api/v1/namespaces/brief")
    assert (await create).status == 403


async def test_a_large_pod_in_a_new_namespace_gets_the_default_service_account(api: API) -> None:
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    pod = {
        "metadata": {"name": "p", "annotations": {"a": LARGE}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    made = await api.ok("POST", "/api/v1/namespaces/new/pods", pod)
    assert made["spec"]["serviceAccountName"] == "default"
    await api.ok("GET", "/api/v1/namespaces/new/serviceaccounts/default")


async def test_more_large_requests_than_may_wait_are_asked_to_come_later(api: API) -> None:
    creates = [api("POST", CONFIG_MAPS, config_map(f"c{n}", a=LARGE)) for n in range(70)]
    responses = await asyncio.gather(*creates)
    refused = [each for each in responses if each.status == 429]
    assert len(refused) == 5
    assert refused[0].headers["retry-after"] == "1"
    assert b"too many large requests" in await refused[0].read()


async def test_users_with_large_requests_take_turns(api: API) -> None:
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "admin", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "bob"}, "subjects": [subject], "roleRef": role}
    await api.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    order: list[str] = []

    async def create(name: str, token: str) -> None:
        await api.ok("POST", CONFIG_MAPS, config_map(name, a=LARGE), token=token)
        order.append(name)

    await asyncio.gather(*(create(f"c{n}", "admin") for n in range(20)), create("bob", "bob"))
    assert order.index("bob") < 4


async def test_requests_that_are_cancelled_keep_no_turn(api: API) -> None:
    tasks = [
        await start(api("POST", CONFIG_MAPS, many_lines(f"c{n}"), content_type="application/yaml")) for n in range(3)
    ]
    for task in tasks:
        task.cancel()
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*tasks, return_exceptions=True)
    )
    await api.config_map("later", a=LARGE)


async def test_large_requests_leave_nothing_in_memory(api: API) -> None:
    async def round_of_requests() -> int:
        for text in ("[1]", "[{}]", "{a: [b]}"):
            body = b"kind: DeleteOptions\nx: [" + b",".join([text.encode()] * 5000) + b"]"
            await api("POST", CONFIG_MAPS, body, content_type="application/yaml")
        task = await start(api("POST", CONFIG_MAPS, many_lines("cancelled"), content_type="application/yaml"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await api.config_map("last", a=LARGE)  # after the step of the cancelled request
        await api.ok("DELETE", f"{CONFIG_MAPS}/last")
        gc.collect()
        return len(gc.get_objects())

    first, *_, last = [await round_of_requests() for _ in range(4)][1:]
    assert last < first + 1000


async def test_others_are_served_while_expensive_rules_of_a_small_object_are_evaluated(api: API) -> None:
    rule = "self.all(a, self.all(b, a <= 1 || b <= 1))"
    numbers = {"type": "array", "maxItems": 600, "items": {"type": "integer"}}
    await _define(api, numbers={**numbers, "x-kubernetes-validations": [{"rule": rule}]})
    kind = {"apiVersion": "example.com/v1", "kind": "List"}
    small = {**kind, "metadata": {"name": "small"}, "numbers": [1]}
    assert (await api("POST", LISTS, small)).status == 201
    good = {**kind, "metadata": {"name": "good"}, "numbers": [1] * 200}
    response = await served_meanwhile(api, api("POST", LISTS, good))
    assert response.status == 201
    bad = {**kind, "metadata": {"name": "bad"}, "numbers": [1] * 199 + [2]}
    response = await served_meanwhile(api, api("POST", LISTS, bad))
    assert response.status == 422
    assert f"failed rule: {rule}".encode() in response.body


async def test_others_are_served_while_a_small_object_gets_large_defaults(api: API) -> None:
    items = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 500}}}
    await _define(api, items={"type": "array", "items": items})
    places: list[dict[str, Any]] = [{}] * 500
    obj: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "List", "metadata": {"name": "a"}, "items": places}
    response = await served_meanwhile(api, api("POST", LISTS, obj))
    assert response.status == 201
    assert len(response.body) > 500 * 500


@pytest.mark.parametrize("content_type", ["application/json", MERGE])
async def test_a_body_with_too_many_parts_is_too_large(api: API, content_type: str) -> None:
    body = b'{"metadata":{"name":"a"},"items":[' + b",".join([b"{}"] * 300_000) + b"]}"
    method, path = ("POST", CONFIG_MAPS) if content_type != MERGE else ("PATCH", f"{CONFIG_MAPS}/a")
    status = await api.rejected(413, method, path, body, content_type=content_type)
    assert status["message"] == "Request entity too large: it has more than 300000 objects and lists"


async def _define(api: API, **properties: Any) -> None:
    schema = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "lists", "kind": "List", "listKind": "ListList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await api.ok("POST", CRDS, {"metadata": {"name": "lists.example.com"}, "spec": spec})


async def test_others_are_served_while_openapi_is_built_and_a_long_list_is_compressed(api: API) -> None:
    for path in ("/openapi/v2", "/openapi/v3"):
        assert (await served_meanwhile(api, api("GET", path))).status == 200
    for index in range(3):
        await api.config_map(f"c{index}", a="x" * 500_000)
    packed = await served_meanwhile(api, api("GET", CONFIG_MAPS, accept_encoding="gzip"))
    plain = await api("GET", CONFIG_MAPS)
    assert gzip.decompress(await packed.read()) == await plain.read()


async def test_others_are_served_while_a_long_selector_is_compared(api: API) -> None:
    for index in range(30):
        await api.config_map(f"c{index}")
    selector = ",".join(f"!a{index}" for index in range(2000))
    listed = await served_meanwhile(api, api("GET", f"{CONFIG_MAPS}?labelSelector={selector}"))
    assert listed.body.count(b'"uid"') == 30
    for parameter in ("labelSelector", "fieldSelector"):
        refused = await api.rejected(400, "GET", f"{CONFIG_MAPS}?{parameter}={selector},!b")
        why = "must have at most 2000 requirements and values, got 2001; use several requests"
        assert refused["message"] == f"{parameter}: {why}"


async def test_others_are_served_while_many_rules_are_compared_with_permissions(api: API) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}
    await api.ok("POST", f"{rbac}/roles", {"metadata": {"name": "a"}, "rules": [rule]})
    subjects, ref = [{"kind": "User", "name": "bob"}], {"kind": "Role", "name": "a"}
    await api.ok("POST", f"{rbac}/rolebindings", {"metadata": {"name": "a"}, "roleRef": ref, "subjects": subjects})
    wide = {key: [f"{key}{index}" for index in range(50)] for key in ("apiGroups", "resources", "verbs")}
    role = {"metadata": {"name": "b"}, "rules": [wide]}
    assert (await served_meanwhile(api, api("POST", f"{rbac}/roles", role, token="bob"))).status == 403
