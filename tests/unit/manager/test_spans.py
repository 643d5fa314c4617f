"""A manager with a tracer provider traces its controllers."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.controllers import Context, controller
from kubewright.controllers.predicates import Predicate
from kubewright.http.message import Request, Response
from kubewright.manager import Manager
from kubewright.testing import eventually
from kubewright_controlplane import Environment


class Overheard:
    """A transport, and the trace context of the requests that it sent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.contexts: dict[str, str | None] = {}

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        self.contexts[f"{request.method} {request.path}"] = request.headers.get("traceparent")
        return await self._transport.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._transport.close()


async def test_reconciles_and_their_writes_become_spans_that_are_propagated_to_the_server() -> None:
    @controller(ConfigMap, owns=[Secret], predicate=Predicate(lambda event: event.key.name == "web"))
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(Secret(metadata=ObjectMeta(name="child"), type="Opaque"))

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    async def names() -> None:
        assert {each.name for each in spans.get_finished_spans()} >= {
            "configmap", "queued", "reconcile", "PATCH secrets",
        }  # fmt: skip

    async with Environment(controllers=False) as cluster:
        overheard = Overheard(HTTPTransport(cluster.config))
        manager = Manager(
            [reconcile], transport=overheard, health_address="0", metrics_address="0", tracer_provider=provider
        )
        async with manager:
            await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="web", namespace="default")))
            await eventually(names)

    (write,) = [each for each in spans.get_finished_spans() if each.name == "PATCH secrets"]
    assert write.context is not None
    trace, span = format_trace_id(write.context.trace_id), format_span_id(write.context.span_id)
    sent = overheard.contexts["PATCH /api/v1/namespaces/default/secrets/child"]
    assert sent is not None
    assert sent.startswith(f"00-{trace}-{span}-")
    assert overheard.contexts["GET /api/v1/configmaps"] is None, "a watch belongs to no reconcile"
