"""Who may read the metrics: the API server says whose token it is, and whether that one may `get` the path.

Guarantees
    Nothing is shown to who has no token (401), a token that the API server does not know (401), or no right (403).
    When the API server can't say, the answer is 500 and nothing is shown.
    A token is kept as its digest only.
Caveat
    Answers are remembered: a right that is taken away still holds for up to `GRANTED_FOR` seconds.

Needs `METRICS_AUTH_RULES`; who scrapes needs `METRICS_READER_RULES`. Follows controller-runtime's pkg/metrics/filters;
source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from kubewright._runtime.clock import Clock
from kubewright._runtime.log import get_logger
from kubewright.client._client import Client
from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import KubewrightError
from kubewright.models._rbac import PolicyRule

METRICS_AUTH_RULES: Final = (
    PolicyRule(api_groups=["authentication.k8s.io"], resources=["tokenreviews"], verbs=["create"]),
    PolicyRule(api_groups=["authorization.k8s.io"], resources=["subjectaccessreviews"], verbs=["create"]),
)
"""What the manager needs in the whole cluster to ask."""

METRICS_READER_RULES: Final = (PolicyRule(non_resource_urls=["/metrics"], verbs=["get"]),)
"""What who scrapes needs in the whole cluster."""

GRANTED_FOR: Final = 60.0
"""Seconds for which a yes is remembered."""
REFUSED_FOR: Final = 10.0
"""Seconds for which a no is."""
_REMEMBERED: Final = 1024


class _Answer(NamedTuple):
    status: int
    text: str
    until: float


class Gate:
    """Stands in front of a handler. `handle` is a `Handler`."""

    def __init__(self, client: Client, handler: Handler, clock: Clock) -> None:
        """`client` asks, and has the rights to."""
        self._client = client
        self._handler = handler
        self._clock = clock
        self._log = get_logger("kubewright.manager._metrics")
        self._answers: OrderedDict[tuple[bytes, str, str], _Answer] = OrderedDict()

    async def handle(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _refusal(401, "Unauthorized: give a token, Authorization: Bearer ...")
        try:
            answer = await self._answer(token.strip(), request.method.lower(), request.path)
        except KubewrightError as error:
            self._log.error("Reader of metrics not checked", error=str(error))
            return _refusal(500, "Authentication failed: the API server could not be asked")
        return await self._handler(request) if answer.status == 200 else _refusal(answer.status, answer.text)

    async def _answer(self, token: str, verb: str, path: str) -> _Answer:
        from hashlib import sha256  # a library of its own, for those who guard their metrics

        key = (sha256(token.encode()).digest(), verb, path)
        known = self._answers.get(key)
        if known is not None and known.until > self._clock.monotonic():
            return known
        status, text = await self._ask(token, verb, path)
        until = self._clock.monotonic() + (GRANTED_FOR if status == 200 else REFUSED_FOR)
        answer = self._answers[key] = _Answer(status, text, until)
        self._answers.move_to_end(key)
        if len(self._answers) > _REMEMBERED:
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
