"""Spans of reviews: one for each, named after the webhook, in the trace of the API server's request.

Attributes: `kubewright.webhook`, `kubewright.operation`, `kubewright.kind`, `kubewright.object`, `k8s.namespace.name`,
`kubewright.allowed` and, for a denied request, `kubewright.reason`. Spans that a webhook's function makes are children.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kubewright.machinery.errors import ConfigError
from kubewright.webhooks._review import AdmissionRequest, AdmissionResponse

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

_SCOPE: Final = "kubewright"


class ReviewSpan:
    """The span of one review."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def decided(self, answer: AdmissionResponse) -> None:
        """Record the answer."""
        self._span.set_attribute("kubewright.allowed", answer.allowed)
        if answer.status is not None:
            self._span.set_attribute("kubewright.reason", answer.status.reason)


class WebhookTracing:
    """The spans of all webhooks of a manager."""

    def __init__(self, provider: TracerProvider) -> None:
        """Raises ConfigError when OpenTelemetry is not installed."""
        try:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: pip install 'kubewright[otel]'") from error
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer(_SCOPE)

    @contextmanager
    def review(self, webhook: str, request: AdmissionRequest, headers: Mapping[str, str]) -> Generator[ReviewSpan]:
        """Trace one review. `headers` name the span that it belongs to, if the API server traces."""
        within = self._propagator.extract(headers)
        attributes = {
            "kubewright.webhook": webhook,
            "kubewright.operation": request.operation,
            "kubewright.kind": request.kind.kind,
            "kubewright.object": request.name,
        }
        if request.namespace:
            attributes["k8s.namespace.name"] = request.namespace
        with self._tracer.start_as_current_span(webhook, context=within, attributes=attributes) as span:
            yield ReviewSpan(span)
