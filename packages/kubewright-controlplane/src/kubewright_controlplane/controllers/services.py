"""What Services select: the pods behind one, the Services in front of a pod, and the ports between them.

Follows k8s.io/endpointslice/util.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.apis.core.v1 import Pod, Service, ServicePort
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.cache._lister import Lister
from kubewright.controllers import Context, Request, Watch
from kubewright_controlplane.controllers.pods import is_finished
from kubewright_controlplane.controllers.selection import by_demand, matching, selecting
from kubewright_controlplane.kubelet.addresses import LOOPBACK


def by_selector(service: Service) -> Iterable[str]:
    """Index function of Services: the pods that they select."""
    selector = service.spec.selector
    return [by_demand(service.metadata.namespace, selector)] if selector else ()


def _in_front(pod: Pod, services: Lister[Service]) -> Iterable[Request]:
    labels = pod.metadata.labels.items()
    for service in selecting(pod, services):
        if service.spec.selector.items() <= labels:
            yield Request(service.metadata.namespace, service.metadata.name)


BEHIND = Watch.mapped(Pod, _in_front)
"""For controllers of Services with an index `SELECTOR`: a pod concerns the Services that select it."""


async def pods_behind(ctx: Context[Service]) -> list[Pod]:
    """Pods that the Service selects, that have an address and are not finished; in the order of their names.

    The loopback address is none that could be an endpoint: Pods that are processes have it where there are no others.
    """
    found = await matching(ctx, Pod, LabelSelector(match_labels=ctx.object.spec.selector))
    return [pod for pod in found if pod.status.pod_ip not in (None, "", LOOPBACK) and not is_finished(pod)]


def is_managed(service: Service) -> bool:
    """Its addresses are found by its selector, and not given by somebody else."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def hostname_of(service: Service, pod: Pod) -> str | None:
    """The name by which DNS knows the pod below the Service, where it has one."""
    same = pod.spec.subdomain == service.metadata.name and pod.metadata.namespace == service.metadata.namespace
    return pod.spec.hostname if pod.spec.hostname and same else None


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """The pod's port for one of the Service's; None when it is meant by a name that the pod does not have."""
    target = port.target_port
    if target is None or target == 0:
        return port.port
    if isinstance(target, int):
        return target
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    containers = (*pod.spec.containers, *sidecars)
    named = (each for container in containers for each in container.ports if each.name == target)
    return next((each.container_port for each in named if (each.protocol or "TCP") == (port.protocol or "TCP")), None)
