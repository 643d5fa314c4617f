"""The handler of a webhook server: paths to webhooks, limits, timeouts, and what a failure means.

Guarantees
    A review that can be read gets HTTP 200, whatever its answer. Anything else gets an HTTP error, which an API server
    treats by the failure policy of the webhook.
    An exception that is not an APIError denies the request with 500 and `panic: ... [recovered]`, and is logged with
    its traceback. Other reviews are not affected.
    A function that does not answer within the timeout of the API server's request is cancelled. By then the API server
    has stopped waiting, and its failure policy has decided.
Not guaranteed
    That functions that block the event loop are cancelled; see `run_blocking`.

A review waits until the caches of the manager are complete and its resources are open. Conversions do not wait, because
the caches may need them.

Follows controller-runtime's pkg/webhook; limits are those of its admission handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from kubewright._runtime.clock import SystemClock, time_source
from kubewright._runtime.log import StructuredLogger, get_logger
from kubewright.cache._client import CachedClient
from kubewright.controllers._reconcile import traceback_of, unwrapped
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import (
    APIError,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    RequestTooLarge,
    ServerTimeout,
    UnsupportedMediaType,
)
from kubewright.machinery.time import parse_duration
from kubewright.webhooks import _review as wire
from kubewright.webhooks._answers import ReviewTimedOut, answer, context_of, within
from kubewright.webhooks._conversion import Conversion
from kubewright.webhooks._conversion_review import Conversions
from kubewright.webhooks._declaration import AdmissionWebhook
from kubewright.webhooks._names import CONVERT_PATH
from kubewright.webhooks._review import AdmissionRequest, AdmissionResponse, denial
from kubewright.webhooks._webhooks import Webhook

if TYPE_CHECKING:
    from kubewright.webhooks._tracing import WebhookTracing

MAX_REVIEW: Final = 7 << 20
"""Bytes of an AdmissionReview: two objects of 3 MiB, and the rest."""
MAX_CONVERSION: Final = 64 << 20
"""Bytes of a ConversionReview, which has all objects of a list."""

_JSON: Final = "application/json"
_CONVERSION_TIMEOUT: Final = 30.0
"""Seconds; the API server has no setting for it."""
_LONGEST: Final = 30.0
"""Seconds; no API server waits longer."""


class WebhookObserver(Protocol):
    """Is notified of the requests to one path. It is called for every request, so it counts and returns."""

    def started(self) -> None:
        """Count a request that came."""
        ...

    def ended(self, code: int, seconds: float) -> None:
        """Count a request that was answered with that HTTP status."""
        ...

    def panicked(self) -> None:
        """Count an unexpected exception of a webhook's function."""
        ...


class Endpoint(Protocol):
    """What answers the requests to one path."""

    limit: int
    """Bytes of the body."""
    timeout: float
    """Seconds, if the request does not say."""

    async def answer(self, request: Request, seconds: float) -> bytes:
        """Return the body of an answer of status 200. Raises APIError for another status."""
        ...


class WebhookRuntime:
    """What the functions of webhooks use. Empty until the manager has it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        """Set while reviews may be answered."""
        self.client_of: Callable[[AdmissionWebhook, Callable[[str], None]], CachedClient] | None = None
        """Returns the client of a webhook, which reports the resources that it writes without declaring them."""
        self.resource: object = None
        """What the manager's lifespan yielded."""


class WebhookHandler:
    """All webhooks of a manager behind one `Handler`: `handle`."""

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        runtime: WebhookRuntime,
        *,
        observer: Callable[[str], WebhookObserver],
        tracing: WebhookTracing | None = None,
    ) -> None:
        """`observer` returns the observer of a path."""
        self._now = time_source(SystemClock())
        self._endpoints: dict[str, tuple[Endpoint, WebhookObserver]] = {}
        for each in webhooks:
            if isinstance(each, AdmissionWebhook):
                observed = observer(each.path)
                self._endpoints[each.path] = (_Admission(each, runtime, observed, tracing), observed)
        conversions: list[Conversion[Any]] = [each for each in webhooks if isinstance(each, Conversion)]
        if conversions:
            observed = observer(CONVERT_PATH)
            self._endpoints[CONVERT_PATH] = (_Convert(conversions, observed), observed)

    @property
    def body_limit(self) -> int:
        """The bytes of the largest body that any webhook accepts."""
        return max((endpoint.limit for endpoint, _ in self._endpoints.values()), default=MAX_REVIEW)

    async def handle(self, request: Request) -> Response:
        """Answer a review. This is a `Handler`."""
        path, _, query = request.target.partition("?")
        found = self._endpoints.get(path)
        if found is None:
            return Response.plain(404, "404 page not found\n")
        endpoint, observer = found
        observer.started()
        started, code = self._now(), 500
        try:
            _check(request, endpoint.limit)
            body = await endpoint.answer(request, _seconds(query, endpoint.timeout))
            code = 200
            return Response(code, {"content-type": _JSON}, body)
        except APIError as error:
            code = error.status.code
            return Response.plain(code, f"{error}\n")
        finally:
            observer.ended(code, self._now() - started)


