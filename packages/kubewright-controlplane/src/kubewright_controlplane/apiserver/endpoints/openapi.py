"""OpenAPI v3: a root document that lists one document for each group version, and these documents.

Built-in documents come from the catalog and stay compressed. Those of custom resources are built from the schemas of
their CRDs, with the parts that kubectl needs: the kinds, and the content types of PATCH.

Follows k8s.io/kube-openapi pkg/handler3 and apiextensions-apiserver's pkg/controller/openapi.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from time import time
from urllib.parse import parse_qs

from kubewright.http.message import Request, Response
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.catalog.facts import OpenAPIDocument
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.extensions import Extensions
from kubewright_controlplane.apiserver.endpoints.swagger_custom import CONVENTIONS, TYPE_PROPERTIES
from kubewright_controlplane.apiserver.registry.model import Resource
from kubewright_controlplane.apiserver.registry.objects import decode_json, encode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.schema.steps import lengthen

_YEAR = 365 * 24 * 3600
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_META_PARTS = ("ObjectMeta", "ListMeta", "ManagedFieldsEntry", "OwnerReference", "FieldsV1", "Time")
_META_SOURCE = "apis/coordination.k8s.io/v1"
_PATCH_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_PATCH_TYPES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")


class OpenAPI:
    """Answers `/openapi/v3` and the paths below it."""

    def __init__(self, resources: ResourceSet, extensions: Extensions) -> None:
        self._resources = resources
        self._extensions = extensions
        self._documents = _Documents(-1, {}, frozenset())

    def serve(self, request: Request, path: str) -> Response:
        """Answer a path below `/openapi/v3`, without its leading slash; the root if it is empty. Raises StepTooLong if
        documents have to be built.
        """
        documents = self._refreshed()
        if not path:
            return answers.json_document(200, {"paths": self._root(documents)})
        document = documents.find(path)
        if document is None:
            return Response(404, {"cache-control": "no-cache, private"})
        return _answer(request, path, document)

    def _refreshed(self) -> _Documents:
        generation = self._resources.generation
        if self._documents.generation != generation:
            lengthen()
            by_path: dict[str, list[Resource]] = {}
            for resource in self._resources:
                if resource.openapi_schema is not None:
                    by_path.setdefault(resource.group_version.path[1:], []).append(resource)
            custom = {path: _custom_document(resources) for path, resources in by_path.items()}
            self._documents = _Documents(generation, custom, frozenset(paths_of_missing(self._resources)))
        return self._documents

    def _root(self, documents: _Documents) -> dict[str, JSONObject]:
        hashes = {path: each for path, each in catalog.openapi_paths().items() if path not in documents.off}
        hashes |= {path: each.hash for path, each in documents.custom.items()}
        hashes |= {
            gv.path[1:]: each.openapi_hash for gv, each in tuple(self._extensions.versions.items()) if each.openapi_hash
        }
        return {path: {"serverRelativeURL": _url(path, hashes[path])} for path in sorted(hashes)}


@dataclass(frozen=True, slots=True)
class _Documents:
    """The documents of a generation of the resources."""

    generation: int
    custom: dict[str, OpenAPIDocument]
    """The documents of custom resources, by path."""
    off: frozenset[str]
    """The paths of built-in documents whose API is off."""

    def find(self, path: str) -> OpenAPIDocument | None:
        if path in self.custom:
            return self.custom[path]
        is_built_in = path in catalog.openapi_paths() and path not in self.off
        return catalog.openapi_v3(path) if is_built_in else None


def paths_of_missing(resources: ResourceSet) -> Iterator[str]:
    """Yield the paths of the documents of built-in APIs that the server does not serve."""
    served = {resource.group_version for resource in resources}
    for gv in catalog.OPTIONAL:
        if gv not in served:
            yield gv.path[1:]
        if not resources.has_group(gv.group):
            yield f"apis/{gv.group}"


def _url(path: str, digest: str) -> str:
    return f"/openapi/v3/{path}?hash={digest}"


def _answer(request: Request, path: str, document: OpenAPIDocument) -> Response:
    """Answer a document. With its current hash the answer can be cached forever; an old hash is redirected."""
    asked = parse_qs(request.query).get("hash", [""])[0]
    if asked and asked != document.hash:
        return Response(301, {"cache-control": "no-cache, private", "location": _url(path, document.hash)})
    headers = {"content-type": "application/json", "etag": f'"{document.hash}"', "vary": "Accept, Accept-Encoding"}
    if asked:
        headers |= {"cache-control": "public, immutable", "expires": formatdate(time() + _YEAR, usegmt=True)}
    else:
        headers["cache-control"] = "no-cache, private"
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(304, headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(200, headers | {"content-encoding": "gzip"}, document.gzip)
    return Response(200, headers, document.json)


def _custom_document(resources: list[Resource]) -> OpenAPIDocument:
    schemas: JSONObject = {**_meta_schemas()}
    paths: JSONObject = {}
    for resource in resources:
        gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        name = ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
        schemas[name] = _kind_schema(resource, gvk)
        schemas[f"{name}List"] = _list_schema(resource, name)
        paths[_item_path(resource)] = {"patch": _patch_operation(gvk, name)}
    body = encode_json(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
            "paths": paths,
            "components": {"schemas": schemas},
        }
    )
    return OpenAPIDocument(body, gzip.compress(body, 6, mtime=0), hashlib.sha512(body).hexdigest().upper())


@cache
def _meta_schemas() -> JSONObject:
    """Return the schemas of metadata that all documents of custom resources refer to."""
    published = decode_json(catalog.openapi_v3(_META_SOURCE).json)["components"]["schemas"]
    return {f"{_META}{part}": published[f"{_META}{part}"] for part in _META_PARTS}


def _kind_schema(resource: Resource, gvk: JSONObject) -> JSONObject:
    schema = dict(resource.openapi_schema or {})
    schema["properties"] = {
        **(schema.get("properties") or {}),
        **TYPE_PROPERTIES,
        "metadata": _reference("ObjectMeta", f"Standard object's metadata. More info: {CONVENTIONS}#metadata"),
    }
    schema["x-kubernetes-group-version-kind"] = [gvk]
    return schema


def _list_schema(resource: Resource, item: str) -> JSONObject:
    kind = resource.list_kind or f"{resource.kind}List"
    items = {
        "description": f"List of {resource.plural}. More info: {CONVENTIONS}",
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{item}"},
    }
    metadata = _reference("ListMeta", f"Standard list metadata. More info: {CONVENTIONS}#types-kinds")
    return {
        "description": f"{kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {**TYPE_PROPERTIES, "items": items, "metadata": metadata},
        "x-kubernetes-group-version-kind": [{"group": resource.group, "version": resource.version, "kind": kind}],
    }


def _patch_operation(gvk: JSONObject, name: str) -> JSONObject:
    schema = {"schema": {"type": "object"}}
    answer = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {
        "parameters": [{"name": each, "in": "query", "schema": {"type": "string"}} for each in _PATCH_PARAMETERS],
        "requestBody": {"required": True, "content": dict.fromkeys(_PATCH_TYPES, schema)},
        "responses": {"200": {"description": "OK", "content": answer}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk,
    }


def _item_path(resource: Resource) -> str:
    namespaced = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{resource.group_version.path}{namespaced}/{resource.plural}/{{name}}"


def _reference(part: str, description: str) -> JSONObject:
    return {"description": description, "allOf": [{"$ref": f"#/components/schemas/{_META}{part}"}]}
