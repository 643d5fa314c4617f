"""HTTP: headers, representations, and the answers to invalid requests."""

from __future__ import annotations

import gzip
import json
import logging
import time
from typing import Any

import pytest

from kubewright.machinery import yaml
from kubewright_controlplane.apiserver import protobuf
from kubewright_controlplane.apiserver.protobuf import wire
from kubewright_controlplane.apiserver.server import BODY_LIMIT
from unit.apiserver.harness import API, CONFIG_MAPS, MERGE, TABLE

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def test_every_answer_has_an_audit_id_and_is_not_cacheable(api: API) -> None:
    for target in (CONFIG_MAPS, f"{CONFIG_MAPS}/nope", "/version", "/nothing"):
        response = await api("GET", target)
        assert response.headers["cache-control"] == "no-cache, private"
        assert len(response.headers["audit-id"]) == 36
    assert (await api("GET", "/version", audit_id="mine")).headers["audit-id"] == "mine"


async def test_a_large_answer_is_compressed_for_clients_that_accept_it(api: API) -> None:
    await api.config_map("big", blob="x" * 200_000)
    plain = await api("GET", f"{CONFIG_MAPS}/big")
    small = await api("GET", f"{CONFIG_MAPS}/big", accept_encoding="gzip")
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(await small.read()) == await plain.read()
    assert "content-encoding" not in (await api("GET", "/version", accept_encoding="gzip")).headers


