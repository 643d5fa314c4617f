"""Discovery: the served groups, versions and resources, in the aggregated and in the older form.

Documents are built on first use, and again when the set of resources has changed.

Follows apiserver's pkg/endpoints/discovery and KEP-3352 (aggregated discovery).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from kubewright.http.message import Request, Response
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.answers import JSON, negotiate, parse_accept
from kubewright_controlplane.apiserver.endpoints.extensions import Extensions
from kubewright_controlplane.apiserver.registry.failures import not_served
from kubewright_controlplane.apiserver.registry.model import Resource, Subresource
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_AGGREGATED_VERSION = "v2"


@dataclass(frozen=True, slots=True)
class _Aggregated:
    body: bytes
    etag: str


class Discovery:
    """Answers `/api`, `/apis`, and the paths of groups and group versions."""

    def __init__(self, resources: ResourceSet, extensions: Extensions) -> None:
        self._resources = resources
        self._extensions = extensions
        self._generation = (-1, -1)
        self._groups: dict[str, list[str]] = {}
        """The versions of each group, in order."""
        self._served: dict[GroupVersion, list[Resource]] = {}
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
        return [GroupVersion(group, version).path for group, versions in self._groups.items() for version in versions]

    def _refresh(self) -> None:
        generation = (self._resources.generation, self._extensions.generation)
        if self._generation == generation:
            return
        self._generation = generation
        self._aggregated.clear()
        self._served = {}
        for resource in self._resources:
            self._served.setdefault(resource.group_version, []).append(resource)
        self._groups = self._extensions.ordered(self._served)

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
        versions = [self._aggregated_version(GroupVersion(group, version)) for version in self._groups[group]]
        return {"metadata": {"name": group} if group else {}, "versions": versions}

    def _aggregated_version(self, gv: GroupVersion) -> JSONObject:
        extension = self._extensions.versions.get(gv)
        if extension is not None:
            freshness = "Current" if extension.fresh else "Stale"
            return {"version": gv.version, "resources": extension.resources, "freshness": freshness}
        resources = [_aggregated_resource(each) for each in self._served[gv]]
        return {"version": gv.version, "resources": resources, "freshness": "Current"}

    # The older forms

    def _root(self, root: str, request: Request) -> JSONObject:
        if root == "api":
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}]
            versions = self._groups.get("", [])
            return {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses}
        groups = [self._group(name) for name in self._groups if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> JSONObject:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self._groups[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _group_version(self, group: str, version: str) -> Response:
        resources = self._served.get(GroupVersion(group, version))
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
