"""Counts of what a manager does. `/metrics` shows them under controller-runtime's names, so its dashboards work.

The counts are plain numbers of one event loop; `kubewright.manager._exposition` turns them into Prometheus metrics at a
scrape. Register metrics of your own in `Metrics.registry`, with prometheus-client's classes.

Names: controller-runtime's pkg/internal/controller/metrics, pkg/metrics/workqueue.go, client-go's rest_client metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kubewright.cache._entry import EventType
from kubewright.controllers._queue import WorkQueue
from kubewright.controllers._reconcile import ControllerObserver, Failure, Outcome

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kubewright.cache._cache import Cache
    from kubewright.manager._events import Fate

_QUEUE_BUCKETS: Final = tuple(10.0**exponent for exponent in range(-8, 4))
_RECONCILE_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0,
    60.0,
)  # fmt: skip

_PLAN_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)


class Histogram:
    """Counts of values, by bucket."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, as Prometheus defines them."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class ControllerMetrics(ControllerObserver):
    """The counts of one controller and its queue."""

    def __init__(self, name: str, workers: int) -> None:
        self.name = name
        self.workers = workers
        self.queue: WorkQueue | None = None
        """Read at a scrape."""
        self.adds = self.retries = 0
        self.failures = dict.fromkeys(Failure, 0)
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.reconcile_seconds = Histogram(_RECONCILE_BUCKETS)
        self.queue_seconds = Histogram(_QUEUE_BUCKETS)
        self.work_seconds = Histogram(_QUEUE_BUCKETS)
        self.events: dict[str, dict[EventType, int]] = {}
        """Events that caused reconciles, by kind."""
        self.hot_loops = self.stopped_deletes = self.paused_objects = 0
        self.plans: Counter[tuple[str, str]] = Counter()
        """Executions that ended, by plan and result."""
        self.plan_seconds: dict[str, Histogram] = {}
        """Durations of complete executions, by plan."""
        self.step_failures: Counter[str] = Counter()
        """Failed attempts of steps, by plan."""
        self.drift_repairs = 0
        """Objects that were restored to what a plan describes."""

    def added(self) -> None:
        self.adds += 1

    def taken(self, waited: float) -> None:
        self.queue_seconds.observe(waited)

    def done(self, worked: float) -> None:
        self.work_seconds.observe(worked)

    def retried(self) -> None:
        self.retries += 1

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.reconcile_seconds.observe(seconds)

    def failed(self, failure: Failure) -> None:
        self.failures[failure] += 1

    def causes(self, kind: str) -> dict[EventType, int]:
        return self.events.setdefault(kind, super().causes(kind))

    def looping(self) -> None:
        self.hot_loops += 1

    def deletes_stopped(self) -> None:
        self.stopped_deletes += 1

    def paused(self, objects: int) -> None:
        self.paused_objects = objects

    def plan_ended(self, plan: str, result: str, seconds: float) -> None:
        self.plans[plan, result] += 1
        if result == "Complete":
            self.plan_seconds.setdefault(plan, Histogram(_PLAN_BUCKETS)).observe(seconds)

    def step_failed(self, plan: str) -> None:
        self.step_failures[plan] += 1

    def drift_repaired(self, objects: int) -> None:
        self.drift_repairs += objects


_WEBHOOK_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics:
    """The counts of the webhooks at one path."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        """By HTTP status."""
        self.in_flight = self.panics = 0
        self.seconds = Histogram(_WEBHOOK_BUCKETS)

    def started(self) -> None:
        self.in_flight += 1

    def ended(self, code: int, seconds: float) -> None:
        self.in_flight -= 1
        self.requests[code] += 1
        self.seconds.observe(seconds)

    def panicked(self) -> None:
        self.panics += 1


class Metrics:
    """All counts of one Manager, and the metrics of the operator's own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.controllers: dict[str, ControllerMetrics] = {}
        self.webhooks: dict[str, WebhookMetrics] = {}
        """By path."""
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.events: dict[Fate, int] = {"written": 0, "refused": 0, "dropped": 0}
        """Events that reconcilers recorded, by their fate."""
        self.leading: bool | None = None
        """None without an election."""
        self.certificates_read = 0
        self.cache: Cache | None = None
        """Read at a scrape."""
        self.webhook_certificate_expirations: Callable[[], Mapping[str, datetime]] = dict[str, datetime]
        """When the certificates of the webhooks end. Called at a scrape."""
        self._own = _Own()

    @property
    def registry(self) -> CollectorRegistry:
        """The registry for metrics of your own; `/metrics` shows them. Each Manager has a registry, shared by its
        copies.

        bookings = prometheus_client.Counter("bookings", "Bookings made.", registry=None)   # next to the reconciler
        manager.metrics.registry.register(bookings)                                         # next to the manager
        """
        return self._own.registry

    def share_registry(self, other: Metrics) -> None:
        """Use the registry of `other`."""
        self._own = other._own

    def controller(self, name: str, workers: int) -> ControllerMetrics:
        """Return the counts of that controller; they continue when it is started again."""
        return self.controllers.setdefault(name, ControllerMetrics(name, workers))

    def webhook(self, path: str) -> WebhookMetrics:
        """Return the counts of the webhooks at that path."""
        return self.webhooks.setdefault(path, WebhookMetrics())

    def request(self, code: str, method: str, host: str) -> None:
        """Count a request to the API server; `code` is `<error>` if no answer came."""
        self.requests[code, method, host] += 1

    def event(self, fate: Fate) -> None:
        """Count an Event by its fate."""
        self.events[fate] += 1

    def certificate_read(self) -> None:
        """Count that the files of a server's certificate were read."""
        self.certificates_read += 1


class _Own:
    """The registry of the operator's own metrics, created when it is used: importing prometheus-client takes time."""

    @cached_property
    def registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry

        return CollectorRegistry(auto_describe=True)
