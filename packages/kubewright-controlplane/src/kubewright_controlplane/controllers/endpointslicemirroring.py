"""The EndpointSlice mirroring controller: copies the Endpoints of Services without a selector.

Follows kubernetes/pkg/controller/endpointslicemirroring.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

import msgspec

from kubewright.apis.core import v1 as core
from kubewright.apis.core.v1 import EndpointAddress, Endpoints, EndpointSubset, Service
from kubewright.apis.discovery.v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta, owner_reference
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, DeletedContext, Request, Watch, controller
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright_controlplane.common.selection import SERVICE_LABEL, matching

MOST: Final = 1000
"""The addresses of a subset that are mirrored."""
NAME: Final = "endpointslicemirroring-controller.k8s.io"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_OWN_LABEL: Final = "endpoints.kubernetes.io/managed-by"
"""The label of Endpoints that a controller writes for a Service with a selector."""
_LEFT_OUT: Final = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)


class _Key(NamedTuple):
    """What all endpoints of a slice have in common."""

    family: str
    ports: bytes


async def reconcile(ctx: Context[Endpoints] | DeletedContext[Endpoints]) -> None:
    mine = LabelSelector(match_labels={SERVICE_LABEL: ctx.request.name, _MANAGED_BY: NAME})
    present = {_key_of(each): each for each in await matching(ctx, EndpointSlice, mine)}
    desired = {} if isinstance(ctx, DeletedContext) else await _desired(ctx)
    for key, wanted in desired.items():
        existing = present.pop(key, None)
        if existing is None and isinstance(ctx, Context):
            await ctx.create(wanted)
        elif existing is not None and _content(existing) != _content(wanted):
            existing.endpoints = wanted.endpoints
            existing.metadata.labels, existing.metadata.annotations = (
                wanted.metadata.labels,
                wanted.metadata.annotations,
            )
            await ctx.client.update(existing)
    for surplus in present.values():
        await ctx.delete(surplus)


async def _desired(ctx: Context[Endpoints]) -> dict[_Key, EndpointSlice]:
    """Return the slices of the Endpoints; none unless they are mirrored."""
    endpoints = ctx.object
    meta = endpoints.metadata
    if meta.labels.get(_SKIP) == "true" or _LEADER in meta.annotations or meta.deletion_timestamp is not None:
        return {}
    service = await ctx.get_or_none(Service, meta.name)
    if service is None or service.spec.selector:
        return {}
    slices: dict[_Key, EndpointSlice] = {}
    skipped = invalid = 0
    for subset in endpoints.subsets:
        mirrored = _add(slices, endpoints, subset)
        skipped += len(subset.addresses) + len(subset.not_ready_addresses) - mirrored
        invalid += sum(_parsed(each) is None for each in (*subset.addresses, *subset.not_ready_addresses))
    if skipped > invalid:
        note = f"A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses "
        ctx.events.warning(endpoints, "TooManyAddressesToMirror", f"{note}were skipped", action="Mirror")
    return slices


def _add(slices: dict[_Key, EndpointSlice], endpoints: Endpoints, subset: EndpointSubset) -> int:
    """Add the addresses of a subset to the slices. Returns how many were added."""
    ports = [
        EndpointPort(
            name=each.name or "", port=each.port, protocol=each.protocol or "TCP", app_protocol=each.app_protocol
        )
        for each in subset.ports
    ]
    added = 0
    for address, ready in (
        *((each, True) for each in subset.addresses),
        *((each, False) for each in subset.not_ready_addresses),
    ):
        parsed = _parsed(address)
        if parsed is None or added >= MOST:
            continue
        family, text = parsed
        key = _Key(family, _ports_key(ports))
        made = slices.get(key) or slices.setdefault(key, _slice(endpoints, family, ports))
        made.endpoints = [*made.endpoints, _endpoint(address, text, ready)]
        added += 1
    return added


def _port(port: core.EndpointPort) -> EndpointPort:
    protocol = port.protocol or "TCP"
    return EndpointPort(name=port.name or "", port=port.port, protocol=protocol, app_protocol=port.app_protocol)


def _parsed(address: EndpointAddress) -> tuple[str, str] | None:
    """Return the family of an address and its usual text; None if it is invalid."""
    try:
        parsed = ip_address(address.ip)
    except ValueError:
        return None
    return ("IPv4" if parsed.version == 4 else "IPv6"), str(parsed)


def _endpoint(address: EndpointAddress, text: str, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=[text],
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname,
        node_name=address.node_name,
        target_ref=address.target_ref,
    )


def _slice(endpoints: Endpoints, family: str, ports: list[EndpointPort]) -> EndpointSlice:
    meta = endpoints.metadata
    metadata = ObjectMeta(
        generate_name=f"{meta.name}-",
        namespace=meta.namespace,
        labels={**meta.labels, SERVICE_LABEL: meta.name, _MANAGED_BY: NAME},
        annotations={key: value for key, value in meta.annotations.items() if key not in _LEFT_OUT},
        owner_references=[owner_reference(endpoints)],
    )
    return EndpointSlice(metadata=metadata, address_type=family, ports=ports, endpoints=[])


def _key_of(existing: EndpointSlice) -> _Key:
    return _Key(existing.address_type, _ports_key(existing.ports))


def _ports_key(ports: list[EndpointPort]) -> bytes:
    return msgspec.json.encode(sorted(ports, key=lambda each: (each.name or "", each.port or 0)))


def _content(found: EndpointSlice) -> tuple[object, ...]:
    return found.endpoints, found.metadata.labels, found.metadata.annotations


def _of_service(service: Service, _: Lister[Endpoints]) -> Iterable[Request]:
    return [] if service.spec.selector else [Request(service.metadata.namespace, service.metadata.name)]


def _of_slice(found: EndpointSlice, _: Lister[Endpoints]) -> Iterable[Request]:
    labels = found.metadata.labels
    return [Request(found.metadata.namespace, labels[SERVICE_LABEL])] if SERVICE_LABEL in labels else []


def _is_mirrored(event: AnyEvent) -> bool:
    return any(each is not None and each.labels.get(_MANAGED_BY) == NAME for each in (event.old, event.new))


def _may_be_mirrored(event: AnyEvent) -> bool:
    return event.new is None or _OWN_LABEL not in event.new.labels


def endpointslicemirroring_controller() -> Controller[Endpoints]:
    """Return the controller `endpointslice-mirroring-controller`."""
    declare = controller(
        Endpoints,
        name="endpointslice-mirroring-controller",
        predicate=Predicate(_may_be_mirrored),
        watches=[
            Watch.mapped(Service, _of_service),
            Watch.mapped(EndpointSlice, _of_slice, predicate=Predicate(_is_mirrored)),
        ],
        writes=[EndpointSlice],
        reconcile_deleted=True,
        one_pass=True,
        namespace_ending="stop",
        workers=2,
    )
    return declare(reconcile)
