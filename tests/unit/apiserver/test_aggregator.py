"""Extension servers that answer with too much."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubewright.http.message import Request, Response
from kubewright.testing import VirtualClock, eventually
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API

SERVICE = {"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
SPEC = {
    "group": "x.example.com",
    "version": "v1",
    "groupPriorityMinimum": 1000,
    "versionPriority": 15,
    "service": {"name": "x", "namespace": "default"},
}
ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(("count", "shown"), [(10, 10), (20_000, 0)])
async def test_a_discovery_document_of_more_than_a_megabyte_is_not_shown(count: int, shown: int) -> None:
    resources = [{"name": f"r{number}", "kind": f"K{number}", "verbs": ["get", "list"]} for number in range(count)]
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        asked.append(request.path)
        if request.path != "/apis/x.example.com/v1":
            return Response(404)
        document = {"kind": "APIResourceList", "groupVersion": "x.example.com/v1", "resources": resources}
        return Response(200, {"content-type": "application/json"}, json.dumps(document).encode())

    clock = VirtualClock()
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, webhooks={"x.default.svc": answer})
    server = APIServer(options)
    await server.start()
    api = API(server, clock)
    try:
        await api.ok("POST", "/api/v1/namespaces/default/services", SERVICE)
        body = {"metadata": {"name": "v1.x.example.com"}, "spec": SPEC}
        await api.ok("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body)

        async def discovered() -> None:
            assert "/apis" in asked
            assert "/apis/x.example.com/v1" in asked[asked.index("/apis") :]  # earlier ones are availability checks
            found = await api.ok("GET", "/apis", accept=ACCEPT)
            (group,) = (each for each in found["items"] if each["metadata"]["name"] == "x.example.com")
            (version,) = group["versions"]
            assert len(version.get("resources", ())) == shown
            assert version.get("freshness") == ("Current" if shown else "Stale")

        await eventually(discovered)
    finally:
        await server.close()


@pytest.mark.parametrize("depth", [100, 200, 50_000])
async def test_a_deep_openapi_document_of_an_extension_server_harms_nobody(depth: int) -> None:
    schema = b'{"properties":{"a":' * depth + b"{}" + b"}}" * depth
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        asked.append(request.path)
        if request.path == "/openapi/v2":
            return Response(200, {}, b'{"swagger":"2.0","paths":{},"definitions":{"x":%b}}' % schema)
        return Response(200, {}, b'{"kind":"APIResourceList","resources":[{"name":"things"}]}')

    clock = VirtualClock()
    server = APIServer(ServerOptions(clock=clock, tokens={"admin": ADMIN}, webhooks={"x.default.svc": answer}))
    await server.start()
    api = API(server, clock)
    try:
        await api.ok("POST", "/api/v1/namespaces/default/services", SERVICE)
        body = {"metadata": {"name": "v1.x.example.com"}, "spec": SPEC}
        await api.ok("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body)

        async def discovered() -> None:
            found = await api.ok("GET", "/apis", accept=ACCEPT)
            assert "things" in json.dumps(found)

        await eventually(discovered)
        assert "/openapi/v2" in asked
        for accept in ("application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"):
            assert (await api("GET", "/openapi/v2", accept=accept)).status == 200
    finally:
        await server.close()


async def test_others_are_served_while_many_versions_are_registered(api: API) -> None:
    async def registered() -> int:
        items = (await api.ok("GET", "/apis/apiregistration.k8s.io/v1/apiservices"))["items"]
        return sum(each["spec"].get("group") == "example.com" for each in items)

    async def until(wanted: int) -> list[int]:
        """Return how many there are whenever another request is served."""
        seen = [await registered()]
        while seen[-1] != wanted:
            await asyncio.sleep(0)
            seen.append(await registered())
        return seen

    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    versions = [
        {"name": f"v{number}", "served": True, "storage": number == 1, "schema": schema} for number in range(1, 101)
    ]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.ok("POST", crds, {"metadata": {"name": "things.example.com"}, "spec": spec})
    assert len(await until(100)) > 4
    await api.ok("DELETE", f"{crds}/things.example.com")
    assert len(await until(0)) > 4
