"""Metrics of other programs: from `custom.metrics.k8s.io` and `external.metrics.k8s.io`, where the cluster serves them.

Follows kubernetes/pkg/controller/podautoscaler/metrics/client.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec

from kubewright.apis.autoscaling.v2 import CrossVersionObjectReference, MetricIdentifier
from kubewright.client._client import Client
from kubewright.client._mapper import RESTMapper
from kubewright.machinery.errors import APIError, ConfigError
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.quantity import Quantity
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.controllers.autoscaling.replicas import MetricFailed
from kubewright_controlplane.controllers.autoscaling.usage import FETCH, Sample, refusal

_CUSTOM: Final = "custom.metrics.k8s.io"
_CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
_EXTERNAL: Final = "external.metrics.k8s.io"


class _Described(msgspec.Struct):
    name: str = ""


class _Value(msgspec.Struct, rename="camel"):
    value: str | int | float
    described_object: _Described = msgspec.field(default_factory=_Described)
    timestamp: datetime | None = None

    @property
    def milli(self) -> int:
        return Quantity.parse(str(self.value)).milli_value


class _Values(msgspec.Struct):
    items: list[_Value] = []


class CustomMetrics:
    """Reads metrics, in thousandths. All methods raise MetricFailed with the message of a real controller."""

    def __init__(self, live: Client, mapper: RESTMapper) -> None:
        self._live = live
        self._mapper = mapper

    async def of_pods(self, namespace: str, metric: MetricIdentifier, selector: str) -> dict[str, Sample]:
        """Return a metric of each Pod that `selector` matches, by name."""
        try:
            found = await self._custom(f"namespaces/{namespace}/pods/%2A/{quote(metric.name)}", metric, selector)
        except MetricFailed as error:
            raise MetricFailed(f"unable to get metric {metric.name}: {error}") from error
        if not found:
            why = "no metrics returned from custom metrics API"
            raise MetricFailed(f"unable to get metric {metric.name}: {why}")
        return {each.described_object.name: Sample({"": each.milli}, each.timestamp) for each in found}

    async def of_object(self, namespace: str, ref: CrossVersionObjectReference, metric: MetricIdentifier) -> int:
        """Return a metric of one object."""
        where = f"{ref.kind} on {namespace} {ref.name}"
        try:
            found = await self._custom(await self._path(namespace, ref, metric.name), metric)
        except MetricFailed as error:
            raise MetricFailed(f"unable to get metric {metric.name}: {where}/{error}") from error
        if len(found) != 1:
            why = f"the custom metrics API server returned {len(found)} results when we asked for exactly one"
            raise MetricFailed(f"unable to get metric {metric.name}: {where}/{FETCH} custom metrics API: {why}")
        return found[0].milli

    async def external(self, namespace: str, metric: MetricIdentifier) -> int:
        """Return the sum of the values of a metric that belongs to no object."""
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{namespace}/{quote(metric.name, safe='')}"
        which = f"unable to get external metric {namespace}/{metric.name}/{shown_selector(metric)}"
        query = {"labelSelector": _selector(metric)} if metric.selector is not None else {}
        try:
            found = await self._read(path, query)
        except APIError as error:
            request = f"get {metric.name}.{_EXTERNAL}"
            why = f"the server could not find the requested resource ({request})"
            reason = why if _is_absent(error) else refusal(error, request)
            raise MetricFailed(f"{which}: {FETCH} external metrics API: {reason}") from error
        if not found:
            raise MetricFailed(f"{which}: no metrics returned from external metrics API")
        return sum(each.milli for each in found)

    async def _path(self, namespace: str, ref: CrossVersionObjectReference, metric: str) -> str:
        """Return the path of a metric of an object, below the version of the API."""
        gv = GroupVersion.parse(ref.api_version or "v1")
        if ref.kind == "Namespace" and not gv.group:
            return f"namespaces/{namespace}/metrics/{quote(metric)}"
        try:
            kind = await self._mapper.kind(ref.api_version or "v1", ref.kind)
        except (APIError, ConfigError) as error:
            raise MetricFailed(f"{FETCH} custom metrics API: {error}") from error
        resource = f"{kind.__api__.plural}.{gv.group}" if gv.group else kind.__api__.plural
        return f"namespaces/{namespace}/{resource}/{quote(ref.name)}/{quote(metric)}"

    async def _custom(self, path: str, metric: MetricIdentifier, selector: str = "") -> list[_Value]:
        """Return values of the newest version of the custom metrics API that the cluster has."""
        query = {"labelSelector": selector} if selector else {}
        if metric.selector is not None:
            query["metricLabelSelector"] = _selector(metric)
        for version in _CUSTOM_VERSIONS:
            try:
                return await self._read(f"/apis/{_CUSTOM}/{version}/{path}", query)
            except APIError as error:
                if not _is_absent(error):
                    resource, name = path.removeprefix("namespaces/").split("/")[1:3]
                    request = f"get {resource}.{_CUSTOM} {name.replace('%2A', '*')}"
                    raise MetricFailed(f"{FETCH} custom metrics API: {refusal(error, request)}") from error
        raise MetricFailed(f"{FETCH} custom metrics API: no custom metrics API ({_CUSTOM}) registered")

    async def _read(self, path: str, query: dict[str, str]) -> list[_Value]:
        data = await self._live.rest.request("GET", path, query)
        return msgspec.json.decode(data, type=_Values).items


def _is_absent(error: APIError) -> bool:
    """Return whether the server has no such API, rather than no such object."""
    return error.code == 404 and not (error.status.details and error.status.details.name)


def _selector(metric: MetricIdentifier) -> str:
    return str(Selector.from_dict(msgspec.to_builtins(metric.selector))) if metric.selector is not None else ""


def shown_selector(metric: MetricIdentifier) -> str:
    """Return the selector of a metric as messages of a real controller show it."""
    if metric.selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(metric.selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
        for each in metric.selector.match_expressions
    )
    parts = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},"
    return f"&LabelSelector{{{parts}}}"
