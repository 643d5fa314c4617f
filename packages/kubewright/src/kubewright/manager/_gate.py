"""Protects the metrics: the API server authenticates the token, and says whether its user may `get` the path.

Guarantees
    Requests without a token, or with one that the API server does not know, get 401. Users without permission get 403.
    If the API server cannot be asked, the answer is 500.
    Only the digest of a token is kept.
Not guaranteed
    That a revoked permission has an effect immediately: answers are cached, for up to `GRANTED_FOR` seconds.

The manager needs `METRICS_AUTH_RULES`, and a scraper needs `METRICS_READER_RULES`. Follows controller-runtime's
pkg/metrics/filters; source:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from kubewright._runtime.log import get_logger
from kubewright.client._client import Client
from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import KubewrightError
from kubewright.models._rbac import PolicyRule

METRICS_AUTH_RULES: Final = (
    PolicyRule(api_groups=["authentication.k8s.io"], resources=["tokenreviews"], verbs=["create"]),
    PolicyRule(api_groups=["authorization.k8s.io"], resources=["subjectaccessreviews"], verbs=["create"]),
)
"""Cluster-wide rules that the manager needs for that."""

METRICS_READER_RULES: Final = (PolicyRule(non_resource_urls=["/metrics"], verbs=["get"]),)
"""Cluster-wide rules that a scraper needs."""

GRANTED_FOR: Final = 60.0
"""Seconds for which a positive answer is cached."""
REFUSED_FOR: Final = 10.0
"""Seconds for which a negative answer is cached."""
_CACHED: Final = 1024


class _Answer(NamedTuple):
    status: int
    text: str
    until: float


class Gate:
    """Checks requests before a handler gets them. `handle` is a `Handler`."""

    def __init__(self, client: Client, handler: Handler) -> None:
        """Create a gate; `client` asks the API server."""
        self._client = client
        self._handler = handler
        self._log = get_logger("kubewright.manager.metrics")
        self._answers: OrderedDict[tuple[bytes, str, str], _Answer] = OrderedDict()

    async def handle(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _refusal(401, "Unauthorized: send a token, Authorization: Bearer ...")
        try:
            answer = await self._answer(token.strip(), request.method.lower(), request.path)
        except KubewrightError as error:
            self._log.error("Scraper not authenticated", error=str(error))
            return _refusal(500, "Authentication failed: the API server could not be asked")
        return await self._handler(request) if answer.status == 200 else _refusal(answer.status, answer.text)

    async def _answer(self, token: str, verb: str, path: str) -> _Answer:
        from hashlib import sha256  # imported here, because it loads OpenSSL

        key = (sha256(token.encode()).digest(), verb, path)
        known = self._answers.get(key)
        if known is not None and known.until > asyncio.get_running_loop().time():
            return known
        status, text = await self._ask(token, verb, path)
        until = asyncio.get_running_loop().time() + (GRANTED_FOR if status == 200 else REFUSED_FOR)
        answer = self._answers[key] = _Answer(status, text, until)
        self._answers.move_to_end(key)
        if len(self._answers) > _CACHED:
            self._answers.popitem(last=False)
        return answer

    async def _ask(self, token: str, verb: str, path: str) -> tuple[int, str]:
        from kubewright.apis.authentication.v1 import TokenReview, TokenReviewSpec
        from kubewright.apis.authorization.v1 import (
            NonResourceAttributes,
            SubjectAccessReview,
            SubjectAccessReviewSpec,
        )

        review = await self._client.create(TokenReview(spec=TokenReviewSpec(token=token)))
        user = review.status.user
        if not review.status.authenticated or user is None:
            return 401, "Unauthorized: the API server does not know this token"
        spec = SubjectAccessReviewSpec(
            user=user.username,
            groups=user.groups,
            uid=user.uid,
            extra=user.extra,
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
        )
        access = await self._client.create(SubjectAccessReview(spec=spec))
        if access.status is None or not access.status.allowed:
            return 403, f"Forbidden: {user.username} may not {verb} {path}; bind the metrics reader role to it"
        return 200, ""


def _refusal(status: int, text: str) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(status, headers, f"{text}\n".encode())
