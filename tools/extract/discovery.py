"""Discovery: the aggregated documents (v2), merged with the APIResourceList of each group version.

Only the lists have storageVersionHash, and only the aggregated documents have the order of the groups.
"""

from __future__ import annotations

import json

from server import Server

from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def read(server: Server) -> list[JSONObject]:
    """Return the groups in the order of discovery, the core group first."""
    items = [item for root in ("/api", "/apis") for item in json.loads(server.get(root, AGGREGATED))["items"]]
    return [_group(server, item) for item in items]


def _group(server: Server, item: JSONObject) -> JSONObject:
    name = item["metadata"].get("name", "")
    return {"name": name, "versions": [_version(server, name, version) for version in item["versions"]]}


def _version(server: Server, group: str, item: JSONObject) -> JSONObject:
    version = item["version"]
    listed = json.loads(server.get(GroupVersion(group, version).path))["resources"]
    hashes = {resource["name"]: resource.get("storageVersionHash", "") for resource in listed}
    resources = [_resource(GroupVersion(group, version), resource, hashes) for resource in item["resources"]]
    return {"version": version, "resources": resources}


def _resource(gv: GroupVersion, item: JSONObject, hashes: dict[str, str]) -> JSONObject:
    return {
        "name": item["resource"],
        "singular": item["singularResource"],
        "kind": _kind(gv, item),
        "namespaced": item["scope"] == "Namespaced",
        "verbs": item["verbs"],
        "shortNames": item.get("shortNames", []),
        "categories": item.get("categories", []),
        "storageVersionHash": hashes[item["resource"]],
        "subresources": [
            {"name": each["subresource"], "kind": _kind(gv, each), "verbs": each["verbs"]}
            for each in item.get("subresources", [])
        ],
    }


def _kind(gv: GroupVersion, item: JSONObject) -> list[str]:
    """Return group, version and kind. Discovery omits the first two if they are those of the resource."""
    kind = item["responseKind"]
    if not kind["version"]:
        return [gv.group, gv.version, kind["kind"]]
    return [kind["group"], kind["version"], kind["kind"]]
