"""Spans from the event to the write, with OpenTelemetry."""

import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.controllers import Context, controller
from kubewright.controllers._tracing import Tracing
from kubewright.controllers.predicates import Predicate
from kubewright.machinery.errors import ConfigError

from .workshop import NAMESPACE, Workshop, config_map, secret

ours = Predicate(lambda event: event.key.name.startswith("web"))


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def identity(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


async def test_a_reconcile_is_traced_from_its_event_to_its_writes(shop: Workshop) -> None:
    spans = Spans()

    @controller(ConfigMap, owns=[Secret], predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        await ctx.apply(secret("web-child"))

    await shop.run(reconcile, tracing=Tracing(spans.provider, "configmap"))
    await shop.create(config_map("web"))
    first = spans.named("configmap")[0]
    (write,) = spans.named("PATCH secrets")
    work, queued = spans.named("reconcile")[0], spans.named("queued")[0]
    assert first.attributes is not None
    assert dict(first.attributes) == {
        "kubewright.controller": "configmap",
        "k8s.namespace.name": NAMESPACE,
        "kubewright.object": "web",
        "kubewright.attempt": 1,
        "kubewright.causes": "ConfigMap default/web add",
    }
    assert first.parent is None
    assert parent(queued) == parent(work) == identity(first)
    assert parent(write) == identity(work)
    assert write.attributes is not None
    assert write.attributes["url.path"] == f"/api/v1/namespaces/{NAMESPACE}/secrets/web-child"
    assert work.attributes is not None
    assert work.attributes["kubewright.outcome"] == "success"
    assert first.start_time is not None
    assert queued.start_time == first.start_time
    causes = [each.attributes["kubewright.causes"] for each in spans.named("configmap") if each.attributes]
    assert causes == ["ConfigMap default/web add", "Secret default/web-child add"]


async def test_a_reconcile_that_fails_is_an_error_with_its_exception(shop: Workshop) -> None:
    spans = Spans()

    @controller(ConfigMap, predicate=ours)
    async def reconcile(ctx: Context[ConfigMap]) -> None:
        if ctx.attempt == 1:
            raise OSError("the cloud is down")

    await shop.run(reconcile, tracing=Tracing(spans.provider, "configmap"))
    await shop.create(config_map("web"))
    await shop.clock.advance(1)
    failed, good = spans.named("reconcile")
    assert failed.status.status_code is StatusCode.ERROR
    assert [each.name for each in failed.events] == ["exception"]
    assert good.status.status_code is StatusCode.UNSET
    again = spans.named("configmap")[1]
    assert again.attributes is not None
    assert again.attributes["kubewright.attempt"] == 2


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'kubewright\[otel\]'"):
        Tracing(TracerProvider(), "configmap")
