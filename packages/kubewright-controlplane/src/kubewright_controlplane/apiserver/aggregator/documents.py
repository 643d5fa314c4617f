"""What an extension server says about its group versions: discovery and OpenAPI documents.

Nothing of it is trusted: a document of another shape is an error of that server.

Follows k8s.io/kube-aggregator pkg/apiserver/handler_discovery.go and pkg/controllers/openapi.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from kubewright.http.message import Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DecodeError, RequestTooLarge
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.aggregator.client import ExtensionClients, ExtensionServer
from kubewright_controlplane.apiserver.endpoints.body import check_nesting
from kubewright_controlplane.apiserver.endpoints.extensions import ExtensionVersion
from kubewright_controlplane.apiserver.user import AUTHENTICATED_GROUP, MASTERS_GROUP, UserInfo
from kubewright_controlplane.apiserver.webhooks.services import ServiceNotReady

AGGREGATOR: Final = UserInfo("system:kube-aggregator", (MASTERS_GROUP, AUTHENTICATED_GROUP))
"""The user of requests that nobody sent."""

_LONGEST_DISCOVERY: Final = 1 << 20
"""Bytes of a discovery document: everybody waits while it is read, and gets it in discovery."""
_SECONDS: Final = 5.0
_OPENAPI_SECONDS: Final = 60.0
_JSON: Final = "application/json"
_LISTS: Final = ",".join(
    f"{_JSON};g=apidiscovery.k8s.io;v={each};as=APIGroupDiscoveryList" for each in ("v2", "v2beta1")
)
_FAILURES: Final = (ConnectionFailed, TimeoutError, ServiceNotReady, ConfigError, msgspec.DecodeError, ValueError)


class DocumentFailed(Exception):
    """An extension server did not answer with the document."""


class _Version(msgspec.Struct):
    version: str
    resources: list[dict[str, Any]] = []


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    items: list[_Group] = []


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    singular_name: str = ""
    verbs: list[str] = []
    short_names: list[str] = []
    categories: list[str] = []


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


class _Path(msgspec.Struct):
    server_relative_url: str = msgspec.field(name="serverRelativeURL", default="")


class _Index(msgspec.Struct):
    paths: dict[str, _Path] = {}


async def read_documents(clients: ExtensionClients, server: ExtensionServer, gv: GroupVersion) -> ExtensionVersion:
    """Return what a group version of an extension server serves. Raises DocumentFailed without a discovery document.

    A server may have no OpenAPI documents.
    """
    try:
        found = ExtensionVersion(await _discovery(clients, server, gv), fresh=True)
    except _FAILURES as error:
        raise DocumentFailed(str(error)) from error
    with suppress(*_FAILURES):
        found.openapi_hash = await _openapi_hash(clients, server, gv)
    with suppress(*_FAILURES, DecodeError, RequestTooLarge):
        answer = await clients.read(server, "/openapi/v2", AGGREGATOR, _JSON, _OPENAPI_SECONDS)
        document = await _whole(answer)
        await asyncio.to_thread(check_nesting, document)  # it becomes a part of the document that everybody reads
        found.swagger = document
    return found


async def _discovery(clients: ExtensionClients, server: ExtensionServer, gv: GroupVersion) -> list[JSONObject]:
    answer = await clients.read(server, "/apis", AGGREGATOR, _LISTS, _SECONDS)
    if answer.status == 503:
        raise ConnectionFailed(f"service {server.namespace}/{server.name}:{server.port} answered with 503")
    if answer.status == 200 and "as=APIGroupDiscoveryList" in answer.headers.get("content-type", ""):
        listed = msgspec.json.decode(await _discovery_document(answer), type=_GroupList)
        return _resources_of(listed, gv)
    answer = await clients.read(server, gv.path, AGGREGATOR, _JSON, _SECONDS)
    if answer.status != 200:
        raise ConnectionFailed(f"failed to download legacy discovery for {gv.path}: status {answer.status}")
    return _converted(msgspec.json.decode(await _discovery_document(answer), type=_ResourceList).resources)


def _resources_of(listed: _GroupList, gv: GroupVersion) -> list[JSONObject]:
    return next(
        (
            version.resources
            for group in listed.items
            if group.metadata.name == gv.group
            for version in group.versions
            if version.version == gv.version
        ),
        [],
    )


def _converted(resources: Sequence[_Resource]) -> list[JSONObject]:
    """Return the resources of the older discovery document in the newer form."""
    found: dict[str, JSONObject] = {}
    for each in resources:
        name, _, subresource = each.name.partition("/")
        kind = {"group": each.group, "version": each.version, "kind": each.kind}
        if not subresource:
            found[name] = _converted_resource(each, kind)
        elif name in found:
            below = {"subresource": subresource, "responseKind": kind, "verbs": each.verbs}
            found[name].setdefault("subresources", []).append(below)
    return list(found.values())


def _converted_resource(each: _Resource, kind: JSONObject) -> JSONObject:
    out: JSONObject = {
        "resource": each.name,
        "responseKind": kind,
        "scope": "Namespaced" if each.namespaced else "Cluster",
        "singularResource": each.singular_name,
        "verbs": each.verbs,
    }
    if each.short_names:
        out["shortNames"] = each.short_names
    if each.categories:
        out["categories"] = each.categories
    return out


async def _openapi_hash(clients: ExtensionClients, server: ExtensionServer, gv: GroupVersion) -> str:
    answer = await clients.read(server, "/openapi/v3", AGGREGATOR, _JSON, _OPENAPI_SECONDS)
    path = msgspec.json.decode(await _whole(answer), type=_Index).paths.get(gv.path[1:], _Path())
    return parse_qs(urlsplit(path.server_relative_url).query).get("hash", [""])[0]


async def _discovery_document(answer: Response) -> bytes:
    """Return the body of a success. Raises ConnectionFailed for any other answer, and for one that is too long."""
    body = await _whole(answer)
    if len(body) > _LONGEST_DISCOVERY:
        raise ConnectionFailed(f"the discovery document has {len(body)} bytes, and may have {_LONGEST_DISCOVERY}")
    return body


async def _whole(answer: Response) -> bytes:
    """Return the body of a success. Raises ConnectionFailed for any other answer."""
    if answer.status != 200:
        raise ConnectionFailed(f"status {answer.status}")
    return await answer.read()