async def test_a_body_above_the_limit_is_rejected(api: API) -> None:
    status = await api.rejected(413, "POST", CONFIG_MAPS, b" " * (BODY_LIMIT + 1))
    assert status["message"] == "Request entity too large: limit is 3145728"


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.fixture
async def deep(api: API) -> str:
    """The path of objects that may have any fields."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**version, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    }
    await api.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await api.clock.advance(10)
    return "/apis/example.com/v1/namespaces/default/things"


@pytest.mark.parametrize("encoding", ["application/json", "application/yaml"])
async def test_deep_documents_can_be_written_in_any_way(api: API, deep: str, encoding: str) -> None:
    head = b'{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "%b"}, "spec": %b}'
    text = "{}[]" * 300
    await api.ok("POST", deep, head % (b"deepest", nested(255)), content_type=encoding)
    body = head % (b"a", nested(250))  # the paths in managedFields are deeper than the fields
    made = await api.ok("POST", deep, body, content_type=encoding)
    await api.ok("PUT", f"{deep}/a", made | {"metadata": made["metadata"] | {"annotations": {"note": text}}})
    await api.ok("PATCH", f"{deep}/a", b'{"spec": %b}' % nested(250), content_type=MERGE)
    await api.ok("PATCH", f"{deep}/a?fieldManager=x&force=true", body, content_type=APPLY)
    await api.ok("PATCH", f"{deep}/a", b'[{"op": "add", "path": "/spec/b", "value": 1}]', content_type=JSON_PATCH)
    assert (await api.ok("GET", f"{deep}/a"))["metadata"]["annotations"] == {"note": text}


@pytest.mark.parametrize("levels", [256, 3000, 100_000])
async def test_deeper_documents_are_rejected(api: API, deep: str, levels: int) -> None:
    head = b'{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "%b"}, "spec": %b}'
    await api.ok("POST", deep, head % (b"a", nested(255)))
    stored = await api.ok("GET", f"{deep}/a")
    flat = b'{"spec": %b}' % nested(levels)
    added = b'[{"op": "add", "path": "/spec/a/a", "value": %b}]' % nested(min(levels, 254))
    for answer in (
        await api.rejected(400, "POST", deep, head % (b"b", nested(levels))),
        await api.rejected(400, "PUT", f"{deep}/a", head % (b"a", nested(levels))),
        await api.rejected(400, "PATCH", f"{deep}/a", flat, content_type=MERGE),
        await api.rejected(400, "PATCH", f"{deep}/a", added, content_type=JSON_PATCH),
        await api.rejected(400, "PATCH", f"{deep}/a?fieldManager=x", head % (b"a", nested(levels)), content_type=APPLY),
    ):
        assert "exceeded max depth of 256" in answer["message"]
    assert await api.ok("GET", f"{deep}/a") == stored


async def test_a_defect_is_answered_with_500_and_logged(
    api: API, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(api.server.resources, "find", fail)
    with caplog.at_level(logging.ERROR):
        status = await api.rejected(500, "GET", CONFIG_MAPS)
    assert status["message"].startswith("This request caused apiserver to panic")
    assert f"Request failed  method=GET target={CONFIG_MAPS}" in caplog.text


async def test_anonymous_requests_are_forbidden_by_default(api: API) -> None:
    status = await api.rejected(403, "GET", CONFIG_MAPS, token="")
    assert 'User "system:anonymous" cannot list resource "configmaps"' in status["message"]
    status = await api.rejected(403, "GET", CONFIG_MAPS, token="bob")
    assert 'User "bob" cannot list resource "configmaps"' in status["message"]
    await api.rejected(401, "GET", CONFIG_MAPS, token="unknown")


async def test_metadata_only_answers_are_supported(api: API) -> None:
    await api.config_map("a", k="v")
    one = await api.ok("GET", f"{CONFIG_MAPS}/a", accept=METADATA)
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("PartialObjectMetadata", "meta.k8s.io/v1", "a")
    assert "data" not in one
    listed = await api.ok("GET", CONFIG_MAPS, accept=METADATA.replace("Metadata;", "MetadataList;"))
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"] == [one]


@pytest.mark.parametrize(("include", "shown"), [("", "metadata"), ("None", None), ("Object", "data")])
async def test_table_rows_contain_the_requested_objects(api: API, include: str, shown: str | None) -> None:
    await api.config_map("a", k="v")
    table = await api.ok("GET", f"{CONFIG_MAPS}?includeObject={include}", accept=TABLE)
    [row] = table["rows"]
    assert row["cells"] == ["a", 1, "0s"]
    assert row["object"] is None if shown is None else shown in row["object"]


async def test_items_of_a_built_in_list_omit_kind_and_api_version(api: API) -> None:
    await api.config_map("a", k="v")
    listed = await api.ok("GET", CONFIG_MAPS)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert list(listed["items"][0]) == ["metadata", "data"]


async def test_unsupported_representations_are_not_acceptable(api: API) -> None:
    assert (await api("GET", CONFIG_MAPS, accept="text/html")).status == 406
    assert (await api("GET", CONFIG_MAPS, accept="application/json;as=Table;g=meta.k8s.io;v=v9")).status == 406
    fallback = "application/json;as=Table;g=meta.k8s.io;v=v9, application/json"
    assert (await api.ok("GET", CONFIG_MAPS, accept=fallback))["kind"] == "ConfigMapList"


async def test_built_in_kinds_are_encoded_as_protobuf_if_nothing_else_is_accepted(api: API) -> None:
    await api.config_map("a", k="v")
    only = await api("GET", f"{CONFIG_MAPS}/a", accept="application/vnd.kubernetes.protobuf")
    assert only.headers["content-type"] == "application/vnd.kubernetes.protobuf"
    assert (await only.read()).startswith(b"k8s\0")
    either = await api("GET", f"{CONFIG_MAPS}/a", accept="application/vnd.kubernetes.protobuf,application/json")
    assert either.headers["content-type"] == "application/json"


async def test_requests_and_objects_are_counted(api: API) -> None:
    secrets = CONFIG_MAPS.replace("configmaps", "secrets")
    await api.ok("POST", secrets, {"metadata": {"name": "a"}})
    text = (await (await api("GET", "/metrics")).read()).decode()
    assert 'resource="secrets",scope="namespace",subresource="",verb="CREATE",version="v1"} 1.0' in text
    assert 'apiserver_storage_objects{resource="secrets"} 1.0' in text
    stored = len((await (await api("GET", f"{secrets}/a")).read()).rstrip())
    assert f'apiserver_resource_size_estimate_bytes{{resource="secrets"}} {float(stored)}' in text
    assert 'kubewright_history_events{resource="secrets"} 1.0' in text
    assert f'kubewright_history_bytes{{resource="secrets"}} {float(stored)}' in text


async def test_requests_for_names_that_do_not_exist_share_their_counters(api: API) -> None:
    async def counters() -> int:
        text = (await (await api("GET", "/metrics")).read()).decode()
        return text.count("apiserver_request_total{")

    async def ask(name: str) -> None:
        for token in ("admin", "bob", "stranger"):
            await api("GET", f"/{name}", token=token)
            await api("GET", f"/apis/{name}/v1/{name}", token=token)
            await api("GET", f"/api/v1/namespaces/default/pods/a/{name}", token=token)

    await counters()
    await ask("first")
    before = await counters()
    for number in range(5):
        await ask(f"more-{number}")
    assert await counters() == before


async def test_health_is_reported_as_one_word_or_as_a_list_of_checks(api: API) -> None:
    for name in ("healthz", "livez", "readyz"):
        assert await (await api("GET", f"/{name}")).read() == b"ok"
        verbose = await (await api("GET", f"/{name}?verbose")).read()
        assert verbose.startswith(b"[+]ping ok\n")
        assert verbose.endswith(f"{name} check passed\n".encode())
    assert (await api("GET", "/readyz/storage")).status == 200
    assert (await api("GET", "/readyz/nonsense")).status == 404


async def test_service_account_keys_are_published_at_the_configured_path(api: API) -> None:
    configuration = await api.ok("GET", "/.well-known/openid-configuration", host="example.com:6443")
    assert configuration["jwks_uri"] == "https://example.com:6443/openid/v1/jwks"
    keys = await api("GET", "/openid/v1/jwks")
    assert keys.headers["content-type"] == "application/jwk-set+json"
    assert json.loads(await keys.read())["keys"][0]["alg"] in configuration["id_token_signing_alg_values_supported"]


async def test_names_that_clients_invent_fill_neither_metrics_nor_memory(api: API) -> None:
    long = "x" * 10_000
    for number in range(50):
        await api.rejected(403, "GET", f"/apis/{long}{number}/v1/things", token="")
        await api.rejected(403, "GET", f"/{long}{number}", token="")
    text = (await (await api("GET", "/metrics")).read()).decode()
    assert long not in text
    assert len(text) < 20_000


async def test_a_body_of_many_mistakes_costs_as_much_as_its_size(api: API) -> None:
    """Fails by its time limit if the cost is quadratic: each of these took minutes."""
    unknown = {"metadata": {"name": "a"}, **{f"x{number}": 1 for number in range(200_000)}}
    await api.ok("POST", f"{CONFIG_MAPS}?dryRun=All", unknown)
    response = await api("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", unknown)
    assert response.status == 400
    doubled = b'{"metadata":{"name":"a"},' + b",".join([b'"x":1'] * 200_000) + b"}"
    assert (await api("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", doubled)).status == 400
    await api.config_map("a")
    names = [f"example.com/{number}" for number in range(100_000)]
    for patch in (
        {"metadata": {"$deleteFromPrimitiveList/finalizers": names, "finalizers": names[:1]}},
        {"metadata": {"$setElementOrder/finalizers": names, "finalizers": names[:1]}},
    ):
        content_type = "application/strategic-merge-patch+json"
        assert (await api("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=content_type)).status < 500


async def test_many_forged_managers_cost_as_much_as_their_size(api: API) -> None:
    def managed(count: int, operation: str) -> list[dict[str, Any]]:
        entry: dict[str, Any] = {"operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
        return [
            entry | {"manager": f"m{number}", "fieldsV1": {"f:data": {f"f:k{number}": {}}}} for number in range(count)
        ]

    async def cost(count: int, operation: str) -> float:
        """Return the CPU time of a create and two applies, in seconds: the least of two."""
        found: list[float] = []
        for number in range(2):
            name = f"{operation.lower()}-{count}-{number}"
            before = time.process_time()
            metadata = {"name": name, "managedFields": managed(count, operation)}
            await api.ok("POST", CONFIG_MAPS, {"metadata": metadata, "data": {"a": "b"}})
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            for data in ({"c": "d"}, {}):
                path, applied = f"{CONFIG_MAPS}/{name}?fieldManager=me", config | {"data": data}
                await api.ok("PATCH", path, applied, content_type="application/apply-patch+yaml")
            found.append(time.process_time() - before)
        return min(found)

    for operation in ("Update", "Apply"):
        assert await cost(5000, operation) < 10 * await cost(1250, operation)


async def test_a_long_list_is_the_same_in_every_encoding(api: API) -> None:
    for number in range(3):
        await api.config_map(f"m{number}", text="line\nline " * 12_000)
    found = await api.ok("GET", CONFIG_MAPS)
    assert len(found["items"]) == 3
    as_yaml = await (await api("GET", CONFIG_MAPS, accept="application/yaml")).read()
    assert yaml.load(as_yaml) == found
    as_protobuf = await (await api("GET", CONFIG_MAPS, accept=protobuf.CONTENT_TYPE)).read()
    assert len(protobuf.decode(as_protobuf)["items"]) == 3
    one = await api.config_map("one", text="x" * 300_000)
    assert yaml.load(await (await api("GET", f"{CONFIG_MAPS}/one", accept="application/yaml")).read()) == one


async def test_protobuf_has_the_limit_of_json_for_objects(api: API) -> None:
    json_body = b'{"metadata":{"name":"a","ownerReferences":[' + b"{}," * 300_000 + b"{}]}}"
    owners = b"\x0a\x01a" + b"\x6a\x00" * 300_001
    metadata = b"\x0a" + wire.length_delimited(owners)
    protobuf_body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + wire.length_delimited(metadata)
    for content_type, data in (("application/json", json_body), (protobuf.CONTENT_TYPE, protobuf_body)):
        status = await api.rejected(413, "POST", CONFIG_MAPS, data, content_type=content_type)
        assert status["message"] == "Request entity too large: it has more than 300000 objects and lists"
