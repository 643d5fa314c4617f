"""PodResizeValidator: rejects the resize of a Pod that its node could never run.

Follows k8s.io/kubernetes plugin/pkg/admission/podresize.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubewright.machinery.errors import Forbidden, StatusCause, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.limitranger import pod_total
from kubewright_controlplane.apiserver.admission.plugin import Plugin, is_resize, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


class PodResizeValidator(Plugin):
    name = "PodResizeValidator"
    only_for = ("pods",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def validate(self, attributes: Attributes) -> None:
        pod, old = attributes.object, attributes.old_object
        if not is_resize(attributes) or pod is None or old is None:
            return
        name = pod["spec"].get("nodeName")
        if not name or pod["spec"] == old["spec"]:
            return
        node = self._resources.registry("nodes").read(name)
        if node is None:
            raise rejection(attributes, f'node "{name}" not found')
        os = (node["metadata"].get("labels") or {}).get("kubernetes.io/os", "linux")
        if os != "linux":
            why = f'pod resize is only supported on linux nodes, node "{name}" is "{os}"'
            raise _rejected(attributes, why, "UnsupportedPlatform")
        if missing := _missing(pod, (node.get("status") or {}).get("allocatable") or {}):
            why = f"node didn't have enough allocatable resources: {missing}"
            raise _rejected(attributes, why, "NodeCapacity")


def _rejected(attributes: Attributes, why: str, reason: str) -> Forbidden:
    status = rejection(attributes, why).status
    details = replace(status.details or StatusDetails(), causes=(StatusCause(reason, ""),))
    return Forbidden(status.message, details=details)


def _missing(pod: JSONObject, allocatable: JSONObject) -> str:
    """Return which requests of a Pod exceed what its node has."""
    requests = pod_total(pod)["requests"]
    cpu, memory = (
        [Quantity.of(amounts.get(name, "0")) for amounts in (requests, allocatable)] for name in ("cpu", "memory")
    )
    found: list[str] = []
    if cpu[0] > cpu[1]:
        found.append(f"cpu, requested: {cpu[0].milli_value}, allocatable: {cpu[1].milli_value}")
    if memory[0] > memory[1]:
        found.append(f"memory, requested: {memory[0].value}, allocatable: {memory[1].value}")
    return "; ".join(found)
