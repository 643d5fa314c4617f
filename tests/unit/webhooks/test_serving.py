"""The HTTP side: what is answered to reviews that cannot be read, to failures, and to slow functions."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_trace_id

from kubewright import Forbidden
from kubewright.http.message import Request
from kubewright.manager._metrics import Metrics
from kubewright.webhooks import AdmissionContext, validator
from kubewright.webhooks._serving import MAX_REVIEW, WebhookHandler, WebhookRuntime
from kubewright.webhooks._tracing import WebhookTracing

from .served import Served, WebServer, asked, webserver


@validator(WebServer)
def look(ctx: AdmissionContext[WebServer]) -> None:
    assert ctx.object.spec.replicas < 100


def review_of(request: object, **changes: object) -> bytes:
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request, **changes}
    return json.dumps(review).encode()


async def test_v1beta1_reviews_are_answered_as_v1beta1() -> None:
    assert (await Served(look).review(asked(webserver()), version="v1beta1"))["allowed"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "not an object of kind AdmissionReview"),
        (b"{", "not an object of kind AdmissionReview"),
        (b'{"kind": "AdmissionReview"}', "request"),
        (review_of(asked(webserver()), apiVersion="admission.k8s.io/v2"), "'admission.k8s.io/v2'"),
        (review_of(asked(webserver()), kind="Pod"), "'Pod'"),
        (review_of({**asked(webserver()), "operation": "EAT"}), "operation"),
        (b'{"request": {"object": ' + b"[" * 1_000_000, "nested too deeply"),
    ],
)
async def test_a_body_without_a_review_is_a_bad_request(body: bytes, expected: str) -> None:
    answer = await Served(look).post(body)
    assert answer.status == 400
    assert expected in str(answer.body)


async def test_a_body_over_the_limit_is_refused() -> None:
    answer = await Served(look).post(b" " * (MAX_REVIEW + 1))
    assert (answer.status, str(MAX_REVIEW) in str(answer.body)) == (413, True)


async def test_another_content_type_is_refused() -> None:
    answer = await Served(look).post(review_of(asked(webserver())), content_type="application/yaml")
    assert (answer.status, "application/yaml" in str(answer.body)) == (415, True)


async def test_only_posts_are_accepted() -> None:
    assert (await Served(look).post(b"", method="GET")).status == 405


async def test_other_paths_are_not_found() -> None:
    assert (await Served(look).post(b"", "/nothing")).status == 404


async def test_an_object_that_does_not_match_the_class_is_denied_with_400() -> None:
    response = await Served(look).review(asked(webserver(replicas="many")))
    assert response["status"]["code"] == 400
    assert response["status"]["message"] == 'object: WebServer "shop/web": spec.replicas: expected int, got str'


async def test_an_object_of_another_kind_is_denied_with_400() -> None:
    kind = {"group": "my.domain", "version": "v2", "kind": "WebServer"}
    response = await Served(look).review(asked(webserver(), kind=kind))
    assert response["status"]["code"] == 400
    assert "the review is of a my.domain/v2, Kind=WebServer" in response["status"]["message"]


async def test_an_unexpected_exception_is_answered_as_a_recovered_panic(caplog: pytest.LogCaptureFixture) -> None:
    @validator(WebServer)
    async def broken(ctx: AdmissionContext[WebServer]) -> None:
        raise ZeroDivisionError("division by zero")

    served = Served(broken)
    response = await served.review(asked(webserver()))
    assert not response["allowed"]
    assert response["status"]["code"] == 500
    assert response["status"]["message"] == "panic: ZeroDivisionError: division by zero [recovered]"
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.msg == "Admission review failed"
    assert line.exc_info is not None
    assert line.__dict__["fields"]["name"] == "web"
    assert served.metrics.webhooks[broken.path].panics == 1


async def test_a_cancellation_inside_of_a_function_is_a_panic_too() -> None:
    @validator(WebServer)
    async def broken(ctx: AdmissionContext[WebServer]) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting

    response = await Served(broken).review(asked(webserver()))
    assert response["status"]["code"] == 500


@pytest.mark.parametrize(("query", "seconds"), [("?timeout=3s", 3.0), ("", 5.0), ("?timeout=1h", 30.0)])
async def test_a_slow_function_is_cancelled_at_the_timeout_of_the_request(query: str, seconds: float) -> None:
    cancelled: list[float] = []

    @validator(WebServer, timeout=5)
    async def slow(ctx: AdmissionContext[WebServer]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(loop.time() - started)

    response = await Served(slow).review(asked(webserver()), query=query)
    assert cancelled == [pytest.approx(seconds)]
    assert (response["allowed"], response["status"]["code"], response["status"]["reason"]) == (False, 504, "Timeout")
    assert response["status"]["message"] == f"the webhook vwebserver-v1.kb.io did not answer within {seconds:g} s"


async def test_an_invalid_timeout_is_a_bad_request() -> None:
    answer = await Served(look).post(review_of(asked(webserver())), look.path + "?timeout=soon")
    assert (answer.status, "timeout" in str(answer.body)) == (400, True)


async def test_a_review_waits_until_the_manager_has_started() -> None:
    served = Served(look, opened=False)
    waiting = asyncio.create_task(served.review(asked(webserver())))
    await asyncio.sleep(1)
    assert not waiting.done()
    served.runtime.open.set()
    assert (await waiting)["allowed"]


async def test_a_review_that_waits_for_the_start_times_out() -> None:
    response = await Served(look, opened=False).review(asked(webserver()))
    assert response["status"]["message"] == "the webhook vwebserver-v1.kb.io was still starting within 10 s"


async def test_a_review_is_a_span_of_the_api_servers_trace() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    @validator(WebServer)
    def deny(ctx: AdmissionContext[WebServer]) -> None:
        with provider.get_tracer("test").start_as_current_span("own"):
            raise Forbidden("no")

    runtime = WebhookRuntime()
    runtime.open.set()
    handler = WebhookHandler([deny], runtime, observer=Metrics("test").webhook, tracing=WebhookTracing(provider))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"content-type": "application/json", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    await handler.handle(Request("POST", deny.path, headers, review_of(asked(webserver()))))
    own, review = spans.get_finished_spans()
    assert review.name == "vwebserver-v1.kb.io"
    assert review.context is not None
    assert format_trace_id(review.context.trace_id) == trace
    assert review.attributes == {
        "kubewright.webhook": "vwebserver-v1.kb.io",
        "kubewright.operation": "CREATE",
        "kubewright.kind": "WebServer",
        "kubewright.object": "web",
        "k8s.namespace.name": "shop",
        "kubewright.allowed": False,
        "kubewright.reason": "Forbidden",
    }
    assert own.parent is not None
    assert own.parent.span_id == review.context.span_id


async def test_requests_are_counted_by_path_and_status() -> None:
    served = Served(look)
    await served.review(asked(webserver()))
    await served.post(b"nonsense")
    counts = served.metrics.webhooks["/validate-my-domain-v1-webserver"]
    assert (counts.requests, counts.in_flight) == ({200: 1, 400: 1}, 0)
    assert counts.seconds.buckets()[-1] == ("+Inf", 2.0)
