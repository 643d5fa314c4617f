"""Paths that are not resources: discovery, OpenAPI, version, health, metrics, keys."""

from __future__ import annotations

from collections.abc import Callable

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import MethodNotAllowed, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.discovery import Discovery
from kubewright_controlplane.apiserver.endpoints.extensions import Extensions
from kubewright_controlplane.apiserver.endpoints.metrics import Metrics
from kubewright_controlplane.apiserver.endpoints.openapi import OpenAPI
from kubewright_controlplane.apiserver.endpoints.requestinfo import Query, RequestInfo
from kubewright_controlplane.apiserver.endpoints.swagger import Swagger
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_CHECKS = (
    "ping",
    "log",
    "storage",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/rbac/bootstrap-roles",
)
_SIGNING_KEYS = "/openid/v1/jwks"
_LISTED = (
    "/.well-known/openid-configuration",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
)


class PathEndpoints:
    """Serves the paths that are not resources. `key_set` returns the public keys of service account tokens."""

    def __init__(
        self,
        resources: ResourceSet,
        extensions: Extensions,
        metrics: Metrics,
        issuer: str,
        key_set: Callable[[], JSONObject],
    ) -> None:
        self._discovery = Discovery(resources, extensions)
        self._openapi = OpenAPI(resources, extensions)
        self._swagger = Swagger(resources, extensions)
        self._metrics = metrics
        self._issuer = issuer
        self._key_set = key_set

    def serve(self, request: Request, info: RequestInfo) -> Response:
        parts = [part for part in info.path.split("/") if part]
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource", details=StatusDetails()
            )
        match parts:
            case []:
                listed = sorted([*_LISTED, "/api", "/apis", *self._discovery.group_versions()])
                return answers.json_document(200, {"paths": listed})
            case ["api" | "apis", *_]:
                return self._discovery.serve(request, parts)
            case ["openapi", "v3", *rest]:
                return self._openapi.serve(request, "/".join(rest))
            case ["openapi", "v2"]:
                return self._swagger.serve(request)
            case ["version"]:
                return answers.json_document(200, catalog.version())
            case [("healthz" | "livez" | "readyz") as name, *rest]:
                return _health(name, "/".join(rest), info.query)
            case ["metrics"]:
                return self._metrics.answer()
            case [".well-known", "openid-configuration"]:
                return _cached("application/json", self._openid_configuration(request))
            case ["openid", "v1", "jwks"]:
                return _cached("application/jwk-set+json", self._key_set())
            case _:
                return answers.page_not_found()

    def _openid_configuration(self, request: Request) -> JSONObject:
        return {
            "issuer": self._issuer,
            "jwks_uri": f"https://{request.headers.get('host', 'localhost')}{_SIGNING_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key["alg"] for key in self._key_set()["keys"]}),
        }


def _health(name: str, check: str, query: Query) -> Response:
    """Report the server as healthy: it listens only when it is ready."""
    if check:
        return answers.text(200, "ok") if check in _CHECKS else answers.page_not_found()
    if not query.flag("verbose"):
        return answers.text(200, "ok")
    lines = [f"[+]{each} ok\n" for each in _CHECKS]
    return answers.text(200, f"{''.join(lines)}{name} check passed\n")


def _cached(content_type: str, obj: JSONObject) -> Response:
    return Response(200, {"cache-control": "public, max-age=3600", "content-type": content_type}, encode_json(obj))
