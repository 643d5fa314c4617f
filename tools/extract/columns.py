"""The columns of every resource that can be listed, from the Tables in the server's answers."""

from __future__ import annotations

import json

from server import Server

from kubewright.machinery.gvk import GroupVersionResource
from kubewright.machinery.json import JSONObject

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def read(server: Server, groups: list[JSONObject]) -> JSONObject:
    """Map `apps/v1/deployments` to its columns: name, type, format, description, priority."""
    found: JSONObject = {}
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                if "list" in resource["verbs"]:
                    gvr = GroupVersionResource(group["name"], version["version"], resource["name"])
                    table = json.loads(server.get(f"{gvr.path()}?limit=1", TABLE))
                    key = f"{gvr.group_version}/{gvr.resource}"
                    found[key] = [
                        [each[part] for part in ("name", "type", "format", "description", "priority")]
                        for each in table["columnDefinitions"]
                    ]
    return found
