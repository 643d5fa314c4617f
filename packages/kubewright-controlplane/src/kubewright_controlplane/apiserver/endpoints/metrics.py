"""The server's own metrics, with kube-apiserver's names if it has them.

prometheus_client is imported at the first scrape, because most servers are never scraped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubewright.http.message import Response
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "code")


class Metrics:
    """Counts requests, and stored objects at each scrape. A collector for prometheus_client."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._requests: Counter[tuple[str, ...]] = Counter()

    def count(self, info: RequestInfo, code: int) -> None:
        """Count an answered request."""
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster" if info.resource else ""
        self._requests[info.verb.upper(), *self._target(info, code), scope, str(code)] += 1

    def _target(self, info: RequestInfo, code: int) -> tuple[str, str, str, str]:
        """Return group, version, resource, and subresource or path: empty if they may not exist, so that clients
        cannot fill memory with names.
        """
        group, version, resource, below = info.group, info.version, info.resource, info.subresource
        if 400 <= code < 500:
            registry = self._resources.find(group, version, resource)
            if registry is None:
                return "", "", "", ""
            below = below if below in registry.resource.subresources else ""
        return group, version, resource, below if resource else info.path

    def answer(self) -> Response:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        headers = {"cache-control": "no-cache, private", "content-type": CONTENT_TYPE_LATEST}
        return Response(200, headers, generate_latest(registry))

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily("apiserver_request_total", "Requests answered.", labels=_REQUEST_LABELS)
        for labels, count in self._requests.items():
            requests.add_metric(labels, count)
        yield requests
        label, store = ("resource",), self._resources.store
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=label)
        sizes = GaugeMetricFamily("apiserver_resource_size_estimate_bytes", "Size of the stored objects.", labels=label)
        for name in {resource.storage for resource in self._resources if resource.storage}:
            objects.add_metric((name,), store.count(name))
            sizes.add_metric((name,), store.size(name))
        yield from (objects, sizes)
        events = GaugeMetricFamily("kubewright_history_events", "Changes kept for watches.", labels=label)
        kept = GaugeMetricFamily("kubewright_history_bytes", "Size of the objects in these changes.", labels=label)
        for name, (count, size) in store.history_sizes().items():
            events.add_metric((name,), count)
            kept.add_metric((name,), size)
        yield from (events, kept)
