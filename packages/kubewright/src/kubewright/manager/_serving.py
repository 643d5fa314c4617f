"""The manager's own servers: the kubelet's probes, and metrics for scrapers with permission.

Probes are `/healthz`, whether the process is alive, and `/readyz`, whether it is ready. A path runs its checks and
answers 200 with `ok`, or 500 with a line for each check, as the API server's own endpoints do. With `?verbose`, both
answers have the lines. `/healthz/<check>` runs one check.

Metrics are protected by the API server: it authenticates the token, and says whether its user may `get` the path. The
manager needs `METRICS_AUTH_RULES`, and a scraper needs `METRICS_READER_RULES`.

Guarantees
    Requests for metrics without a token, or with one that the API server does not know, get 401. Users without
    permission get 403. If the API server cannot be asked, the answer is 500.
    Only the digest of a token is kept.
Not guaranteed
    That a revoked permission has an effect immediately: answers are cached, for up to `GRANTED_FOR` seconds.

Follows controller-runtime's pkg/healthz and pkg/metrics/filters; source:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Final, Literal, TypeAlias

import msgspec

from kubewright._runtime.log import get_logger
from kubewright.client._client import Client
from kubewright.http.message import Handler, Request, Response
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.manager._metrics import Metrics
from kubewright.models._rbac import PolicyRule

OFF: Final = "0"
"""The address that turns a server off."""
BIND_HOST: Final = "KUBEWRIGHT_BIND_HOST"
"""The environment variable with the host for addresses without one. The nodes of an embedded control plane set it to
the Pod's address, so that several Pods of one machine can each have port 8081.
"""
Option: TypeAlias = Literal["health_address", "metrics_address"]
"""The option with the address of a server."""
_FLAGS: Final[dict[Option, str]] = {
    "health_address": "--health-probe-bind-address",
    "metrics_address": "--metrics-bind-address",
}
Check: TypeAlias = Callable[[], Awaitable[None] | None]
"""Returns if the process is healthy. Raises an exception whose message says what is wrong."""

METRICS_AUTH_RULES: Final = (
    PolicyRule(api_groups=["authentication.k8s.io"], resources=["tokenreviews"], verbs=["create"]),
    PolicyRule(api_groups=["authorization.k8s.io"], resources=["subjectaccessreviews"], verbs=["create"]),
)
"""Cluster-wide rules that the manager needs to protect its metrics."""

METRICS_READER_RULES: Final = (PolicyRule(non_resource_urls=["/metrics"], verbs=["get"]),)
"""Cluster-wide rules that a scraper needs."""

GRANTED_FOR: Final = 60.0
"""Seconds for which a positive answer is cached."""
REFUSED_FOR: Final = 10.0
"""Seconds for which a negative answer is cached."""
_CACHED: Final = 1024


@asynccontextmanager
async def serving(
    handler: Handler, address: str | None, option: Option, ssl: Callable[[], SSLContext] | None = None
) -> AsyncGenerator[int, None]:
    """Serve `handler` at `host:port` while the block runs, and yield the port; 0 when the server is off.

    An address without a host means $KUBEWRIGHT_BIND_HOST, or else every interface. With `ssl` the server speaks TLS.

    Raises ConfigError if the address is invalid or in use; the message names it by `option` and its flag.
    """
    if address in (None, OFF, ""):
        yield 0
        return
    from kubewright.http.server import Server

    named = f"{option} {address!r} ({_FLAGS[option]})"
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f'{named} is not an address; write "host:port", ":port", or "0" to turn it off')
    host = host.strip("[]") or os.environ.get(BIND_HOST, "")
    server = Server(handler, host=host, port=int(port), ssl=ssl() if ssl is not None else None)
    try:
        await server.start()
    except ConfigError as error:
        raise ConfigError(f'{named}: {error}; the address "0" turns the server off') from error
    try:
        yield server.port
    finally:
        await server.close()


# Probes


class Probes:
    """The checks of one manager, and the handler that runs them."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {"/healthz": {"ping": _ping}, "/readyz": {}}

    def add_healthz(self, name: str, check: Check) -> None:
        """Add a check of `/healthz`. The kubelet restarts a process whose check fails."""
        self._checks["/healthz"][name] = check

    def add_readyz(self, name: str, check: Check) -> None:
        """Add a check of `/readyz`. A process whose check fails gets no traffic."""
        self._checks["/readyz"][name] = check

    def add_own_of(self, other: Probes) -> None:
        """Add the checks of `other` whose names are not used here."""
        for path, checks in other._checks.items():
            self._checks[path] = {**checks, **self._checks[path]}

    async def handle(self, request: Request) -> Response:
        """Answer a probe. This is a `Handler`."""
        path = request.path.rstrip("/")
        root, _, single = path[1:].partition("/")
        checks = self._checks.get(f"/{root}")
        if checks is None or (single and single not in checks):
            return _text(404, "404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "405 method not allowed\n")
        chosen = {single: checks[single]} if single else checks
        lines, good = await _run_checks(chosen)
        if not good:
            return _text(500, f"{lines}{root} check failed\n")
        return _text(200, f"{lines}{root} check passed\n" if "verbose" in request.query else "ok")


async def _run_checks(checks: dict[str, Check]) -> tuple[str, bool]:
    lines: list[str] = []
    good = True
    for name, check in checks.items():
        try:
            result = check()
            if result is not None:
                await result
            lines.append(f"[+]{name} ok\n")
        except Exception as error:  # noqa: BLE001 - a check may raise any error
            good = False
            lines.append(f"[-]{name} failed: {error}\n")
    return "".join(lines), good


def _ping() -> None:
    """Succeeds: a process that answers is alive."""


def _text(status: int, text: str) -> Response:
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(status, headers, text.encode())


# Metrics


class Scrapes:
    """The handler of requests for metrics, in the format of Prometheus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def handle(self, request: Request) -> Response:
        """Answer a request for `/metrics`. This is a `Handler`."""
        if request.path != "/metrics":
            return Response.plain(404, "404 page not found\n")
        from kubewright.manager._exposition import render

        content_type, body = render(self._metrics, request.headers.get("accept", ""))
        return Response(200, {"content-type": content_type}, body)


class _Answer(msgspec.Struct, frozen=True):
    status: int
    text: str
    until: float


class Gate:
    """Authenticates and authorizes requests before a handler gets them. `handle` is a `Handler`."""

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
