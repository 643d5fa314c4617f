"""A manager that is given a tracer provider traces its controllers."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.controller import Context, controller
from kubewright.controller.predicates import Predicate
from kubewright.manager import Manager
from kubewright.models.meta import ObjectMeta
from kubewright.testing import Environment, eventually, running


async def test_reconciles_and_their_writes_become_spans() -> None:
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
        manager = Manager(
            [reconcile], config=cluster.config, health_address="0", metrics_address="0", tracer_provider=provider
        )
        async with running(manager):
            await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="web", namespace="default")))
            await eventually(names)
