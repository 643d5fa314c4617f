"""The mapper finds kinds that are known only by name."""

import asyncio
from typing import Any

import pytest
from tests.unit.scripted import Server

from kubewright.client import Client, RESTMapper
from kubewright.machinery.errors import ConfigError


def resource(plural: str, kind: str, *, scope: str = "Namespaced", **more: Any) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "singularResource": kind.lower(),
        "verbs": ["get", "list", "watch"],
        **more,
    }


def groups(*items: tuple[str, dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [
            {
                "metadata": {"name": name},
                "versions": [{"version": version, "resources": found} for version, found in versions.items()],
            }
            for name, versions in items
        ],
    }


CORE = groups(("", {"v1": [resource("pods", "Pod", subresources=[{"subresource": "log"}], shortNames=["po"])]}))
AUTOSCALERS = "horizontalpodautoscalers", "HorizontalPodAutoscaler"
GROUPS = groups(
    ("apps", {"v1": [resource("deployments", "Deployment")]}),
    ("autoscaling", {"v2": [resource(*AUTOSCALERS)], "v1": [resource(*AUTOSCALERS)]}),
)
WITH_FOO = groups(("example.com", {"v1": [resource("foos", "Foo", scope="Cluster")]}))


async def discovery(server: Server, named: dict[str, Any] = GROUPS) -> None:
    for _ in range(2):
        call = await server.call()
        assert "as=APIGroupDiscoveryList" in call.request.headers["accept"]
        call.answer(CORE if call.path == "/api" else named)


async def test_a_kind_is_found_with_all_of_its_discovery_data(server: Server, client: Client) -> None:
    mapper = RESTMapper(client)
    task = asyncio.ensure_future(mapper.resource("v1", "Pod"))
    await discovery(server)
    found = await task
    assert found.api.plural == "pods"
    assert found.api.namespaced
    assert found.api.short_names == ("po",)
    assert found.api.subresources == ("log",)
    assert "watch" in found.verbs
    kind = await mapper.kind("apps/v1", "Deployment")
    assert kind.__api__.plural == "deployments"
    assert server.received == 2, "the answer is cached"


async def test_a_kind_that_is_installed_later_is_found(server: Server, client: Client) -> None:
    mapper = RESTMapper(client)
    task = asyncio.ensure_future(mapper.kind("example.com/v1", "Foo"))
    await discovery(server)
    with pytest.raises(ConfigError, match=r"no kind Foo in example.com/v1; is its CustomResourceDefinition installed"):
        await task
    task = asyncio.ensure_future(mapper.kind("example.com/v1", "Foo"))
    await discovery(server, WITH_FOO)
    assert not (await task).__api__.namespaced


async def test_the_error_names_the_version_that_is_served(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(RESTMapper(client).kind("autoscaling/v1beta1", "HorizontalPodAutoscaler"))
    await discovery(server)
    with pytest.raises(ConfigError, match="It is served as autoscaling/v2, autoscaling/v1"):
        await task


async def test_concurrent_lookups_share_one_request(server: Server, client: Client) -> None:
    mapper = RESTMapper(client)
    tasks = [asyncio.ensure_future(mapper.resource("v1", "Pod")) for _ in range(3)]
    await discovery(server)
    await asyncio.gather(*tasks)
    assert server.received == 2


async def test_all_resources_are_listed_the_preferred_version_marked(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(RESTMapper(client).resources())
    await discovery(server)
    marked = [(str(each.api.gvk.group_version), each.preferred) for each in await task]
    assert marked == [("v1", True), ("apps/v1", True), ("autoscaling/v2", True), ("autoscaling/v1", False)]


async def test_a_server_that_is_too_old_is_rejected(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(RESTMapper(client).resource("v1", "Pod"))
    for _ in range(2):
        (await server.call()).answer({"kind": "APIVersions", "versions": ["v1"]})
    with pytest.raises(ConfigError, match=r"Kubernetes 1.30 or newer"):
        await task
