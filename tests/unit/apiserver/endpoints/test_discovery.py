"""Discovery and OpenAPI follow the served resources."""

from __future__ import annotations

import gzip
import json

from unit.apiserver.harness import API, TABLE

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Foo", "plural": "foos", "shortNames": ["fo"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": version == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                "subresources": {"status": {}},
            }
            for version in ("v1beta1", "v1")
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_aggregated_discovery_requires_it_to_be_preferred(api: API) -> None:
    whole = await api("GET", "/apis", accept=f"{AGGREGATED},application/json")
    assert whole.headers["content-type"] == AGGREGATED
    assert json.loads(await whole.read())["kind"] == "APIGroupDiscoveryList"
    older = await api("GET", "/apis", accept=f"application/json,{AGGREGATED}")
    assert json.loads(await older.read())["kind"] == "APIGroupList"


async def test_an_unchanged_document_is_not_sent_again(api: API) -> None:
    first = await api("GET", "/apis", accept=AGGREGATED)
    again = await api("GET", "/apis", accept=AGGREGATED, if_none_match=first.headers["etag"])
    assert (again.status, await again.read()) == (304, b"")


async def test_a_custom_resource_appears_and_disappears(api: API) -> None:
    before = (await api("GET", "/apis", accept=AGGREGATED)).headers["etag"]
    await api.ok("POST", DEFINITIONS, DEFINITION)
    response = await api("GET", "/apis", accept=AGGREGATED)
    assert response.headers["etag"] != before
    groups = {group["metadata"]["name"]: group for group in json.loads(await response.read())["items"]}
    assert [version["version"] for version in groups["example.com"]["versions"]] == ["v1", "v1beta1"]
    [foo] = groups["example.com"]["versions"][0]["resources"]
    assert (foo["resource"], foo["shortNames"], foo["scope"]) == ("foos", ["fo"], "Namespaced")
    assert [each["subresource"] for each in foo["subresources"]] == ["status"]
    legacy = await api.ok("GET", "/apis/example.com/v1")
    assert [each["name"] for each in legacy["resources"]] == ["foos", "foos/status"]
    await api.ok("DELETE", f"{DEFINITIONS}/foos.example.com")
    assert (await api("GET", "/apis", accept=AGGREGATED)).headers["etag"] == before
    assert (await api("GET", "/apis/example.com")).status == 404


async def test_openapi_documents_are_listed_and_cacheable_by_hash(api: API) -> None:
    paths = (await api.ok("GET", "/openapi/v3"))["paths"]
    url = paths["api/v1"]["serverRelativeURL"]
    response = await api("GET", url, accept_encoding="gzip")
    assert response.headers["cache-control"] == "public, immutable"
    document = json.loads(gzip.decompress(await response.read()))
    assert "io.k8s.api.core.v1.Pod" in document["components"]["schemas"]
    old = await api("GET", "/openapi/v3/api/v1?hash=OLD")
    assert (old.status, old.headers["location"]) == (301, url)
    assert (await api("GET", "/openapi/v3/nothing")).status == 404


async def test_the_schema_of_a_custom_resource_is_published(api: API) -> None:
    await api.ok("POST", DEFINITIONS, DEFINITION)
    document = await api.ok("GET", "/openapi/v3/apis/example.com/v1")
    schema = document["components"]["schemas"]["com.example.v1.Foo"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Foo"}]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "apis/example.com/v1beta1" in (await api.ok("GET", "/openapi/v3"))["paths"]


async def test_unknown_paths_are_answered_like_a_real_server(api: API) -> None:
    response = await api("GET", "/apis/nothing.example/v1/things")
    assert (response.status, await response.read()) == (404, b"404 page not found\n")
    status = await api.rejected(404, "GET", "/apis/apps/v1/things")
    assert (status["message"], status["details"]) == ("the server could not find the requested resource", {})


async def test_a_table_bookmark_of_a_custom_resource_is_an_empty_row(api: API) -> None:
    await api.ok("POST", DEFINITIONS, DEFINITION)
    path = "/apis/example.com/v1/namespaces/default/foos"
    watch = await api.watch(f"{path}?watch=true&allowWatchBookmarks=true", accept=TABLE)
    kind, table = await watch.next()
    [row] = table["rows"]
    assert (kind, row["cells"][0]) == ("BOOKMARK", "")
    assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
