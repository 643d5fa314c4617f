"""The EndpointSlice controller: the addresses of the Pods behind each Service.

A slice has at most `MAX_ENDPOINTS`. Existing slices are filled in their order, so that a change of one Pod does not
write the slices before it.

Follows kubernetes/pkg/controller/endpointslice and
https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kubewright.apis.core.v1 import ObjectReference, Pod, Service
from kubewright.apis.discovery.v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubewright.apis.meta.v1 import ObjectMeta, owner_reference
from kubewright.controllers import Context, Controller, DeletedContext, controller
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.selection import SELECTOR, SERVICE_LABEL
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

MAX_ENDPOINTS: Final = 100
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_NAME: Final = "endpointslice-controller.k8s.io"


class EndpointSliceReconciler:
    """Writes the EndpointSlices of a Service."""

    def __init__(self) -> None:
        self._times = TriggerTimes()

    async def reconcile(self, ctx: Context[Service] | DeletedContext[Service]) -> None:
        if isinstance(ctx, DeletedContext):
            self._times.forget(ctx.request)
            return
        service = ctx.object
        if not is_managed(service):
            return
        selected = await selected_pods(ctx)
        trigger = self._times.next(ctx.request, service, selected)
        slices = [
            each for each in await ctx.list(EndpointSlice, owned=True) if each.metadata.deletion_timestamp is None
        ]
        slices.sort(key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name))
        desired_slices = list(_desired_slices(service, endpoints_among(selected)))
        for index, desired in enumerate(desired_slices):
            desired.metadata.annotations = trigger
            if index < len(slices):
                await _update_slice(ctx, slices[index], desired)
            else:
                await ctx.create(desired)
        for surplus in slices[len(desired_slices) :]:
            await ctx.delete(surplus)


async def _update_slice(ctx: Context[Service], existing: EndpointSlice, desired: EndpointSlice) -> None:
    current = (existing.endpoints, existing.ports, existing.metadata.labels)
    if current == (desired.endpoints, desired.ports, desired.metadata.labels):
        return
    existing.endpoints, existing.ports = desired.endpoints, desired.ports
    existing.metadata.labels = desired.metadata.labels
    kept = {key: value for key, value in existing.metadata.annotations.items() if key != TRIGGER_TIME}
    existing.metadata.annotations = kept | desired.metadata.annotations
    await ctx.client.update(existing)


def _desired_slices(service: Service, pods: Sequence[Pod]) -> Iterable[EndpointSlice]:
    """Yield slices of Pods with the same port numbers, or one empty slice if there are no Pods."""
    by_ports: dict[bytes, tuple[list[EndpointPort], list[Endpoint]]] = {}
    for pod in pods:
        ports = _ports(service, pod)
        _, endpoints = by_ports.setdefault(msgspec.json.encode(ports), (ports, []))
        endpoints.append(_endpoint(service, pod))
    if not by_ports:
        yield _slice(service, [], [])
    for ports, endpoints in by_ports.values():
        for start in range(0, len(endpoints), MAX_ENDPOINTS):
            yield _slice(service, ports, endpoints[start : start + MAX_ENDPOINTS])


def _slice(service: Service, ports: list[EndpointPort], endpoints: list[Endpoint]) -> EndpointSlice:
    name = service.metadata.name
    labels = {**service.metadata.labels, SERVICE_LABEL: name, _MANAGED_BY: _NAME}
    if service.spec.cluster_ip == "None":
        labels["service.kubernetes.io/headless"] = ""
    metadata = ObjectMeta(
        generate_name=f"{name}-",
        namespace=service.metadata.namespace,
        labels=labels,
        owner_references=[owner_reference(service)],
    )
    return EndpointSlice(metadata=metadata, address_type="IPv4", ports=ports, endpoints=endpoints)


def _endpoint(service: Service, pod: Pod) -> Endpoint:
    terminating = pod.metadata.deletion_timestamp is not None
    serving = pods.is_ready(pod)
    ready = bool(service.spec.publish_not_ready_addresses) or (serving and not terminating)
    return Endpoint(
        addresses=[pod.status.pod_ip or ""],
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=hostname_of(service, pod),
        node_name=pod.spec.node_name,
        target_ref=ObjectReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
    )


def _ports(service: Service, pod: Pod) -> list[EndpointPort]:
    ports: list[EndpointPort] = []
    for port in service.spec.ports:
        number = target_port(port, pod)
        if number is not None:
            ports.append(
                EndpointPort(
                    name=port.name or "", port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
                )
            )
    return ports


def endpointslice_controller() -> Controller[Service]:
    """Return the controller `endpointslice-controller`."""
    declare = controller(
        Service,
        name="endpointslice-controller",
        owns=[EndpointSlice],
        watches=[SELECTED_PODS],
        indexers={SELECTOR: by_selector},
        reconcile_deleted=True,
        one_pass=True,
        namespace_ending="stop",
        workers=5,
    )
    return declare(EndpointSliceReconciler().reconcile)
