"""The metrics of a manager as Prometheus reads them. Imported at the first scrape: prometheus-client takes a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kubewright.controller.outcome import Failure

if TYPE_CHECKING:
    from kubewright.cache.informer import Informer
    from kubewright.manager.metrics import ControllerMetrics, Histogram, Metrics


def families(metrics: Metrics) -> Iterator[Metric]:
    """One family for each name of controller-runtime's that applies."""
    controllers = list(metrics.controllers.values())
    yield from _reconciles(controllers)
    yield from _queues(controllers)
    yield from _own(controllers)
    yield from _caches(list(metrics.cache or ()))
    requests = CounterMetricFamily(
        "rest_client_requests", "Number of HTTP requests, by status code, method and host.",
        labels=("code", "method", "host"),
    )  # fmt: skip
    for labels, count in metrics.requests.items():
        requests.add_metric(labels, count)
    yield requests
    read = CounterMetricFamily("certwatcher_read_certificate", "Number of times a certificate was read.")
    read.add_metric((), metrics.certificates_read)
    yield read
    if metrics.leading is not None:
        leading = GaugeMetricFamily("leader_election_master_status", "1 while this process leads.", labels=("name",))
        leading.add_metric((metrics.name,), float(metrics.leading))
        yield leading


def _reconciles(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    prefix, label = "controller_runtime_", ("controller",)
    total = CounterMetricFamily(
        f"{prefix}reconcile", "Number of reconciles, by how they ended.", labels=("controller", "result")
    )
    for each in controllers:
        for outcome, count in each.outcomes.items():
            total.add_metric((each.name, outcome.value), count)
    yield total
    errors = CounterMetricFamily(f"{prefix}reconcile_errors", "Number of reconciles that failed.", labels=label)
    for each in controllers:
        errors.add_metric((each.name,), sum(each.failures.values()))
    yield errors
    sorts = {
        "terminal_reconcile_errors": (Failure.TERMINAL, "Number of reconciles that failed for good."),
        "reconcile_panics": (Failure.MISTAKE, "Number of reconciles that failed by a mistake in the code."),
        "reconcile_timeouts": (Failure.TIMEOUT, "Number of reconciles that took too long."),
    }
    for name, (failure, text) in sorts.items():
        counter = CounterMetricFamily(prefix + name, text, labels=label)
        for each in controllers:
            counter.add_metric((each.name,), each.failures[failure])
        yield counter
    gauges: dict[str, tuple[str, Callable[[ControllerMetrics], int]]] = {
        "max_concurrent_reconciles": ("How many reconciles may run at once.", lambda each: each.workers),
        "active_workers": ("How many reconciles run.", lambda each: len(_in_hand(each))),
    }
    for name, (text, value_of) in gauges.items():
        gauge = GaugeMetricFamily(prefix + name, text, labels=label)
        for each in controllers:
            gauge.add_metric((each.name,), value_of(each))
        yield gauge
    seconds = HistogramMetricFamily(
        f"{prefix}reconcile_time_seconds", "Seconds a reconcile took.", labels=("controller",)
    )
    for each in controllers:
        _add(seconds, (each.name,), each.reconcile_seconds)
    yield seconds


def _queues(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    labels = ("name", "controller")
    counters: dict[str, tuple[str, Callable[[ControllerMetrics], int]]] = {
        "adds": ("Number of requests asked for.", lambda each: each.adds),
        "retries": ("Number of requests that came again after a failure.", lambda each: each.retries),
    }
    for name, (text, count_of) in counters.items():
        counter = CounterMetricFamily(f"workqueue_{name}", text, labels=labels)
        for each in controllers:
            counter.add_metric((each.name, each.name), count_of(each))
        yield counter
    gauges: dict[str, tuple[str, Callable[[ControllerMetrics], float]]] = {
        "depth": ("Requests that are due and wait.", lambda each: each.queue.depth if each.queue else 0),
        "unfinished_work_seconds": ("Seconds of work in hand, added up.", lambda each: sum(_in_hand(each))),
        "longest_running_processor_seconds": (
            "Seconds that the longest work in hand has taken.",
            lambda each: max(_in_hand(each), default=0.0),
        ),
    }
    for name, (text, value_of) in gauges.items():
        gauge = GaugeMetricFamily(f"workqueue_{name}", text, labels=labels)
        for each in controllers:
            gauge.add_metric((each.name, each.name), value_of(each))
        yield gauge
    histograms: dict[str, tuple[str, Callable[[ControllerMetrics], Histogram]]] = {
        "queue_duration_seconds": ("Seconds a request waited after it was due.", lambda each: each.queue_seconds),
        "work_duration_seconds": ("Seconds a request was worked on.", lambda each: each.work_seconds),
    }
    for name, (text, histogram_of) in histograms.items():
        family = HistogramMetricFamily(f"workqueue_{name}", text, labels=labels)
        for each in controllers:
            _add(family, (each.name, each.name), histogram_of(each))
        yield family


def _own(controllers: list[ControllerMetrics]) -> Iterator[Metric]:
    """What controller-runtime does not count."""
    causes = CounterMetricFamily(
        "kubewright_reconcile_causes",
        "Number of events that asked for a reconcile.",
        labels=("controller", "kind", "event"),
    )
    for each in controllers:
        for kind, counts in each.events.items():
            for event, count in counts.items():
                causes.add_metric((each.name, kind, event), count)
    yield causes
    counters: dict[str, tuple[str, Callable[[ControllerMetrics], int]]] = {
        "hot_loops": ("Times that a field was found to be written again and again.", lambda each: each.hot_loops),
        "stopped_deletes": ("Deletes not sent since the fuse had blown.", lambda each: each.stopped_deletes),
    }
    for name, (text, count_of) in counters.items():
        counter = CounterMetricFamily(f"kubewright_{name}", text, labels=("controller",))
        for each in controllers:
            counter.add_metric((each.name,), count_of(each))
        yield counter
    paused = GaugeMetricFamily("kubewright_paused_objects", "Objects that are paused now.", labels=("controller",))
    for each in controllers:
        paused.add_metric((each.name,), each.paused_objects)
    yield paused


def _caches(informers: list[Informer[Any]]) -> Iterator[Metric]:
    gauges: dict[str, tuple[str, Callable[[Informer[Any]], int]]] = {
        "objects": ("Objects in the cache.", lambda each: len(each.store)),
        "bytes": ("Bytes of the objects in the cache, as they are kept.", lambda each: each.store.size),
        "synced": ("1 once the first list is complete.", lambda each: int(each.synced)),
        "watching": ("1 while the list or watch goes well.", lambda each: int(each.last_error is None)),
    }
    for name, (text, value_of) in gauges.items():
        gauge = GaugeMetricFamily(f"kubewright_cache_{name}", text, labels=("resource",))
        for resource, values in _by_resource(informers, value_of).items():
            gauge.add_metric((resource,), min(values) if name in ("synced", "watching") else sum(values))
        yield gauge


def _by_resource(informers: list[Informer[Any]], value_of: Callable[[Informer[Any]], int]) -> dict[str, list[int]]:
    """One resource can have several informers: of its versions, and of its metadata alone."""
    values: dict[str, list[int]] = {}
    for each in informers:
        values.setdefault(each.resource, []).append(value_of(each))
    return values


def _in_hand(each: ControllerMetrics) -> list[float]:
    return list(each.queue.in_hand()) if each.queue else []


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    family.add_metric(labels, histogram.buckets(), histogram.sum)
