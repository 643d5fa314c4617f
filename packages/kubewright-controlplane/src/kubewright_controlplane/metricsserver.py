"""The metrics API, `metrics.k8s.io/v1beta1`: what `kubectl top` and autoscalers read, as from metrics-server.

A container that runs as a process uses what its processes use. A simulated one uses what the annotations of its Pod
say (`controllers.autoscaling.usage`). A node uses what its Pods use.

It is an extension server in the process of the API server, which passes on the requests of users that may make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.apiregistration.v1 import APIService, APIServiceSpec, ServiceReference
from kubewright.apis.core.v1 import Node, Pod, Service, ServicePort, ServiceSpec
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._client import Client
from kubewright.http.message import Request, Response
from kubewright.machinery import time
from kubewright.machinery.errors import AlreadyExists, APIError, BadRequest, MethodNotAllowed, NotFound, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import FieldSelector, Selector
from kubewright_controlplane.controllers.autoscaling.usage import SimulatedUsage
from kubewright_controlplane.kubelet.processes import ProcessPods
from kubewright_controlplane.kubelet.usage import UsageMeter

GROUP_VERSION: Final = "metrics.k8s.io/v1beta1"
_NAME: Final = "metrics-server"
_NAMESPACE: Final = "kube-system"
HOST: Final = f"{_NAME}.{_NAMESPACE}.svc"
"""The name by which the API server finds this server."""
_ROOT: Final = f"/apis/{GROUP_VERSION}"
_RESOURCES: Final = (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True))

_Usage = Mapping[str, tuple[float, int]]
"""Cores and bytes, by container."""


async def register(client: Client) -> None:
    """Have the API server pass requests for the metrics API on. A metrics server that is registered already stays."""
    spec = ServiceSpec(type="ExternalName", external_name=HOST, ports=[ServicePort(port=443)])
    group, _, version = GROUP_VERSION.partition("/")
    reference = ServiceReference(name=_NAME, namespace=_NAMESPACE)
    api = APIServiceSpec(
        group=group,
        version=version,
        service=reference,
        insecure_skip_tls_verify=True,
        group_priority_minimum=100,
        version_priority=100,
    )
    service = Service(metadata=ObjectMeta(name=_NAME, namespace=_NAMESPACE), spec=spec)
    for obj in (service, APIService(metadata=ObjectMeta(name=f"{version}.{group}"), spec=api)):
        with suppress(AlreadyExists):
            await client.create(obj)


class MetricsServer:
    """Serves the metrics API. `client` may read all Pods and Nodes."""

    def __init__(self, client: Client, clock: Clock, pods: ProcessPods | None) -> None:
        self._client = client
        self._clock = clock
        self._pods = pods
        self._meter = UsageMeter()
        self._simulated = SimulatedUsage()

    async def handle(self, request: Request) -> Response:
        """Answer a request."""
        try:
            found = await self._answer(request)
        except APIError as error:
            return _json(error.code, error.status.to_dict())
        return _json(200, found) if found is not None else Response.plain(404, "404 page not found\n")

    async def _answer(self, request: Request) -> JSONObject | None:
        path, query = request.path, parse_qs(request.query)
        if request.method != "GET" or query.get("watch", ["0"])[0] in ("1", "true"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        if path == _ROOT:
            return _discovery()
        parts = path.removeprefix(f"{_ROOT}/").split("/") if path.startswith(f"{_ROOT}/") else []
        if "" in parts:
            return None  # the API server ignores empty parts: it has checked the permission for another path
        try:
            labels = Selector.parse(query.get("labelSelector", [""])[0])
            fields = FieldSelector.parse(query.get("fieldSelector", [""])[0])
        except ValueError as error:
            raise BadRequest(str(error)) from error
        name = fields.exact("metadata.name") or ""
        match parts:
            case ["nodes"]:
                return _list("NodeMetricsList", [each for each in await self._nodes(name) if _matches(labels, each)])
            case ["nodes", name]:
                return _one("NodeMetrics", await self._nodes(name), name)
            case ["pods"]:
                return _list("PodMetricsList", await self._pod_metrics("", name, labels))
            case ["namespaces", namespace, "pods"]:
                return _list("PodMetricsList", await self._pod_metrics(namespace, name, labels))
            case ["namespaces", namespace, "pods", name]:
                found = await self._pod_metrics(namespace, name, labels)
                return _one("PodMetrics", found, f"{namespace}/{name}")
            case _:
                return None

    async def _pod_metrics(self, namespace: str, name: str, labels: Selector) -> list[JSONObject]:
        pods = await self._running(namespace)
        chosen = [each for each in pods if labels.matches(each.metadata.labels) and name in ("", each.metadata.name)]
        now = self._clock.now()
        usage = await self._usage_of(chosen)
        return [_pod(each, now, usage[each.metadata.uid or ""]) for each in chosen]

    async def _nodes(self, name: str) -> list[JSONObject]:
        pods, now = await self._running(""), self._clock.now()
        usage = await self._usage_of(pods)
        nodes = [each for each in await self._client.list(Node) if name in ("", each.metadata.name)]
        found: list[JSONObject] = []
        for node in nodes:
            here = [usage[each.metadata.uid or ""] for each in pods if each.spec.node_name == node.metadata.name]
            amounts = [amount for each in here for amount in each.values()]
            total = _quantities(sum(cpu for cpu, _ in amounts), sum(memory for _, memory in amounts))
            found.append({**_head(node.metadata, now), "usage": total})
        return found

    async def _running(self, namespace: str) -> Sequence[Pod]:
        pods = await self._client.list(Pod, namespace=namespace)
        return [each for each in pods if each.status.phase == "Running"]

    async def _usage_of(self, pods: Sequence[Pod]) -> dict[str, _Usage]:
        """Return the usage of Pods, by UID: measured for containers that run as processes, else simulated."""
        measured, usage = self._measure(), dict[str, _Usage]()
        for pod in pods:
            samples = [await self._simulated.read(each, "", "", [pod]) for each in ("cpu", "memory")]
            cpu, memory = (each[pod.metadata.name].containers for each in samples)
            simulated = {name: (cpu[name] / 1000, memory[name] // 1000) for name in cpu}
            own = measured.get(pod.metadata.uid or "")
            usage[pod.metadata.uid or ""] = simulated if own is None else own
        return usage

    def _measure(self) -> dict[str, _Usage]:
        """Return the usage of all Pods that run as processes, by UID."""
        running = self._pods.process_ids() if self._pods is not None else {}
        keys = {f"{uid}/{name}/{pid}": pid for uid, pids in running.items() for name, pid in pids.items()}
        found = self._meter.read(keys) if keys else {}
        usage: dict[str, _Usage] = {}
        for uid, pids in running.items():
            known = {name: found.get(f"{uid}/{name}/{pid}") for name, pid in pids.items()}
            usage[uid] = {name: (each.cpu, each.memory) for name, each in known.items() if each is not None}
        return usage


def _discovery() -> JSONObject:
    resources = [
        {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]}
        for name, kind, namespaced in _RESOURCES
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": resources}


def _pod(pod: Pod, now: datetime, usage: _Usage) -> JSONObject:
    containers = [{"name": name, "usage": _quantities(*amounts)} for name, amounts in usage.items()]
    return {**_head(pod.metadata, now), "containers": containers}


def _head(metadata: ObjectMeta, now: datetime) -> JSONObject:
    """Return the beginning of an item. Its window is empty, so that autoscalers use a value of a Pod at once."""
    at = time.format(now)
    head: JSONObject = {"name": metadata.name, "creationTimestamp": at}
    if metadata.namespace:
        head["namespace"] = metadata.namespace
    if metadata.labels:
        head["labels"] = dict(metadata.labels)
    return {"metadata": head, "timestamp": at, "window": "0s"}


def _quantities(cpu: float, memory: int) -> JSONObject:
    return {"cpu": f"{round(cpu * 1e9)}n", "memory": f"{memory // 1024}Ki"}


def _matches(labels: Selector, item: JSONObject) -> bool:
    return labels.matches(item["metadata"].get("labels") or {})


def _list(kind: str, items: Sequence[JSONObject]) -> JSONObject:
    return {"kind": kind, "apiVersion": GROUP_VERSION, "metadata": {}, "items": list(items)}


def _one(kind: str, items: Sequence[JSONObject], name: str) -> JSONObject:
    if not items:
        resource = kind.lower()
        details = StatusDetails(name=name, group="metrics.k8s.io", kind=resource)
        raise NotFound(f'{resource}.metrics.k8s.io "{name}" not found', details=details)
    return {"kind": kind, "apiVersion": GROUP_VERSION, **items[0]}


def _json(status: int, document: JSONObject) -> Response:
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(document) + b"\n")
