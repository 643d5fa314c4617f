"""The metrics of a manager, as Prometheus reads them.

Imported at the first scrape, because importing prometheus-client takes a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from kubewright.cache._informer import Informer
from kubewright.controllers._reconcile import Failure
from kubewright.manager._metrics import ControllerMetrics, Histogram, Metrics, WebhookMetrics

_Values: TypeAlias = dict[str, tuple[str, Callable[[ControllerMetrics], float]]]
"""By the name of a family: its help text, and its value for a controller."""
_Histograms: TypeAlias = dict[str, tuple[str, Callable[[ControllerMetrics], Histogram]]]


def render(metrics: Metrics, accept: str) -> tuple[str, bytes]:
    """Return the content type and the body of a scrape whose Accept header is `accept`."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(_Everything(metrics))


class _Everything(CollectorRegistry):
    """What one scrape shows: the manager's families, the process, and the operator's own metrics."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics
        ProcessCollector(registry=self)

    def collect(self) -> Iterator[Metric]:
        yield from families(self._metrics)
        yield from super().collect()
        yield from self._metrics.registry.collect()


def families(metrics: Metrics) -> Iterator[Metric]:
    """Yield one family for each of controller-runtime's names that applies, then Kubewright's."""
    controllers = list(metrics.controllers.values())
    yield from _reconciles(controllers)
    yield from _queues(controllers)
    yield from _own(controllers)
    yield from _plans([each for each in controllers if each.plans or each.step_failures or each.drift_repairs])
    yield from _webhooks(metrics.webhooks)
    yield from _caches(list(metrics.cache or ()))
    requests = CounterMetricFamily(
        "rest_client_requests", "Number of HTTP requests, by status code, method and host.",
        labels=("code", "method", "host"),
    )  # fmt: skip
    for labels, count in metrics.requests.items():
        requests.add_metric(labels, count)
    yield requests
    events = CounterMetricFamily("kubewright_events", "Number of Events, by result.", labels=("result",))
    for fate, count in metrics.events.items():
        events.add_metric((fate,), count)
    yield events
    read = CounterMetricFamily("certwatcher_read_certificate", "Number of times a certificate was read.")
    read.add_metric((), metrics.certificates_read)
    yield read
    yield from _expirations(metrics.webhook_certificate_expirations())
    if metrics.leading is not None:
        leading = GaugeMetricFamily("leader_election_master_status", "1 while this process leads.", labels=("name",))
        leading.add_metric((metrics.name,), float(metrics.leading))
        yield leading


def _expirations(expirations: Mapping[str, datetime]) -> Iterator[Metric]:
    if not expirations:
        return
    ends = GaugeMetricFamily(
        "kubewright_webhook_certificate_expiration_timestamp_seconds",
        "When a certificate of the webhooks ends, in seconds since 1970.",
        labels=("certificate",),
    )
    for name, end in expirations.items():
        ends.add_metric((name,), end.timestamp())
    yield ends


def _reconciles(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    prefix, labels = "controller_runtime_", ("controller",)
    total = CounterMetricFamily(
        f"{prefix}reconcile", "Number of reconciles, by result.", labels=("controller", "result")
    )
    for each in controllers:
        for outcome, count in each.outcomes.items():
            total.add_metric((each.name, outcome.value), count)
    yield total
    counters: _Values = {
        "reconcile_errors": ("Number of reconciles that failed.", lambda each: sum(each.failures.values())),
        "terminal_reconcile_errors": (
            "Number of reconciles that failed and are not retried.",
            lambda each: each.failures[Failure.TERMINAL],
        ),
        "reconcile_panics": (
            "Number of reconciles that failed because of a mistake in the code.",
            lambda each: each.failures[Failure.MISTAKE],
        ),
        "reconcile_timeouts": (
            "Number of reconciles that exceeded their timeout.",
            lambda each: each.failures[Failure.TIMEOUT],
        ),
    }
    yield from _numbers(CounterMetricFamily, prefix, labels, counters, controllers)
    gauges: _Values = {
        "max_concurrent_reconciles": ("Maximum number of concurrent reconciles.", lambda each: each.workers),
        "active_workers": ("Number of reconciles that run now.", lambda each: len(_in_hand(each))),
    }
    yield from _numbers(GaugeMetricFamily, prefix, labels, gauges, controllers)
    histograms: _Histograms = {
        "reconcile_time_seconds": ("Duration of reconciles in seconds.", lambda each: each.reconcile_seconds)
    }
    yield from _distributions(prefix, labels, histograms, controllers)


def _plans(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    """Yield what is counted of plans, for the controllers that have any."""
    if not controllers:
        return
    prefix, labels = "kubewright_plan", ("controller", "plan")
    ended = CounterMetricFamily(f"{prefix}_executions", "Number of executions that ended.", labels=(*labels, "result"))
    failed = CounterMetricFamily(f"{prefix}_step_failures", "Number of failed attempts of steps.", labels=labels)
    took = HistogramMetricFamily(f"{prefix}_seconds", "Duration of complete executions in seconds.", labels=labels)
    repairs = CounterMetricFamily(f"{prefix}_drift_repairs", "Number of restored objects.", labels=("controller",))
    for each in controllers:
        for (plan, result), count in each.plans.items():
            ended.add_metric((each.name, plan, result), count)
        for plan, count in each.step_failures.items():
            failed.add_metric((each.name, plan), count)
        for plan, histogram in each.plan_seconds.items():
            took.add_metric((each.name, plan), histogram.buckets(), histogram.sum)
        repairs.add_metric((each.name,), each.drift_repairs)
    yield from (ended, failed, took, repairs)


def _webhooks(webhooks: dict[str, WebhookMetrics]) -> Iterator[Metric]:
    if not webhooks:
        return
    prefix = "controller_runtime_webhook_"
    total = CounterMetricFamily(
        f"{prefix}requests", "Number of requests to webhooks, by HTTP status.", labels=("webhook", "code")
    )
    latency = HistogramMetricFamily(
        f"{prefix}latency_seconds", "Duration of requests to webhooks in seconds.", labels=("webhook",)
    )
    running = GaugeMetricFamily(
        f"{prefix}requests_in_flight", "Number of requests to webhooks that run now.", labels=("webhook",)
    )
    for path, each in webhooks.items():
        for code, count in each.requests.items():
            total.add_metric((path, str(code)), count)
        latency.add_metric((path,), each.seconds.buckets(), each.seconds.sum)
        running.add_metric((path,), each.in_flight)
    yield from (total, latency, running)
    for name, conversion in (("webhook_panics", False), ("conversion_webhook_panics", True)):
        panics = CounterMetricFamily(
            f"controller_runtime_{name}", "Number of webhook calls that failed because of a mistake in the code."
        )
        panics.add_metric((), sum(each.panics for path, each in webhooks.items() if (path == "/convert") is conversion))
        yield panics


def _queues(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    prefix, labels = "workqueue_", ("name", "controller")
    counters: _Values = {
        "adds": ("Number of requests added to the queue.", lambda each: each.adds),
        "retries": ("Number of retries.", lambda each: each.retries),
    }
    yield from _numbers(CounterMetricFamily, prefix, labels, counters, controllers)
    gauges: _Values = {
        "depth": ("Number of requests that are due and wait.", lambda each: each.queue.depth if each.queue else 0),
        "unfinished_work_seconds": (
            "Sum of the seconds that running work has taken.",
            lambda each: sum(_in_hand(each)),
        ),
        "longest_running_processor_seconds": (
            "Seconds that the longest running work has taken.",
            lambda each: max(_in_hand(each), default=0.0),
        ),
    }
    yield from _numbers(GaugeMetricFamily, prefix, labels, gauges, controllers)
    histograms: _Histograms = {
        "queue_duration_seconds": (
            "Seconds that requests waited after they were due.",
            lambda each: each.queue_seconds,
        ),
        "work_duration_seconds": ("Seconds that requests were worked on.", lambda each: each.work_seconds),
    }
    yield from _distributions(prefix, labels, histograms, controllers)


def _own(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    """Yield what controller-runtime does not count."""
    prefix, labels = "kubewright_", ("controller",)
    causes = CounterMetricFamily(
        f"{prefix}reconcile_causes",
        "Number of events that caused a reconcile.",
        labels=("controller", "kind", "event"),
    )
    for each in controllers:
        for kind, counts in each.events.items():
            for event, count in counts.items():
                causes.add_metric((each.name, kind, event), count)
    yield causes
    counters: _Values = {
        "hot_loops": ("Number of hot loops found.", lambda each: each.hot_loops),
        "stopped_deletes": ("Number of deletes that a delete fuse stopped.", lambda each: each.stopped_deletes),
    }
    yield from _numbers(CounterMetricFamily, prefix, labels, counters, controllers)
    gauges: _Values = {"paused_objects": ("Number of paused objects.", lambda each: each.paused_objects)}
    yield from _numbers(GaugeMetricFamily, prefix, labels, gauges, controllers)


def _numbers(
    family: type[CounterMetricFamily] | type[GaugeMetricFamily],
    prefix: str,
    labels: tuple[str, ...],
    values: _Values,
    controllers: list[ControllerMetrics],
) -> Iterator[Metric]:
    """Yield a family for each name, with a number for each controller. Its name is the value of every label."""
    for name, (text, value_of) in values.items():
        metric = family(prefix + name, text, labels=labels)
        for each in controllers:
            metric.add_metric([each.name] * len(labels), value_of(each))
        yield metric


def _distributions(
    prefix: str, labels: tuple[str, ...], histograms: _Histograms, controllers: list[ControllerMetrics]
) -> Iterator[Metric]:
    """Yield a family for each name, with a histogram for each controller."""
    for name, (text, histogram_of) in histograms.items():
        metric = HistogramMetricFamily(prefix + name, text, labels=labels)
        for each in controllers:
            histogram = histogram_of(each)
            metric.add_metric([each.name] * len(labels), histogram.buckets(), histogram.sum)
        yield metric


def _caches(informers: list[Informer[Any]]) -> Iterator[Metric]:
    gauges: dict[str, tuple[str, Callable[[Informer[Any]], int]]] = {
        "objects": ("Number of objects in the cache.", lambda each: len(each)),
        "bytes": ("Bytes of the objects in the cache, as stored.", lambda each: each.size),
        "synced": ("1 after the first list is complete.", lambda each: int(each.synced)),
        "watching": ("1 while the list or watch succeeds.", lambda each: int(each.last_error is None)),
    }
    for name, (text, value_of) in gauges.items():
        gauge = GaugeMetricFamily(f"kubewright_cache_{name}", text, labels=("resource",))
        for resource, values in _by_resource(informers, value_of).items():
            gauge.add_metric((resource,), min(values) if name in ("synced", "watching") else sum(values))
        yield gauge


def _by_resource(informers: list[Informer[Any]], value_of: Callable[[Informer[Any]], int]) -> dict[str, list[int]]:
    """Return values by resource. A resource can have several informers: one per version, and one for metadata only."""
    values: dict[str, list[int]] = {}
    for each in informers:
        values.setdefault(each.resource, []).append(value_of(each))
    return values


def _in_hand(each: ControllerMetrics) -> list[float]:
    return list(each.queue.in_progress()) if each.queue else []
