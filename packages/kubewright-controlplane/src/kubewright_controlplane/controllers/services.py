"""The selection of Services: the Pods behind a Service, the Services in front of a Pod, and the ports between them.

Follows k8s.io/endpointslice/util.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from kubewright.apis.core.v1 import Pod, Service, ServicePort
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Request, Watch
from kubewright.machinery import time
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.common.selection import by_required_label, matching, selecting
from kubewright_controlplane.ports import LOOPBACK

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"


def by_selector(service: Service) -> Iterable[str]:
    """Return the index values of a Service, for the index `SELECTOR`: a label that its Pods must have."""
    selector = service.spec.selector
    return [by_required_label(service.metadata.namespace, selector)] if selector else ()


def _services_of(pod: Pod, services: Lister[Service]) -> Iterable[Request]:
    labels = pod.metadata.labels.items()
    for service in selecting(pod, services):
        if service.spec.selector.items() <= labels:
            yield Request(service.metadata.namespace, service.metadata.name)


SELECTED_PODS = Watch.mapped(Pod, _services_of)
"""The watch that reconciles the Services that select a changed Pod. Their controller needs the index `SELECTOR`."""


async def selected_pods(ctx: Context[Service]) -> Sequence[Pod]:
    """Return the Pods that a Service selects, by name."""
    return await matching(ctx, Pod, LabelSelector(match_labels=ctx.object.spec.selector))


def endpoints_among(selected: Iterable[Pod]) -> list[Pod]:
    """Return the Pods that have an address and are not finished.

    Process Pods without an address of their own have the loopback address, which is not a valid endpoint.
    """
    return [pod for pod in selected if pod.status.pod_ip not in (None, "", LOOPBACK) and not is_finished(pod)]


class _Seen(NamedTuple):
    """The times at the last reconcile of a Service."""

    service: datetime | None
    pods: dict[str, datetime]


class TriggerTimes:
    """Knows which change each reconcile of a Service reacts to: the earliest one since the reconcile before.

    Clients measure by it how long changes take to reach the endpoints.
    """

    def __init__(self) -> None:
        self._seen: dict[Request, _Seen] = {}

    def next(self, request: Request, service: Service, selected: Iterable[Pod]) -> dict[str, str]:
        """Return the annotation of endpoints that are written now; empty without a change of the Service or a Pod."""
        before = self._seen.get(request)
        now = _Seen(service.metadata.creation_timestamp, dict(_ready_since(selected)))
        self._seen[request] = now
        if before is None:
            changes = [now.service] if now.service is not None else []
        else:
            changes = [at for name, at in now.pods.items() if name not in before.pods or at > before.pods[name]]
            if now.service is not None and (before.service is None or now.service > before.service):
                changes.append(now.service)
        return {TRIGGER_TIME: time.format(min(changes))} if changes else {}

    def forget(self, request: Request) -> None:
        """Forget a deleted Service."""
        self._seen.pop(request, None)


def _ready_since(selected: Iterable[Pod]) -> Iterable[tuple[str, datetime]]:
    """Yield the name of each Pod with a condition Ready, and the time of its last change."""
    for pod in selected:
        for condition in pod.status.conditions:
            if condition.type == "Ready" and condition.last_transition_time is not None:
                yield pod.metadata.name, condition.last_transition_time


def is_managed(service: Service) -> bool:
    """Return whether a Service's endpoints are derived from its selector."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def hostname_of(service: Service, pod: Pod) -> str | None:
    """Return the Pod's hostname in the Service's DNS domain; None if it has none."""
    is_in_domain = pod.spec.subdomain == service.metadata.name and pod.metadata.namespace == service.metadata.namespace
    return pod.spec.hostname if pod.spec.hostname and is_in_domain else None


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """Return the Pod's port for a port of the Service; None if the Pod has no port of that name."""
    target = port.target_port
    if target is None or target == 0:
        return port.port
    if isinstance(target, int):
        return target
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    containers = (*pod.spec.containers, *sidecars)
    named = (each for container in containers for each in container.ports if each.name == target)
    return next((each.container_port for each in named if (each.protocol or "TCP") == (port.protocol or "TCP")), None)
