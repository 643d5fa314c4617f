"""The Endpoints controller: the addresses of the Pods behind each Service, in the deprecated form.

Pods with the same ports share a subset. Of more than `MOST` addresses the first are kept, and an annotation says so.

Follows kubernetes/pkg/controller/endpoint and
https://kubernetes.io/docs/concepts/services-networking/service/#endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kubewright.apis.core.v1 import (
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.controllers import Context, Controller, DeletedContext, Request, Watch, controller
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.selection import SELECTOR
from kubewright_controlplane.controllers.services import (
    SELECTED_PODS,
    TRIGGER_TIME,
    TriggerTimes,
    by_selector,
    endpoints_among,
    hostname_of,
    is_managed,
    selected_pods,
    target_port,
)

MOST: Final = 1000
_HEADLESS: Final = "service.kubernetes.io/headless"
_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_OWN_ANNOTATIONS: Final = (_OVER_CAPACITY, TRIGGER_TIME)
_NAME: Final = "endpoint-controller"


class EndpointsReconciler:
    """Writes the Endpoints of a Service."""

    def __init__(self) -> None:
        self._times = TriggerTimes()

    async def reconcile(self, ctx: Context[Service] | DeletedContext[Service]) -> None:
        if isinstance(ctx, DeletedContext):
            self._times.forget(ctx.request)
            await _remove(ctx)
            return
        service = ctx.object
        if not is_managed(service):
            return
        selected = await selected_pods(ctx)
        trigger = self._times.next(ctx.request, service, selected)
        desired = _desired(service, _subsets(service, endpoints_among(selected)))
        existing = await ctx.get_or_none(Endpoints, service.metadata.name)
        if existing is None:
            desired.metadata.annotations |= trigger
            await ctx.create(desired)
        elif _differs(existing, desired):
            kept = {key: value for key, value in existing.metadata.annotations.items() if key not in _OWN_ANNOTATIONS}
            existing.subsets, existing.metadata.labels = desired.subsets, desired.metadata.labels
            existing.metadata.annotations = kept | desired.metadata.annotations | trigger
            await ctx.client.update(existing)


def _differs(existing: Endpoints, desired: Endpoints) -> bool:
    capacity = [each.metadata.annotations.get(_OVER_CAPACITY) for each in (existing, desired)]
    current = (existing.subsets, existing.metadata.labels, capacity[0])
    return current != (desired.subsets, desired.metadata.labels, capacity[1])


async def _remove(ctx: DeletedContext[Service]) -> None:
    """Delete the Endpoints of a deleted Service, unless another client wrote them."""
    existing = await ctx.get_or_none(Endpoints, ctx.request.name)
    if existing is not None and existing.metadata.labels.get(_MANAGED_BY) == _NAME:
        await ctx.delete(existing)


def _desired(service: Service, subsets: list[EndpointSubset]) -> Endpoints:
    labels = {**service.metadata.labels, _MANAGED_BY: _NAME}
    if service.spec.cluster_ip in (None, "", "None"):
        labels[_HEADLESS] = ""
    annotations = {_OVER_CAPACITY: "truncated"} if _truncate(subsets) else {}
    metadata = ObjectMeta(
        name=service.metadata.name, namespace=service.metadata.namespace, labels=labels, annotations=annotations
    )
    return Endpoints(
        metadata=metadata, subsets=[each for each in subsets if each.addresses or each.not_ready_addresses]
    )


def _subsets(service: Service, behind: Sequence[Pod]) -> list[EndpointSubset]:
    by_ports: dict[bytes, EndpointSubset] = {}
    all_ready = bool(service.spec.publish_not_ready_addresses)
    for pod in behind:
        if pod.metadata.deletion_timestamp is not None and not all_ready:
            continue
        ports = list(_ports(service, pod))
        if not ports and (service.spec.ports or service.spec.cluster_ip != "None"):
            continue
        subset = by_ports.setdefault(msgspec.json.encode(ports), EndpointSubset(ports=ports))
        ready = all_ready or pods.is_ready(pod)
        (subset.addresses if ready else subset.not_ready_addresses).append(_address(service, pod))
    return list(by_ports.values())


def _ports(service: Service, pod: Pod) -> Iterable[EndpointPort]:
    for port in service.spec.ports:
        number = target_port(port, pod)
        if number is not None:
            yield EndpointPort(
                name=port.name, port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
            )


def _address(service: Service, pod: Pod) -> EndpointAddress:
    return EndpointAddress(
        ip=pod.status.pod_ip or "",
        hostname=hostname_of(service, pod),
        node_name=pod.spec.node_name,
        target_ref=ObjectReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
    )


def _truncate(subsets: Iterable[EndpointSubset]) -> bool:
    """Keep `MOST` addresses, ready ones first. Returns whether any were dropped."""
    lists = [each.addresses for each in subsets] + [each.not_ready_addresses for each in subsets]
    room, before = MOST, sum(map(len, lists))
    for addresses in lists:
        del addresses[room:]
        room -= len(addresses)
    return before > MOST


def _of_same_name(endpoints: Endpoints, _: object) -> Iterable[Request]:
    return [Request(endpoints.metadata.namespace, endpoints.metadata.name)]


def endpoints_controller() -> Controller[Service]:
    """Return the controller `endpoints-controller`."""
    declare = controller(
        Service,
        name="endpoints-controller",
        watches=[SELECTED_PODS, Watch.mapped(Endpoints, _of_same_name)],
        writes=[Endpoints],
        indexers={SELECTOR: by_selector},
        reconcile_deleted=True,
        one_pass=True,
        namespace_ending="stop",
        workers=5,
    )
    return declare(EndpointsReconciler().reconcile)
