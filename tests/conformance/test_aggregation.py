"""APIServices, and the extension servers behind them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest_asyncio

from conformance.extension import API_SERVICES, Extension, api_service
from conformance.rawapi import API, Answer, until
from kubewright.client._auth import pair_of
from kubewright.client._tls import client_context

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture
async def extension(api: API, ns: str) -> AsyncIterator[Extension]:
    extension = Extension(api, ns.rpartition("/")[2])
    await extension.start()
    yield extension
    await extension.close()


def available(obj: dict[str, Any]) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Available."""
    condition = next(each for each in obj["status"]["conditions"] if each["type"] == "Available")
    return condition["status"], condition["reason"], condition["message"]


async def test_api_services_are_validated(api: API) -> None:
    group = "validated.example.com"

    async def causes(obj: dict[str, Any]) -> list[tuple[str, str]]:
        answer = (await api.post(API_SERVICES, obj)).expect(422)
        return [(field, message) for _, field, message in answer.causes]

    wrong = {"group": group, "version": "v1", "groupPriorityMinimum": 20001, "versionPriority": 1001}
    assert await causes({"metadata": {"name": "v2.other"}, "spec": wrong}) == [
        ("metadata.name", f'Invalid value: "v2.other": must be `spec.version+"."+spec.group`: "v1.{group}"'),
        ("spec.groupPriorityMinimum", "Invalid value: 20001: must be positive and less than 20000"),
        ("spec.versionPriority", "Invalid value: 1001: must be positive and less than 1000"),
    ]
    assert await causes({"metadata": {"name": "v2."}, "spec": {**wrong, "group": "", "version": "v2"}}) == [
        ("spec.group", "Required value: only v1 may have an empty group and it better be legacy kube"),
        ("spec.groupPriorityMinimum", "Invalid value: 20001: must be positive and less than 20000"),
        ("spec.versionPriority", "Invalid value: 1001: must be positive and less than 1000"),
    ]
    assert await causes(api_service(group, None, caBundle="YWJj", insecureSkipTLSVerify=True)) == [
        ("spec.caBundle", 'Invalid value: "3 bytes": local APIServices may not have a caBundle'),
        ("spec.insecureSkipTLSVerify", "Invalid value: true: local APIServices may not have insecureSkipTLSVerify"),
    ]
    both = {"caBundle": "YWJj", "insecureSkipTLSVerify": True}
    assert await causes(api_service(group, {"port": 0}, **both)) == [
        ("spec.service.namespace", "Required value"),
        ("spec.service.name", "Required value"),
        ("spec.service.port", "Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"),
        ("spec.insecureSkipTLSVerify", "Invalid value: true: may not be true if caBundle is present"),
    ]


