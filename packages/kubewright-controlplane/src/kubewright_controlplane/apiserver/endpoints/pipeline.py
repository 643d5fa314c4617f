"""The way of a request to its verb and back: authentication, authorization, routing, and errors as answers.

Follows apiserver's pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Protocol

from kubewright._runtime.log import get_logger
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, BadRequest, InternalError, RequestTooLarge
from kubewright.machinery.selectors import FieldSelector
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, Authorizer, forbidden
from kubewright_controlplane.apiserver.endpoints import answers, requestinfo
from kubewright_controlplane.apiserver.endpoints.metrics import Metrics
from kubewright_controlplane.apiserver.endpoints.paths import PathEndpoints
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo
from kubewright_controlplane.apiserver.endpoints.resources import ResourceEndpoints
from kubewright_controlplane.apiserver.user import UserInfo

BODY_LIMIT = 3 * 1024 * 1024
"""Limit of a request's body in bytes, as in a real API server."""

_STREAMING_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})
"""Subresources that also require `create`, since the handshake of a WebSocket is always a GET (KEP-4006, since 1.35).
"""

_log = get_logger(__name__)


class Authentication(Protocol):
    """The interface of authentication."""

    def authenticate(self, request: Request) -> UserInfo: ...

    def impersonate(self, request: Request, access: AccessAttributes, authorizer: Authorizer) -> UserInfo: ...


class Pipeline:
    """Handles every request of the server. `handle` never raises: an error becomes an answer."""

    def __init__(
        self,
        authentication: Authentication,
        authorizer: Authorizer,
        resources: ResourceEndpoints,
        paths: PathEndpoints,
        metrics: Metrics,
    ) -> None:
        self._authentication = authentication
        self._authorizer = authorizer
        self._resources = resources
        self._paths = paths
        self._metrics = metrics

    async def handle(self, request: Request) -> Response:
        info = requestinfo.parse(request.method, request.target)
        try:
            response = await self._answer(request, info)
        except APIError as error:
            response = answers.failure(error)
        except RecursionError:  # how deep is too deep depends on the version of Python
            _log.warning("Deeply nested request rejected", method=request.method, target=request.target)
            response = answers.failure(BadRequest("the body of the request is nested too deeply"))
        except Exception:  # noqa: BLE001 -- a defect in one request must not affect others
            _log.exception("Request failed", method=request.method, target=request.target)
            text = "This request caused apiserver to panic. Look in the logs for details."
            response = answers.failure(InternalError(text))
        response.headers["audit-id"] = request.headers.get("audit-id") or str(uuid.uuid4())
        answers.compress(request, response)
        self._metrics.count(info, response.status)
        return response

    async def _answer(self, request: Request, info: RequestInfo) -> Response:
        access = _access(self._authentication.authenticate(request), info)
        user = self._authentication.impersonate(request, access, self._authorizer)
        access = access if user is access.user else replace(access, user=user)
        self._authorize(access)
        if request.upgrade == "websocket" and info.resource == "pods" and info.subresource in _STREAMING_SUBRESOURCES:
            self._authorize(replace(access, verb="create"))
        if len(request.body) > BODY_LIMIT:
            raise RequestTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
        if info.resource:
            return await self._resources.serve(request, info, user)
        return self._paths.serve(request, info)

    def _authorize(self, access: AccessAttributes) -> None:
        decision = self._authorizer.authorize(access)
        if not decision.allowed:
            raise forbidden(access, decision.reason)


def _access(user: UserInfo, info: RequestInfo) -> AccessAttributes:
    """Return the authorization request for a request."""
    if not info.resource:
        return AccessAttributes(user, info.verb, path=info.path)
    name = info.name or (_selected_name(info) if info.verb in ("list", "watch") else "")
    return AccessAttributes(
        user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, name
    )


def _selected_name(info: RequestInfo) -> str:
    """Return the name that a field selector requires: permission for that object is enough to list or watch it."""
    text = info.query.text("fieldSelector")
    if "metadata.name" not in text:
        return ""
    try:
        selector = FieldSelector.parse(text)
    except ValueError:
        return ""  # reported when the request is served
    return selector.exact("metadata.name") or ""
