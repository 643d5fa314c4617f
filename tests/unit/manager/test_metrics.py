"""Metrics as Prometheus scrapes them, under the names in controller-runtime's dashboards."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from kubewright.controllers._queue import ControllerQueue, WorkQueue
from kubewright.controllers._reconcile import Failure, Outcome, Request
from kubewright.controllers._retry import Retry
from kubewright.manager._exposition import render
from kubewright.manager._metrics import ControllerMetrics, Metrics
from kubewright.testing import VirtualClock


def scraped(metrics: Metrics) -> dict[str, float]:
    """Return the samples of a scrape by name and labels."""
    content_type, body = render(metrics, "text/plain")
    assert content_type.startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples]
    return {
        each.name + "".join(f",{key}={value}" for key, value in sorted(each.labels.items())): each.value
        for each in samples
    }


def with_queue(metrics: Metrics, clock: VirtualClock) -> tuple[ControllerMetrics, WorkQueue]:
    counts = metrics.controller("web", 2)
    counts.queue = ControllerQueue(Retry(), clock=clock, observer=counts)
    return counts, counts.queue


async def test_reconciles_are_counted_by_result() -> None:
    metrics = Metrics("web.my.domain")
    counts = metrics.controller("web", 2)
    counts.reconciled(Outcome.SUCCESS, 0.02)
    counts.reconciled(Outcome.SUCCESS, 0.2)
    counts.reconciled(Outcome.ERROR, 100)
    counts.failed(Failure.TERMINAL)
    counts.failed(Failure.MISTAKE)
    counts.failed(Failure.TIMEOUT)
    samples = scraped(metrics)
    assert samples["controller_runtime_reconcile_total,controller=web,result=success"] == 2
    assert samples["controller_runtime_reconcile_total,controller=web,result=error"] == 1
    assert samples["controller_runtime_reconcile_total,controller=web,result=requeue_after"] == 0
    assert samples["controller_runtime_reconcile_errors_total,controller=web"] == 3
    assert samples["controller_runtime_terminal_reconcile_errors_total,controller=web"] == 1
    assert samples["controller_runtime_reconcile_panics_total,controller=web"] == 1
    assert samples["controller_runtime_reconcile_timeouts_total,controller=web"] == 1
    assert samples["controller_runtime_max_concurrent_reconciles,controller=web"] == 2
    assert samples["controller_runtime_reconcile_time_seconds_count,controller=web"] == 3
    assert samples["controller_runtime_reconcile_time_seconds_sum,controller=web"] == pytest.approx(100.22)
    assert samples["controller_runtime_reconcile_time_seconds_bucket,controller=web,le=0.025"] == 1
    assert samples["controller_runtime_reconcile_time_seconds_bucket,controller=web,le=60.0"] == 2
    assert samples["controller_runtime_reconcile_time_seconds_bucket,controller=web,le=+Inf"] == 3


async def test_a_queue_shows_its_depth_its_waits_and_its_running_work(clock: VirtualClock) -> None:
    metrics = Metrics("web.my.domain")
    _, queue = with_queue(metrics, clock)
    for name in "abc":
        queue.add(Request("shop", name))
    queue.add(Request("shop", "later"), after=timedelta(hours=1))
    await clock.advance(2)
    async with queue.take():
        await clock.advance(3)
        samples = scraped(metrics)
    labels = ",controller=web,name=web"
    assert samples[f"workqueue_adds_total{labels}"] == 4
    assert samples[f"workqueue_depth{labels}"] == 2
    assert samples[f"workqueue_unfinished_work_seconds{labels}"] == 3
    assert samples[f"workqueue_longest_running_processor_seconds{labels}"] == 3
    assert samples["controller_runtime_active_workers,controller=web"] == 1
    assert samples[f"workqueue_queue_duration_seconds_sum{labels}"] == 2
    assert scraped(metrics)[f"workqueue_work_duration_seconds_sum{labels}"] == 3
    assert scraped(metrics)[f"workqueue_retries_total{labels}"] == 0


async def test_requests_to_the_api_server_are_counted() -> None:
    metrics = Metrics("web.my.domain")
    metrics.request("200", "GET", "localhost:6443")
    metrics.request("200", "GET", "localhost:6443")
    metrics.request("<error>", "PATCH", "localhost:6443")
    samples = scraped(metrics)
    assert samples["rest_client_requests_total,code=200,host=localhost:6443,method=GET"] == 2
    assert samples["rest_client_requests_total,code=<error>,host=localhost:6443,method=PATCH"] == 1


async def test_leadership_is_shown_if_there_is_an_election() -> None:
    metrics = Metrics("web.my.domain")
    assert "leader_election_master_status,name=web.my.domain" not in scraped(metrics)
    metrics.leading = True
    assert scraped(metrics)["leader_election_master_status,name=web.my.domain"] == 1


async def test_each_manager_has_a_registry_for_custom_metrics() -> None:
    first, second = Metrics("a"), Metrics("b")
    for metrics in (first, second):
        Counter("bookings", "Bookings made.", registry=metrics.registry).inc()
    assert scraped(first)["bookings_total"] == 1
    assert scraped(second)["bookings_total"] == 1
    assert scraped(first)["process_resident_memory_bytes"] > 0


async def test_openmetrics_is_served_on_request() -> None:
    content_type, body = render(Metrics("a"), "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


async def test_the_ends_of_the_webhooks_certificates_are_shown() -> None:
    metrics = Metrics("a")
    name = "kubewright_webhook_certificate_expiration_timestamp_seconds"
    assert not any(name in each for each in scraped(metrics))
    metrics.webhook_certificate_expirations = lambda: {"server": datetime(2027, 1, 1, tzinfo=UTC)}
    assert scraped(metrics)[f"{name},certificate=server"] == 1798761600


async def test_causes_hot_loops_stopped_deletes_and_pauses_are_counted() -> None:
    metrics = Metrics("web.my.domain")
    counts = metrics.controller("web", 1)
    counts.causes("Deployment")["update"] += 2
    counts.looping()
    counts.deletes_stopped()
    counts.paused(3)
    metrics.certificate_read()
    samples = scraped(metrics)
    assert samples["kubewright_reconcile_causes_total,controller=web,event=update,kind=Deployment"] == 2
    assert samples["kubewright_hot_loops_total,controller=web"] == 1
    assert samples["kubewright_stopped_deletes_total,controller=web"] == 1
    assert samples["kubewright_paused_objects,controller=web"] == 3
    assert samples["certwatcher_read_certificate_total"] == 1
