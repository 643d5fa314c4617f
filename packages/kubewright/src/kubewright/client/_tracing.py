"""Trace context: tells the server to which span a request belongs. Needs the extra `otel`.

    client = Client(transport=Propagating(HTTPTransport(Config.load())))

A Manager that is given a tracer provider does so for its requests.

Source: https://www.w3.org/TR/trace-context/ and
https://kubernetes.io/docs/concepts/cluster-administration/system-traces/
"""

from __future__ import annotations

from dataclasses import replace

from kubewright.client._transport import Transport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConfigError


class Propagating:
    """A transport that sends `traceparent` (and `tracestate`) with each request for which a span is active."""

    def __init__(self, transport: Transport) -> None:
        """Raises ConfigError when OpenTelemetry is not installed."""
        try:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError("tracing needs OpenTelemetry: pip install 'kubewright[otel]'") from error
        self._propagator = TraceContextTextMapPropagator()
        self._transport = transport

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        context: dict[str, str] = {}
        self._propagator.inject(context)
        if context:
            request = replace(request, headers={**request.headers, **context})
        return await self._transport.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._transport.close()