async def test_built_in_groups_have_local_api_services(api: API) -> None:
    apps = (await api.get(f"{API_SERVICES}/v1.apps")).expect(200).json
    assert apps["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert apps["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15}
    assert available(apps) == ("True", "Local", "Local APIServices are always available")
    listed = {each["metadata"]["name"] for each in (await api.get(API_SERVICES)).json["items"]}
    assert {"v1.", "v1.policy", "v2.autoscaling", "v1.admissionregistration.k8s.io"} <= listed
    assert "v1.apiregistration.k8s.io" not in listed
    rows = (await api.get(f"{API_SERVICES}/v1.apps", accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json[
        "rows"
    ]
    assert rows[0]["cells"][:3] == ["v1.apps", "Local", "True"]


async def test_custom_resources_have_an_api_service(api: API) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    crd, path = f"{DEFINITIONS}/things.{group}", f"{API_SERVICES}/v1.{group}"
    (await api.post(DEFINITIONS, {"metadata": {"name": f"things.{group}"}, "spec": spec})).expect(201)

    async def is_registered() -> bool:
        answer = await api.get(path)
        return answer.status == 200 and answer.json["spec"]["groupPriorityMinimum"] == 1000

    await until(is_registered)
    obj = (await api.get(path)).json
    assert obj["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert obj["spec"]["versionPriority"] == 100
    (await api.patch(path, {"spec": {"groupPriorityMinimum": 5}})).expect(200)
    await until(is_registered)
    (await api.delete(path)).expect(200)
    await until(is_registered)
    (await api.delete(crd)).expect(200)

    async def is_gone() -> bool:
        return (await api.get(path)).status == 404

    await until(is_gone)


async def test_an_api_service_without_a_usable_service_is_unavailable(api: API, ns: str, extension: Extension) -> None:
    namespace, path = extension.namespace, f"{API_SERVICES}/v1.{extension.group}"

    async def becomes(reason: str) -> str:
        async def found() -> str | None:
            obj = (await api.get(path)).json
            if not obj["status"].get("conditions"):
                return None
            status, present, message = available(obj)
            return message if (status, present) == ("False", reason) else None

        return await until(found)

    reference = {"namespace": namespace, "name": "missing"}
    made = (await api.post(API_SERVICES, api_service(extension.group, reference))).expect(201).json
    assert made["spec"]["service"]["port"] == 443
    where = f'service/missing in "{namespace}"'
    assert await becomes("ServiceNotFound") == f"{where} is not present"
    for target in (extension.path, f"{extension.path}/echoes"):
        answer = await api.get(target)
        assert (answer.status, answer.body) == (503, b"service unavailable\n")
    assert (await api.get(f"/apis/{extension.group}")).json["preferredVersion"]["version"] == "v1"
    service = {"metadata": {"name": "missing"}, "spec": {"ports": [{"name": "api", "port": 444}]}}
    (await api.post(f"{ns}/services", service)).expect(201)
    assert await becomes("ServicePortError") == f"{where} is not listening on port 443"
    change = {"spec": {"ports": [{"name": "api", "port": 443}]}}
    (await api.patch(f"{ns}/services/missing", change)).expect(200)
    assert await becomes("EndpointsNotFound") == f"cannot find endpointslices for {where}"
    endpoints = {
        "metadata": {"name": "missing", "labels": {"kubernetes.io/service-name": "missing"}},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "api", "port": 443}],
    }
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    (await api.post(slices, endpoints)).expect(201)
    assert await becomes("MissingEndpoints") == f'endpointslices for {where} have no addresses with port name "api"'
    (await api.delete(path)).expect(200)

    async def is_gone() -> bool:
        return (await api.get(f"/apis/{extension.group}")).status == 404

    await until(is_gone)


async def test_requests_reach_the_extension_server_with_their_user(api: API, extension: Extension) -> None:
    await extension.register()
    await extension.available()
    assert (await extension.condition("True"))["message"] == "all checks passed"
    answer = await api.get(f"{extension.path}/namespaces/x/echoes/a%20b?a=1&b=%2F")
    assert (answer.status, answer.headers["x-echo"]) == (200, "yes")
    echo = answer.json
    assert echo["target"] == f"{extension.path}/namespaces/x/echoes/a%20b?a=1&b=%2F"
    assert echo["client"] == "front-proxy-client"
    assert echo["headers"]["x-remote-group"] == "system:masters, system:authenticated"
    assert "authorization" not in echo["headers"]
    assert echo["headers"]["x-forwarded-for"] == "127.0.0.1"
    headers = {
        "impersonate-user": "jane",
        "impersonate-group": "system:masters",
        "impersonate-uid": "u1",
        "impersonate-extra-sc%2fopes": "One",
        "x-remote-user": "another-user",
        "x-remote-extra-foo": "bar",
    }
    answer = await api.send("POST", f"{extension.path}/namespaces/x/echoes", {"a": 1}, headers=headers)
    assert (answer.status, answer.json["body"]) == (418, '{"a": 1}')
    sent = {name: value for name, value in answer.json["headers"].items() if "remote" in name or "impersonate" in name}
    assert sent == {
        "x-remote-user": "jane",
        "x-remote-uid": "u1",
        "x-remote-group": "system:masters, system:authenticated",
        "x-remote-extra-sc%2fopes": "One",
    }
    answer = await api.get(f"{extension.path}/echoes", **{"impersonate-user": "jane"})
    assert (answer.status, answer.reason) == (403, "Forbidden")


async def test_streams_and_other_protocols_pass(api: API, extension: Extension) -> None:
    await extension.register()
    await extension.available()
    watch = await api.watch(f"{extension.path}/echoes?watch=1")
    assert await watch.next() == {"type": "ADDED"}
    extension.released.set()
    assert await watch.next() == {"type": "MODIFIED"}
    await watch.close()
    url, config = urlsplit(api.config.server), api.config
    context = client_context(config, pair_of(config))
    reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=context)
    head = [f"GET {extension.path}/namespaces/x/echoes/a/exec HTTP/1.1", f"Host: {url.netloc}"]
    head += [
        "Connection: Upgrade",
        "Upgrade: echo",
        *([f"Authorization: Bearer {config.token}"] if config.token else []),
    ]
    writer.write(("\r\n".join(head) + "\r\n\r\n").encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"upgrade: echo" in answer.lower()
    writer.write(b"hello")
    assert await reader.readexactly(7) == b"<hello>"
    writer.close()


async def test_discovery_and_openapi_contain_the_extension_server(api: API, extension: Extension) -> None:
    await extension.register()
    await extension.available()
    group, path = extension.group, extension.path
    listed = [each["name"] for each in (await api.get("/apis")).json["groups"]]
    assert listed[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert group in listed

    async def is_discovered() -> dict[str, Any] | None:
        items = (await api.get("/apis", accept=DISCOVERY)).json["items"]
        found = [each for each in items if each["metadata"].get("name") == group]
        return found[0]["versions"][0] if found and found[0]["versions"][0].get("resources") else None

    version = await until(is_discovered)
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    resource = version["resources"][0]
    assert (resource["resource"], resource["scope"], resource["shortNames"]) == ("echoes", "Namespaced", ["ec"])
    assert resource["responseKind"] == {"group": "", "version": "", "kind": "Echo"}
    assert [each["subresource"] for each in resource["subresources"]] == ["status"]
    assert (await api.get(path)).json["resources"][0]["name"] == "echoes"

    async def is_published() -> Answer | None:
        paths = (await api.get("/openapi/v3")).json["paths"]
        answer = await api.get(paths[path[1:]]["serverRelativeURL"]) if path[1:] in paths else None
        return answer if answer is not None and answer.status == 200 else None

    assert (await until(is_published)).json == {"openapi": "3.0.0"}

    async def is_merged() -> dict[str, Any] | None:
        document: dict[str, Any] = (await api.get("/openapi/v2")).json
        return document if f"{path}/echoes" in document["paths"] else None

    merged = await until(is_merged)
    assert merged["definitions"]["com.example.Echo"]["description"] == "An echo."


async def test_an_extension_server_that_fails_is_unavailable(api: API, extension: Extension) -> None:
    await extension.register()
    await extension.available()
    extension.status = 500
    (await api.patch(f"{API_SERVICES}/v1.{extension.group}", {"spec": {"versionPriority": 11}})).expect(200)
    condition = await extension.condition("False")
    assert condition["reason"] == "FailedDiscoveryCheck"
    assert condition["message"].endswith(f"/apis/{extension.group}/v1: 500")
    assert (await api.get(f"{extension.path}/echoes")).status == 503
    extension.status = 200
    await extension.available()
    await extension.stop()
    answer = await api.get(f"{extension.path}/echoes")
    assert answer.status == 503
    assert b"connection refused" in answer.body or b"service unavailable" in answer.body


async def test_a_slow_extension_server_delays_only_its_own_requests(api: API, extension: Extension) -> None:
    await extension.register()
    await extension.available()
    extension.stalled = True
    (await api.patch(f"{API_SERVICES}/v1.{extension.group}", {"spec": {"versionPriority": 12}})).expect(200)
    waiting = asyncio.create_task(api.get(f"{extension.path}/echoes"))
    for target in ("/apis", f"/apis/{extension.group}", "/openapi/v3", "/api/v1/namespaces"):
        (await api.get(target)).expect(200)
    assert not waiting.done()
    extension.stalled = False
    extension.released.set()
    assert (await waiting).status == 200
