"""OpenTelemetry spans from the event to the write. Needs the extra `otel`; loaded only if a Manager has a provider.

    webserver                     from the first event that asked for the reconcile to its end
    ├── queued                    until a worker takes it
    └── reconcile                 the reconciler, with its outcome
        └── PATCH deployments     each write, until its answer

`docs/observability.md` lists their attributes. Spans that a reconciler starts are children of `reconcile`. Each request
carries its span to the API server (`kubewright.client._transport`).
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kubewright.controllers._reconcile import Attempt, Outcome, Request
from kubewright.machinery.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_SCOPE: Final = "kubewright"


class Tracing:
    """The spans of one controller."""

    def __init__(self, provider: TracerProvider, controller: str) -> None:
        """Raises ConfigError when OpenTelemetry is not installed."""
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: pip install 'kubewright[otel]'") from error
        self._trace = trace
        self._tracer = provider.get_tracer(_SCOPE)
        self._controller = controller
        self._requested_at: dict[Request, int] = {}

    def requested(self, request: Request) -> None:
        """Note that an event requested a reconcile of `request`."""
        if request not in self._requested_at:
            self._requested_at[request] = time.time_ns()

    @contextmanager
    def attempt(self, attempt: Attempt) -> Generator[None]:
        """Run one reconcile, the block, within its spans."""
        taken_at = time.time_ns()
        requested_at = self._requested_at.pop(attempt.request, taken_at)
        root = self._tracer.start_span(self._controller, start_time=requested_at, attributes=self._attributes(attempt))
        parent = self._trace.set_span_in_context(root)
        self._tracer.start_span("queued", context=parent, start_time=requested_at).end(taken_at)
        try:
            with self._tracer.start_as_current_span(
                "reconcile", context=parent, record_exception=False, set_status_on_exception=False
            ):
                yield
        finally:
            root.end()

    def ended(self, outcome: Outcome, error: BaseException | None) -> None:
        """Record the result of the running reconcile."""
        span = self._trace.get_current_span()
        span.set_attribute("kubewright.outcome", outcome.value)
        if outcome is Outcome.ERROR and error is not None:
            span.record_exception(error)
            span.set_status(self._trace.StatusCode.ERROR, str(error))

    @contextmanager
    def write(self, method: str, resource: str, path: str) -> Generator[None]:
        """Run one write, the block, within its span. `resource` is for example `deployments` or `pods/eviction`."""
        attributes = {"http.request.method": method, "url.path": path}
        with self._tracer.start_as_current_span(f"{method} {resource}", attributes=attributes):
            yield

    def _attributes(self, attempt: Attempt) -> dict[str, str | int]:
        request = attempt.request
        attributes: dict[str, str | int] = {
            "kubewright.controller": self._controller,
            "kubewright.object": request.name,
            "kubewright.attempt": attempt.number,
        }
        if request.namespace:
            attributes["k8s.namespace.name"] = request.namespace
        if attempt.shown_causes:
            attributes["kubewright.causes"] = attempt.shown_causes
        return attributes
