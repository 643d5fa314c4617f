"""What Pods use: from the metrics API if the cluster has one, or else the simulated usage of each Pod.

A simulated Pod uses what its annotations say, such as `simulation.kubewright.dev/cpu: 250m`. A percentage is a share of
what each container requests. Without annotations, each container uses `1m` of CPU and `1Mi` of memory, as with kwok.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

import msgspec

from kubewright.apis.core.v1 import Container, Pod
from kubewright.client._client import Client
from kubewright.machinery.errors import APIError
from kubewright.machinery.quantity import Quantity

PREFIX: Final = "simulation.kubewright.dev/"
_KWOK: Final = "kwok.x-k8s.io/usage-"
"""The prefix of kwok's annotations, which mean the same."""
FETCH: Final = "unable to fetch metrics from"
_IDLE: Final = {"cpu": "1m", "memory": "1Mi"}


def refusal(error: APIError, request: str) -> str:
    """Return the error of a request for metrics, such as `get pods.metrics.k8s.io`, in the words of Go's client."""
    if error.code == 503 and error.status.details is None:
        return f"the server is currently unable to handle the request ({request})"
    return str(error)


class Sample(NamedTuple):
    """What the containers of a Pod use of a resource, in thousandths."""

    containers: Mapping[str, int]
    at: datetime | None = None
    window: timedelta = timedelta(0)

    def of(self, container: str) -> int | None:
        """Return the usage of a container, or of all if `container` is empty; None if it is unknown."""
        return self.containers.get(container) if container else sum(self.containers.values())


class UsageSource(Protocol):
    """Where the usage of Pods comes from."""

    async def read(self, resource: str, namespace: str, selector: str, pods: Sequence[Pod]) -> dict[str, Sample]:
        """Return the usage of the Pods that `selector` matches, by name. `pods` are those Pods. Raises APIError."""
        ...


class SimulatedUsage:
    """Reads the annotations of Pods."""

    async def read(self, resource: str, namespace: str, selector: str, pods: Sequence[Pod]) -> dict[str, Sample]:
        running = (pod for pod in pods if pod.status.phase == "Running")
        return {
            pod.metadata.name: Sample({each.name: _simulated(pod, each, resource) for each in pod.spec.containers})
            for pod in running
        }


class _ContainerMetrics(msgspec.Struct):
    name: str
    usage: dict[str, str] = {}


class _PodMetrics(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]
    timestamp: datetime | None = None
    window: str = ""
    containers: list[_ContainerMetrics] = []


class _MetricsList(msgspec.Struct):
    items: list[_PodMetrics] = []


class MetricsAPI:
    """Reads `metrics.k8s.io/v1beta1`. Pods that it does not know, and all Pods without that API, are simulated."""

    def __init__(self, live: Client) -> None:
        self._live = live
        self._simulated = SimulatedUsage()

    async def read(self, resource: str, namespace: str, selector: str, pods: Sequence[Pod]) -> dict[str, Sample]:
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        found = await self._simulated.read(resource, namespace, selector, pods)
        try:
            data = await self._live.rest.request("GET", path, {"labelSelector": selector})
        except APIError as error:
            if error.code == 404:
                return found
            raise
        return found | _samples(resource, data)


def _samples(resource: str, data: bytes) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for each in msgspec.json.decode(data, type=_MetricsList).items:
        usage = {part.name: Quantity.parse(part.usage.get(resource, "0")).milli_value for part in each.containers}
        found[msgspec.json.decode(each.metadata["name"], type=str)] = Sample(usage, each.timestamp)
    return found


def _simulated(pod: Pod, container: Container, resource: str) -> int:
    annotations = pod.metadata.annotations
    own, of_kwok = (annotations.get(f"{each}{resource}") for each in (PREFIX, _KWOK))
    text = own or of_kwok or _IDLE.get(resource, "0")
    if not text.endswith("%"):
        return _milli(text) // max(1, len(pod.spec.containers))
    requests = container.resources.requests if container.resources else {}
    return _milli(requests.get(resource, "0")) * _whole(text[:-1]) // 100


def _milli(text: str) -> int:
    try:
        return Quantity.parse(text).milli_value
    except ValueError:  # the API server accepts any text in an annotation; it counts as nothing
        return 0


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
