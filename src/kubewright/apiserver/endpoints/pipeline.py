"""The way of a request up to its verb, and of its answer back: who, may they, what, and what went wrong.

Follows apiserver's pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import logging
import uuid
from typing import Protocol

from kubewright.apiserver.authentication.user import UserInfo
from kubewright.apiserver.authorization.attributes import AccessAttributes, Authorizer, forbidden
from kubewright.apiserver.endpoints import answers, requestinfo
from kubewright.apiserver.endpoints.metrics import Metrics
from kubewright.apiserver.endpoints.parameters import Query
from kubewright.apiserver.endpoints.paths import PathEndpoints
from kubewright.apiserver.endpoints.requestinfo import RequestInfo
from kubewright.apiserver.endpoints.resources import ResourceEndpoints
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, InternalError, RequestTooLarge

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request's body: as a real API server takes."""

_log = logging.getLogger(__name__)


class Authentication(Protocol):
    """What the pipeline asks of authentication."""

    def authenticate(self, request: Request) -> UserInfo: ...

    def impersonate(self, request: Request, user: UserInfo, authorizer: Authorizer) -> UserInfo: ...


class Pipeline:
    """Takes every request of the server. Its `handle` never raises: a failure is an answer."""

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
        path, _, query = request.target.partition("?")
        info = requestinfo.parse(request.method, path, watch="watch" in query and Query(query).flag("watch"))
        try:
            response = await self._answer(request, info)
        except APIError as error:
            response = answers.failure(error)
        except Exception:  # noqa: BLE001 -- a defect in one request must not end the others
            _log.exception("%s %s failed", request.method, request.target)
            text = "This request caused apiserver to panic. Look in the logs for details."
            response = answers.failure(InternalError(text))
        response.headers["audit-id"] = request.headers.get("audit-id") or str(uuid.uuid4())
        answers.compress(request, response)
        self._metrics.count(info, response.status)
        return response

    async def _answer(self, request: Request, info: RequestInfo) -> Response:
        user = self._authentication.authenticate(request)
        user = self._authentication.impersonate(request, user, self._authorizer)
        self._authorize(user, info)
        if len(request.body) > BODY_LIMIT:
            raise RequestTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
        if info.resource:
            return await self._resources.serve(request, info, user)
        return self._paths.serve(request, info.path)

    def _authorize(self, user: UserInfo, info: RequestInfo) -> None:
        if info.resource:
            access = AccessAttributes(
                user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name
            )
        else:
            access = AccessAttributes(user, info.verb, path=info.path)
        decision = self._authorizer.authorize(access)
        if not decision.allowed:
            raise forbidden(access, decision.reason)
