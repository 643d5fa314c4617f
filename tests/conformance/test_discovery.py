"""Discovery, OpenAPI and health: how clients learn what a server serves."""

from __future__ import annotations

import pytest

from conformance.rawapi import API

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_core_versions_are_listed(api: API) -> None:
    found = (await api.get("/api")).expect(200).json
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed_with_their_preferred_versions(api: API) -> None:
    found = (await api.get("/apis")).expect(200).json
    assert found["kind"] == "APIGroupList"
    groups = {each["name"]: each["preferredVersion"]["groupVersion"] for each in found["groups"]}
    assert groups["apps"] == "apps/v1"
    assert groups["rbac.authorization.k8s.io"] == "rbac.authorization.k8s.io/v1"
    assert groups["apiextensions.k8s.io"] == "apiextensions.k8s.io/v1"


async def test_a_version_lists_its_resources_and_subresources(api: API) -> None:
    found = (await api.get("/apis/apps/v1")).expect(200).json
    resources = {each["name"]: each for each in found["resources"]}
    assert resources["deployments"]["shortNames"] == ["deploy"]
    assert resources["deployments"]["categories"] == ["all"]
    assert set(resources["deployments"]["verbs"]) >= {"create", "delete", "get", "list", "patch", "update", "watch"}
    assert resources["deployments/scale"]["kind"] == "Scale"
    assert "deployments/status" in resources


@pytest.mark.parametrize("root", ["/api", "/apis"])
async def test_aggregated_discovery_is_available(api: API, root: str) -> None:
    answer = (await api.get(root, accept=AGGREGATED)).expect(200)
    assert answer.headers["content-type"] == AGGREGATED
    assert answer.headers["vary"] == "Accept"
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    again = await api.get(root, accept=AGGREGATED, if_none_match=answer.headers["etag"])
    again.expect(304)


async def test_aggregated_discovery_describes_a_resource(api: API) -> None:
    found = (await api.get("/apis", accept=AGGREGATED)).json
    apps = next(each for each in found["items"] if each["metadata"]["name"] == "apps")
    [version] = apps["versions"]
    deployments = next(each for each in version["resources"] if each["resource"] == "deployments")
    assert deployments["responseKind"]["kind"] == "Deployment"
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert {each["subresource"] for each in deployments["subresources"]} == {"scale", "status"}


async def test_openapi_documents_are_cacheable_by_hash(api: API) -> None:
    paths = (await api.get("/openapi/v3")).expect(200).json["paths"]
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/apis/apps/v1?hash=")
    document = (await api.get(url)).expect(200)
    assert "immutable" in document.headers["cache-control"]
    assert "io.k8s.api.apps.v1.Deployment" in document.json["components"]["schemas"]


async def test_the_version_is_served(api: API) -> None:
    found = (await api.get("/version")).expect(200).json
    assert (found["major"], found["minor"]) == ("1", "36")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_served(api: API, path: str) -> None:
    assert (await api.get(path)).expect(200).body == b"ok"
    assert b"[+]ping ok" in (await api.get(f"{path}?verbose")).expect(200).body


async def test_every_answer_can_be_traced_and_is_not_cached(api: API, ns: str) -> None:
    answer = await api.get(f"{ns}/configmaps")
    assert answer.headers["audit-id"]
    assert answer.headers["cache-control"] == "no-cache, private"


async def test_a_large_answer_is_compressed_on_request(api: API, ns: str) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "x" * 200_000}}
    await api.post(f"{ns}/configmaps", body)
    answer = await api.get(f"{ns}/configmaps/a", accept_encoding="gzip")
    assert answer.json["data"] == body["data"]


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_a_list_can_be_a_table(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}})
    found = (await api.get(f"{ns}/configmaps?fieldSelector=metadata.name%3Da", accept=TABLE)).expect(200).json
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [each["name"] for each in found["columnDefinitions"]] == ["Name", "Data", "Age"]
    [row] = found["rows"]
    assert row["cells"][:2] == ["a", 2]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_a_table_of_pods_has_the_usual_columns(api: API, ns: str) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "nginx"}]}}
    (await api.post(f"{ns}/pods", body)).expect(201)
    found = (await api.get(f"{ns}/pods", accept=TABLE)).expect(200).json
    names = [each["name"] for each in found["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert found["rows"][0]["cells"][0] == "p"


async def test_metadata_only_lists_are_supported(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = (await api.get(f"{ns}/configmaps", accept=accept)).expect(200).json
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert all("data" not in each for each in found["items"])
