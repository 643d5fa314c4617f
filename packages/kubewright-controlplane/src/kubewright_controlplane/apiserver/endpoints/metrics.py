"""The server's own metrics, with kube-apiserver's names.

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
        # bounds the number of labels: clients may ask for any number of missing paths
        path = info.path if code != 404 else ""
        subresource = info.subresource if info.resource else path
        key = (info.verb.upper(), info.group, info.version, info.resource, subresource, scope, str(code))
        self._requests[key] += 1

    def answer(self) -> Response:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        headers = {"cache-control": "no-cache, private", "content-type": CONTENT_TYPE_LATEST}
        return Response(200, headers, generate_latest(registry))

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily("apiserver_request_total", "Requests answered.", labels=_REQUEST_LABELS)
        for labels, count in self._requests.items():
            requests.add_metric(labels, count)
        yield requests
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=("resource",))
        for name in {resource.storage for resource in self._resources if resource.storage}:
            objects.add_metric((name,), self._resources.store.count(name))
        yield objects
