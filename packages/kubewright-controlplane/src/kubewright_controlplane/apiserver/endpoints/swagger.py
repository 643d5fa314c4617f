"""OpenAPI v2: one document with the definitions and operations of all kinds, in JSON or protobuf.

Guarantees: nothing is built before a client asks. The part of the built-in kinds is built once for each encoding, and
kept encoded. The part of custom resources is built again after a change of the served resources.

Follows k8s.io/kube-openapi pkg/handler.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from kubewright.http.message import Request, Response
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.endpoints import answers, swagger_custom, swagger_protobuf
from kubewright_controlplane.apiserver.endpoints.extensions import Extensions
from kubewright_controlplane.apiserver.endpoints.openapi import paths_of_missing
from kubewright_controlplane.apiserver.endpoints.swagger_builtin import built_in
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.schema.steps import lengthen

JSON: Final = "application/json"
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OFFERED: Final = {JSON: JSON, PROTOBUF.replace("v2.v1.0", "v2@v1.0"): PROTOBUF, PROTOBUF: PROTOBUF}
"""What a client may ask for, and what it gets."""


class Swagger:
    """Answers `/openapi/v2`."""

    def __init__(self, resources: ResourceSet, extensions: Extensions) -> None:
        self._resources = resources
        self._extensions = extensions
        self._current = ((-1, -1), _Document({}, frozenset(), {}, {}))
        """The document, and the generation that it is of."""

    def serve(self, request: Request) -> Response:
        """Return the document in the form that the client prefers. Raises StepTooLong if it has to be built."""
        content_type = _negotiate(request.headers.get("accept", ""))
        if not content_type:
            return Response(406, {"cache-control": "no-cache, private", "vary": "Accept-Encoding, Accept"})
        generation = (self._resources.generation, self._extensions.generation)
        of, document = self._current
        if of != generation:
            lengthen()
            document = _read(self._resources, self._extensions)
            self._current = (generation, document)
        return _answer(request, document, content_type)


@dataclass(frozen=True)
class _Document:
    """The document of a generation of the resources; each encoding is built when a client first asks for it."""

    paths: JSONObject
    """The paths of custom resources and of extension servers."""
    off: frozenset[str]
    """The paths of the v3 documents of built-in APIs that are off."""
    definitions: JSONObject
    """The definitions of custom resources and of extension servers."""
    parameters: JSONObject
    """The shared parameters of extension servers."""

    @cached_property
    def json(self) -> bytes:
        lengthen()
        part = _built_in_json(self.off)
        head = encode_json(_head())[:-1]
        tables = {
            b"paths": (part.paths, _members(self.paths)),
            b"definitions": (part.definitions, _members(self.definitions)),
            b"parameters": (part.parameters, _members(self.parameters)),
        }
        joined = (b'"%s":{%s}' % (name, b",".join(filter(None, each))) for name, each in tables.items())
        return b",".join((head, *joined)) + b"}"

    @cached_property
    def protobuf(self) -> bytes:
        lengthen()
        part = _built_in_protobuf(self.off)
        paths = part.paths + swagger_protobuf.paths(self.paths)
        definitions = part.definitions + swagger_protobuf.definitions(self.definitions)
        parameters = part.parameters + swagger_protobuf.parameters(self.parameters)
        return swagger_protobuf.document(_head(), paths, definitions, parameters)

    @cached_property
    def json_gzip(self) -> bytes:
        lengthen()
        return gzip.compress(self.json, 1, mtime=0)

    @cached_property
    def protobuf_gzip(self) -> bytes:
        lengthen()
        return gzip.compress(self.protobuf, 1, mtime=0)

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha512(self.json).hexdigest().upper()}"'


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of the built-in kinds, encoded so that other parts can be added."""

    paths: bytes
    definitions: bytes
    parameters: bytes


def _read(resources: ResourceSet, extensions: Extensions) -> _Document:
    off = frozenset(paths_of_missing(resources))
    custom = [each for each in resources if each.openapi_schema is not None]
    paths: JSONObject = {}
    definitions: JSONObject = {}
    if custom:
        operations = _operations()
        for each in custom:
            paths |= operations.of(each)
            definitions |= swagger_custom.definitions(each)
    parameters: JSONObject = {}
    if any(each.swagger for each in tuple(extensions.versions.values())):
        own = _built_in(off)
        for gv, version in tuple(extensions.versions.items()):
            part = _extension_part(gv, version.swagger)
            paths |= part.paths
            definitions |= _without(part.definitions, own["definitions"])
            parameters |= _without(part.parameters, own["parameters"])
    return _Document(paths, off, definitions, parameters)


def _without(table: JSONObject, own: JSONObject) -> JSONObject:
    return {name: value for name, value in table.items() if name not in own}


class _ExtensionPart(msgspec.Struct):
    """What the OpenAPI v2 document of an extension server adds."""

    paths: dict[str, dict[str, Any]] = {}
    definitions: dict[str, dict[str, Any]] = {}
    parameters: dict[str, dict[str, Any]] = {}


def _extension_part(gv: GroupVersion, data: bytes) -> _ExtensionPart:
    """Read the document of an extension server. Only the paths of its group version count; a broken one is empty."""
    try:
        part = msgspec.json.decode(data or b"{}", type=_ExtensionPart)
    except msgspec.DecodeError:
        return _ExtensionPart()
    part.paths = {path: each for path, each in part.paths.items() if path.startswith(f"{gv.path}/")}
    return part


@cache
def _operations() -> swagger_custom.Operations:
    return swagger_custom.Operations(built_in(["apis/apps/v1"])["paths"])


def _built_in(off: frozenset[str]) -> JSONObject:
    return built_in(path for path in sorted(catalog.openapi_paths()) if path not in off)


@cache
def _built_in_json(off: frozenset[str]) -> _Part:
    tables = _built_in(off)
    return _Part(_members(tables["paths"]), _members(tables["definitions"]), _members(tables["parameters"]))


@cache
def _built_in_protobuf(off: frozenset[str]) -> _Part:
    tables = _built_in(off)
    return _Part(
        swagger_protobuf.paths(tables["paths"]),
        swagger_protobuf.definitions(tables["definitions"]),
        swagger_protobuf.parameters(tables["parameters"]),
    )


def _members(table: JSONObject) -> bytes:
    """Return the members of a JSON object, without the braces."""
    return encode_json(table)[1:-1]


def _head() -> JSONObject:
    version = catalog.version()
    token = {
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    }
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": f"{version['major']}.{version['minor']}"},
        "securityDefinitions": {"BearerToken": token},
        "security": [{"BearerToken": []}],
    }


def _negotiate(accept: str) -> str:
    """Return the content type of the answer; empty if the client accepts none."""
    for entry in answers.parse_accept(accept):
        for asked, content_type in _OFFERED.items():
            if entry.accepts(asked):
                return content_type
    return ""


def _answer(request: Request, document: _Document, content_type: str) -> Response:
    headers = {
        "cache-control": "no-cache, private",
        "content-type": content_type,
        "etag": document.etag,
        "vary": "Accept-Encoding, Accept",
    }
    if request.headers.get("if-none-match") == document.etag:
        return Response(304, headers)
    is_json = content_type == JSON
    if "gzip" in request.headers.get("accept-encoding", ""):
        body = document.json_gzip if is_json else document.protobuf_gzip
        return Response(200, headers | {"content-encoding": "gzip"}, body)
    return Response(200, headers, document.json if is_json else document.protobuf)
