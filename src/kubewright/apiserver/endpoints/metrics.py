"""The server's own figures, under the names that kube-apiserver gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from kubewright.apiserver.endpoints.requestinfo import RequestInfo
from kubewright.apiserver.registry.resourceset import ResourceSet
from kubewright.http.message import Response

_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "code")


class Metrics(Collector):
    """Counts requests, and at each scrape the stored objects."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, info: RequestInfo, code: int) -> None:
        """Note a request that was answered."""
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster" if info.resource else ""
        path = info.path if code != 404 else ""  # what is not there can be asked for by any number of names
        subresource = info.subresource if info.resource else path
        key = (info.verb.upper(), info.group, info.version, info.resource, subresource, scope, str(code))
        self._requests[key] += 1

    def answer(self) -> Response:
        body = generate_latest(self._registry)
        return Response(200, {"cache-control": "no-cache, private", "content-type": CONTENT_TYPE_LATEST}, body)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        requests = CounterMetricFamily("apiserver_request_total", "Requests answered.", labels=_REQUEST_LABELS)
        for labels, count in self._requests.items():
            requests.add_metric(labels, count)
        yield requests
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects stored.", labels=("resource",))
        for name in {resource.storage for resource in self._resources if resource.storage}:
            objects.add_metric((name,), self._resources.store.count(name))
        yield objects