def _check(request: Request, limit: int) -> None:
    if request.method != "POST":
        raise MethodNotAllowed("405 method not allowed; POST a review")
    content_type = request.headers.get("content-type", "")
    if content_type != _JSON and (media_type := content_type.partition(";")[0].strip()) != _JSON:
        raise UnsupportedMediaType(f'the Content-Type is "{media_type}", not "{_JSON}"')
    if len(request.body) > limit:
        raise RequestTooLarge(f"the body has {len(request.body)} bytes, more than the limit of {limit}")


@lru_cache(maxsize=64)
def _seconds(query: str, default: float) -> float:
    """Return the `timeout` of a query, at most what an API server waits. Raises BadRequest if it is not a duration."""
    text = next((value for key, _, value in (each.partition("=") for each in query.split("&")) if key == "timeout"), "")
    if not text:
        return default
    try:
        found = parse_duration(text).total_seconds()
    except ValueError as error:
        raise BadRequest(f"the parameter timeout is not a duration like 10s: {error}") from error
    return min(found, _LONGEST) if found > 0 else default


class _Admission:
    """The endpoint of an admission webhook."""

    limit = MAX_REVIEW

    def __init__(
        self,
        webhook: AdmissionWebhook,
        runtime: WebhookRuntime,
        observer: WebhookObserver,
        tracing: WebhookTracing | None,
    ) -> None:
        self.timeout = float(webhook.registration.timeout_seconds)
        self._webhook = webhook
        self._runtime = runtime
        self._observer = observer
        self._tracing = tracing
        self._log = get_logger(f"kubewright.webhook.{webhook.name.partition('.')[0]}").bind(webhook=webhook.name)
        self._client: CachedClient | None = None
        self._now = time_source(SystemClock())

    async def answer(self, request: Request, seconds: float) -> bytes:
        version, asked = wire.read(request.body)
        if self._tracing is None:
            response = await self._review(asked, seconds)
        else:
            with self._tracing.review(self._webhook.name, asked, request.headers) as span:
                response = await self._review(asked, seconds)
                span.decided(response)
        return wire.write(version, asked.uid, response)

    async def _review(self, asked: AdmissionRequest, seconds: float) -> AdmissionResponse:
        warnings: list[str] = []
        try:
            left = seconds if self._runtime.open.is_set() else await self._until_open(seconds)
            ctx = context_of(
                self._webhook, asked, client=self._own_client(), logger=self._log, resource=self._runtime.resource
            )
            warnings = ctx.warnings
            return await answer(self._webhook, ctx, left)
        except ReviewTimedOut:
            why = "did not answer" if self._runtime.open.is_set() else "was still starting"
            self._log_of(asked).warning("Admission review timed out", seconds=seconds)
            return denial(ServerTimeout(f"the webhook {self._webhook.name} {why} within {seconds:g} s").status)
        except APIError as error:
            return AdmissionResponse(allowed=False, status=error.status, warnings=warnings)
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            failure: BaseException = cancelled  # not of this task, but of something that the function waited for
        except Exception as raised:  # noqa: BLE001 - no exception of a webhook's function ends the server
            failure = unwrapped(raised)
        self._observer.panicked()
        status = panic(failure, self._log_of(asked), "Admission review failed").status
        return AdmissionResponse(allowed=False, status=status, warnings=warnings)

    async def _until_open(self, seconds: float) -> float:
        """Wait until reviews may be answered. Returns the remaining seconds. Raises ReviewTimedOut."""
        until = self._now() + seconds
        await within(seconds, self._runtime.open.wait())
        return until - self._now()

    def _own_client(self) -> CachedClient | None:
        make = self._runtime.client_of
        if self._client is None and make is not None:
            self._client = make(self._webhook, self._report_undeclared)
        return self._client

    def _report_undeclared(self, resource: str) -> None:
        self._log.warning(
            "Undeclared resource written",
            resource=resource,
            advice="Name the kind in writes or rules. Otherwise the role lacks the permission",
        )

    def _log_of(self, asked: AdmissionRequest) -> StructuredLogger:
        return self._log.bind(
            kind=asked.kind.kind, namespace=asked.namespace or None, name=asked.name, operation=asked.operation
        )


class _Convert:
    """The endpoint of all conversions."""

    limit = MAX_CONVERSION
    timeout = _CONVERSION_TIMEOUT

    def __init__(self, conversions: Sequence[Conversion[Any]], observer: WebhookObserver) -> None:
        self._conversions = Conversions(conversions)
        self._observer = observer
        self._log = get_logger("kubewright.webhook.conversion")

    async def answer(self, request: Request, seconds: float) -> bytes:
        def panicked(error: Exception, kind: str, name: str) -> str:
            self._observer.panicked()
            return str(panic(error, self._log.bind(kind=kind, name=name), "Conversion failed"))

        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                return await self._conversions.answer(request.body, panicked)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise ServerTimeout(f"the conversion took longer than {seconds:g} s") from error


def panic(error: BaseException, log: StructuredLogger, message: str) -> InternalError:
    """Log an exception that no webhook should raise, and return the answer for it, in controller-runtime's words."""
    log.error(message, error=f"{type(error).__name__}: {error}", exc_info=traceback_of(error, __file__))
    return InternalError(f"panic: {type(error).__name__}: {error} [recovered]")
