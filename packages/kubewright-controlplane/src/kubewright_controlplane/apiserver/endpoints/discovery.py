"""Discovery: the served groups, versions and resources, in the aggregated and in the older form.

Documents are built on first use, and again when the set of resources has changed.

Follows apiserver's pkg/endpoints/discovery and KEP-3352 (aggregated discovery).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kubewright.http.message import Request, Response
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.answers import JSON, negotiate, parse_accept
from kubewright_controlplane.apiserver.registry.failures import not_served
from kubewright_controlplane.apiserver.registry.model import Resource, Subresource
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_AGGREGATED_VERSION = "v2"
_KUBE_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


@dataclass(frozen=True, slots=True)
class _Aggregated:
    body: bytes
    etag: str


class Discovery:
    """Answers `/api`, `/apis`, and the paths of groups and group versions."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._generation = -1
        self._groups: dict[str, dict[str, list[Resource]]] = {}
        self._aggregated: dict[str, _Aggregated] = {}

    def serve(self, request: Request, parts: list[str]) -> Response:
        """Answer a path, split into parts: `["apis", "apps", "v1"]`. Raises NotFound for a version that is not
        served.
        """
        self._refresh()
        match parts:
            case ["api" | "apis" as root]:
                return self._aggregate(request, root) or answers.json_document(200, self._root(root, request))
            case ["api", version]:
                return self._group_version("", version)
            case ["apis", group] if group in self._groups:
                return answers.json_document(200, {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["apis", group, version] if group in self._groups:
                return self._group_version(group, version)
            case _:
                return answers.page_not_found()

    def group_versions(self) -> list[str]:
        """Return the paths of all group versions: `/api/v1`, `/apis/apps/v1`."""
        self._refresh()
        return [
            resources[0].group_version.path for versions in self._groups.values() for resources in versions.values()
        ]

    def _refresh(self) -> None:
        if self._generation == self._resources.generation:
            return
        self._generation = self._resources.generation
        self._aggregated.clear()
        groups: dict[str, dict[str, list[Resource]]] = {}
        for resource in self._resources:
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        self._groups = {group: _in_order(versions) for group, versions in groups.items()}

    # The aggregated form

    def _aggregate(self, request: Request, root: str) -> Response | None:
        """Return the aggregated document if the client prefers it to the other forms; else None."""
        if not _wants_aggregated(request.headers.get("accept", "")):
            return None
        document = self._aggregated.get(root)
        if document is None:
            groups = [self._aggregated_group(name) for name in self._groups if bool(name) == (root == "apis")]
            api_version = f"apidiscovery.k8s.io/{_AGGREGATED_VERSION}"
            kind: JSONObject = {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}}
            body = encode_json({**kind, "items": groups}) + b"\n"
            document = _Aggregated(body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
            self._aggregated[root] = document
        headers = {
            "cache-control": "public",
            "content-type": f"{JSON};g=apidiscovery.k8s.io;v={_AGGREGATED_VERSION};as=APIGroupDiscoveryList",
            "etag": document.etag,
            "vary": "Accept",
        }
        if request.headers.get("if-none-match") == document.etag:
            return Response(304, headers)
        return Response(200, headers, document.body)

    def _aggregated_group(self, group: str) -> JSONObject:
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(each) for each in resources],
                "freshness": "Current",
            }
            for version, resources in self._groups[group].items()
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    # The older forms

    def _root(self, root: str, request: Request) -> JSONObject:
        if root == "api":
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}]
            versions = list(self._groups.get("", {}))
            return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses}
        groups = [self._group(name) for name in self._groups if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> JSONObject:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._groups[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _group_version(self, group: str, version: str) -> Response:
        resources = self._groups.get(group, {}).get(version)
        if resources is None:
            raise not_served()
        kind: JSONObject = {"kind": "APIResourceList"}
        if group:
            kind["apiVersion"] = "v1"
        listed = [entry for each in resources for entry in _legacy_entries(each)]
        document = {**kind, "groupVersion": str(resources[0].group_version), "resources": listed}
        return answers.json_document(200, document)


def _wants_aggregated(accept: str) -> bool:
    """Return whether the client prefers the aggregated form. Raises NotAcceptable if it accepts no form."""
    for entry in parse_accept(accept):
        if entry.parameter("as") == "APIGroupDiscoveryList" and entry.parameter("g") == "apidiscovery.k8s.io":
            if entry.parameter("v") == _AGGREGATED_VERSION:
                return True
        elif entry.accepts(JSON):
            return False
    negotiate(accept, tables=False, metadata=False)
    return False


def _aggregated_resource(resource: Resource) -> JSONObject:
    out: JSONObject = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, None),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    _add_names(out, resource)
    if resource.subresources:
        out["subresources"] = [
            {"subresource": name, "responseKind": _response_kind(resource, each), "verbs": list(each.verbs)}
            for name, each in resource.subresources.items()
        ]
    return out


def _response_kind(resource: Resource, subresource: Subresource | None) -> JSONObject:
    """Omit the group and version of a built-in resource's kind if the document already has them."""
    kind = subresource.kind if subresource is not None else None
    if kind is not None and kind.group_version != resource.group_version:
        return {"group": kind.group, "version": kind.version, "kind": kind.kind}
    name = kind.kind if kind is not None else resource.kind
    if resource.custom:
        return {"group": resource.group, "version": resource.version, "kind": name}
    return {"group": "", "version": "", "kind": name}


def _legacy_entries(resource: Resource) -> Iterable[JSONObject]:
    entry: JSONObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    _add_names(entry, resource)
    if resource.storage_version_hash:
        entry["storageVersionHash"] = resource.storage_version_hash
    yield entry
    for name, each in resource.subresources.items():
        below: JSONObject = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if each.kind is not None and each.kind.group_version != resource.group_version:
            below |= {"group": each.kind.group, "version": each.kind.version}
        yield below | {"kind": each.kind.kind if each.kind else resource.kind, "verbs": list(each.verbs)}


def _add_names(out: JSONObject, resource: Resource) -> None:
    if resource.short_names:
        out["shortNames"] = list(resource.short_names)
    if resource.categories:
        out["categories"] = list(resource.categories)


def _in_order(versions: dict[str, list[Resource]]) -> dict[str, list[Resource]]:
    """Return versions with the preferred one first: as installed for built-in groups, by maturity for custom groups."""
    if not any(resource.custom for resources in versions.values() for resource in resources):
        return versions
    return {name: versions[name] for name in sorted(versions, key=_priority, reverse=True)}


def _priority(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions: v2, v1, v2beta1, v1beta2, v1alpha1, then all others."""
    found = _KUBE_VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0, version)
    return (_STABILITY[found[2]], int(found[1]), int(found[3] or 0), "")
