"""What a slow, broken or hostile webhook can do."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubewright.http.message import Request, Response
from unit.apiserver.admission.webhooks.harness import (
    ALLOW,
    Webhooks,
    answering,
    configure,
    failure,
    patch,
    review_answer,
)
from unit.apiserver.harness import API, CONFIG_MAPS

MIB = 1024 * 1024


async def test_a_slow_webhook_times_out_and_others_are_served_meanwhile(api: API, webhooks: Webhooks) -> None:
    async def handle(request: Request) -> Response:
        await asyncio.sleep(3600)
        raise AssertionError

    webhooks["hooks.test"] = handle
    await configure(api, timeoutSeconds=3)
    loop = asyncio.get_running_loop()
    start = loop.time()
    slow = asyncio.create_task(failure(api))
    await asyncio.sleep(0)
    await api.ok("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    assert loop.time() == start
    assert await slow == 'Post "https://hooks.test/x?timeout=3s": context deadline exceeded'
    assert loop.time() == start + 3


async def test_a_call_ends_with_the_request_that_caused_it(api: API, webhooks: Webhooks) -> None:
    cancelled: list[str] = []

    async def handle(request: Request) -> Response:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(request.path)
            raise
        raise AssertionError

    webhooks["hooks.test"] = handle
    await configure(api)
    task = asyncio.create_task(api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == ["/x"]


async def test_a_webhook_that_matches_its_own_writes_comes_to_an_end(api: API, webhooks: Webhooks) -> None:
    calls = 0

    async def handle(request: Request) -> Response:
        nonlocal calls
        calls += 1
        await api("POST", CONFIG_MAPS, {"metadata": {"generateName": "x-"}})
        return review_answer(request, {"allowed": True})

    webhooks["hooks.test"] = handle
    await configure(api, timeoutSeconds=1)
    response = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert response.status in (201, 500)  # whether the first or the last call times out first
    assert calls == 100


async def test_a_webhook_whose_program_fails_is_a_failed_call(api: API, webhooks: Webhooks) -> None:
    async def handle(request: Request) -> Response:
        raise KeyError("oops")

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "its handler failed: KeyError('oops')" in await failure(api)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_huge_answer_is_not_read_to_its_end(api: API, webhooks: Webhooks, streamed: bool) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += MIB
            yield bytes(MIB)

    async def handle(request: Request) -> Response:
        return Response(200, {}, endless() if streamed else bytes(17 * MIB))

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "its body has more than 16777216 bytes" in await failure(api)
    assert read <= 18 * MIB


async def test_deeply_nested_and_repeated_patches_are_bounded(api: API, webhooks: Webhooks) -> None:
    nested = base64.b64encode(b"[" * 100_000).decode()
    webhooks["hooks.test"] = answering({"allowed": True, "patchType": "JSONPatch", "patch": nested})
    await configure(api, "mutating")
    assert "received undecodable patch" in await failure(api)
    many = [{"op": "test", "path": "/metadata/name", "value": "a"}] * 10_001
    webhooks["hooks.test"] = answering(patch(*many))
    assert "allowed maximum operations in a JSON patch is 10000" in await failure(api)
    bomb = [{"op": "add", "path": "/data", "value": {"a": "x" * 100_000}}]
    bomb += [{"op": "copy", "from": "/data", "path": f"/data/c{index}"} for index in range(40)]
    webhooks["hooks.test"] = answering(patch(*bomb))
    assert "bytes were copied" in await failure(api)


def nested(depth: int) -> Any:
    return json.loads('{"a":' * depth + "1" + "}" * depth)


def nesting_moves(times: int) -> list[dict[str, Any]]:
    """Return small operations that nest an object ever deeper."""
    step = [
        {"op": "add", "path": "/outer", "value": {}},
        {"op": "move", "from": "/metadata/annotations", "path": "/outer/a"},
        {"op": "move", "from": "/outer", "path": "/metadata/annotations"},
    ]
    return [{"op": "add", "path": "/metadata/annotations", "value": {}}, *step * times]


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "add", "path": "/metadata/annotations", "value": nested(900)}], id="value"),
        pytest.param([{"op": "add", "path": "/unknown", "value": nested(900)}], id="unknown field"),
        pytest.param(nesting_moves(3000), id="moves"),
        pytest.param([{"op": "add", "path": "/a" * 1_000_000, "value": 1}], id="path"),
        pytest.param([{"op": "move", "from": "", "path": "/metadata/x"}], id="root"),
        pytest.param([{"op": "move", "from": "/metadata", "path": "/metadata/x"}], id="into itself"),
    ],
)
async def test_a_patch_that_nests_the_object_is_the_fault_of_the_webhook(
    api: API, webhooks: Webhooks, operations: list[dict[str, Any]]
) -> None:
    webhooks["hooks.test"] = answering(patch(*operations))
    await configure(api, "mutating")
    text = await failure(api)
    assert len(text) < 1000
    webhooks["hooks.test"] = ALLOW
    await api.config_map("b")


@pytest.mark.parametrize(
    "body",
    [
        b"sorry",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{} {}",
        b'{"a":' * 100_000,
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"allowed":NaN}}',
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":[]}',
    ],
    ids=["text", "binary", "null", "list", "two", "deep", "number", "response"],
)
async def test_a_body_that_is_not_a_review_is_a_failed_call(api: API, webhooks: Webhooks, body: bytes) -> None:
    async def handle(request: Request) -> Response:
        return Response(200, {}, body)

    webhooks["hooks.test"] = handle
    await configure(api)
    assert "json" in (await failure(api)).lower()


async def test_a_code_with_four_digits_is_an_internal_error(api: API, webhooks: Webhooks) -> None:
    webhooks["hooks.test"] = answering({"allowed": False, "status": {"code": 1000, "message": "no"}})
    await configure(api)
    status = await api.rejected(500, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert status["message"] == 'admission webhook "hook.example.com" denied the request: no'


@pytest.mark.parametrize(
    ("location", "fault"),
    [
        ("https://other.test/x", 'Post "https://other.test/x": redirects to other servers are not followed'),
        ("http://HOST/x", 'Post "http://HOST/x": redirects to other servers are not followed'),
        ("//other.test", 'Post "https://other.test": redirects to other servers are not followed'),
        ("https://HOST:99999/x", "redirected to an invalid address"),
        ("https://[x", "redirected to an invalid address"),
    ],
)
async def test_a_redirect_to_another_server_is_not_followed(
    api: API, webhooks: Webhooks, location: str, fault: str
) -> None:
    async def handle(request: Request) -> Response:
        assert request.path == "/x"
        return Response(307, {"location": location.replace("HOST", "hooks.test")})

    webhooks["hooks.test"] = handle
    await configure(api)
    assert fault.replace("HOST", "hooks.test") in await failure(api)


HEAVY = {
    "a patch with too many operations": patch(*({"op": "add", "path": "/data/a", "value": "b"} for _ in range(60_000))),
    "a patch with many operations": patch(
        *({"op": "add", "path": f"/data/{each}", "value": "b"} for each in range(9999))
    ),
    "a patch whose copies grow": patch(
        {"op": "add", "path": "/data/a", "value": ["b"]},
        *({"op": "copy", "from": "/data/a", "path": "/data/a/-"} for _ in range(60)),
    ),
    "a patch with many lists": {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(b'[{"op":"add","path":"/data/a","value":[' + b"[]," * MIB + b"[]]}]").decode(),
    },
    "many warnings": {"allowed": True, "warnings": ["w" * 1000] * 5000},
    "many causes": {"allowed": False, "status": {"details": {"causes": [{"message": "m"}] * 200_000}}},
    "many audit annotations": {"allowed": True, "auditAnnotations": {f"a{each}": "b" for each in range(200_000)}},
}


@pytest.mark.parametrize("heavy", HEAVY)
async def test_a_costly_answer_does_not_hold_up_other_requests(api: API, webhooks: Webhooks, heavy: str) -> None:
    answer = json.dumps(HEAVY[heavy])[1:].encode()

    async def handle(request: Request) -> Response:
        uid = json.loads(request.body)["request"]["uid"]
        head = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%b",' % uid.encode()
        return Response(200, {}, head + answer + b"}")

    webhooks["hooks.test"] = handle
    await configure(api, "mutating")
    before = time.thread_time(), time.process_time()
    await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"b": "c"}})
    waited, used = time.thread_time() - before[0], time.process_time() - before[1]
    assert waited < used / 2, "most of it runs on the worker"
