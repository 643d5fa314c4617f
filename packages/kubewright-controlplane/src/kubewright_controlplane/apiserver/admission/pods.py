"""Plugins that complete a Pod: Priority, DefaultTolerationSeconds, RuntimeClass, PodTopologyLabels.

Follows k8s.io/kubernetes plugin/pkg/admission/{priority,defaulttolerationseconds,runtimeclass,podtopologylabels}.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS: Final = 300
_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class Priority(Plugin):
    """Sets a Pod's priority to the value of its PriorityClass."""

    name = "Priority"
    only_for = ("pods", _PRIORITY_CLASSES)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if concerns(attributes, "pods", "UPDATE"):
            self._keep(attributes)
        if not concerns(attributes, "pods", "CREATE"):
            return
        assert attributes.object is not None
        spec = attributes.object["spec"]
        name, value, policy = self._class_of(attributes, spec.get("priorityClassName") or "")
        if name:
            spec["priorityClassName"] = name
        if spec.get("priority") not in (None, value):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise rejection(attributes, why)
        if spec.get("preemptionPolicy") not in (None, policy):
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise rejection(attributes, why)
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def validate(self, attributes: Attributes) -> None:
        """Reject a second PriorityClass with globalDefault."""
        if not concerns(attributes, _PRIORITY_CLASSES, "CREATE", "UPDATE"):
            return
        assert attributes.object is not None
        if not attributes.object.get("globalDefault"):
            return
        present = self._global_default()
        if present is not None and present["metadata"]["name"] != attributes.object["metadata"]["name"]:
            why = (
                f"PriorityClass {present['metadata']['name']} is already marked as globalDefault. "
                "Only one globalDefault can exist"
            )
            raise rejection(attributes, why)

    def _keep(self, attributes: Attributes) -> None:
        assert attributes.object is not None
        assert attributes.old_object is not None
        new, old = attributes.object["spec"], attributes.old_object["spec"]
        for field in ("priority", "preemptionPolicy"):
            if new.get(field) is None and old.get(field) is not None:
                new[field] = old[field]

    def _class_of(self, attributes: Attributes, name: str) -> tuple[str, int, str]:
        if name:
            found = self._resources.registry(_PRIORITY_CLASSES).read(name)
            if found is None:
                raise rejection(attributes, f"no PriorityClass with name {name} was found")
        else:
            found = self._global_default()
            if found is None:
                return "", 0, "PreemptLowerPriority"
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        return found["metadata"]["name"], found.get("value") or 0, policy

    def _global_default(self) -> JSONObject | None:
        everybodys = [
            each for each in self._resources.registry(_PRIORITY_CLASSES).read_all() if each.get("globalDefault")
        ]
        return min(everybodys, key=lambda each: int(each.get("value") or 0), default=None)


class DefaultTolerationSeconds(Plugin):
    """Adds tolerations that keep a Pod for five minutes on a node that is not ready or unreachable."""

    name = "DefaultTolerationSeconds"
    only_for = ("pods",)

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "pods", "CREATE", "UPDATE"):
            return
        assert attributes.object is not None
        spec = attributes.object["spec"]
        tolerations: list[JSONObject] = spec.get("tolerations") or []
        missing = [key for key in _NOT_READY if not any(_tolerates(each, key) for each in tolerations)]
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
            for key in missing
        ]
        if added:
            spec["tolerations"] = [*tolerations, *added]


class RuntimeClass(Plugin):
    """Sets a Pod's overhead and scheduling constraints to those of its RuntimeClass."""

    name = "RuntimeClass"
    only_for = ("pods",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "pods", "CREATE"):
            return
        assert attributes.object is not None
        spec = attributes.object["spec"]
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self._resources.registry(_RUNTIME_CLASSES).read(name)
        if found is None:
            raise rejection(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead:
            if spec.get("overhead") not in (None, overhead):
                why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                raise rejection(attributes, why)
            spec["overhead"] = overhead
        self._place(attributes, spec, found.get("scheduling") or {})

    def _place(self, attributes: Attributes, spec: JSONObject, scheduling: JSONObject) -> None:
        selector = spec.get("nodeSelector") or {}
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                why = (
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}"
                )
                raise rejection(attributes, why)
            selector = {**selector, key: value}
        if selector:
            spec["nodeSelector"] = selector
        tolerations = spec.get("tolerations") or []
        added = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
        if added:
            spec["tolerations"] = [*tolerations, *added]


class PodTopologyLabels(Plugin):
    """Copies zone and region of a node to the labels of a Pod that is bound to it."""

    name = "PodTopologyLabels"
    only_for = ("pods",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource not in ("", "binding"):
            return
        obj = attributes.object
        assert obj is not None
        target = obj.get("target") or {}
        is_node = not attributes.subresource or target.get("kind") == "Node"
        node = (target.get("name") if attributes.subresource else obj["spec"].get("nodeName")) if is_node else None
        registry = self._resources.registry("nodes")
        if not node or not registry.has(node):
            return
        labels = registry.entry(node).labels
        copied = {key: labels[key] for key in _TOPOLOGY if key in labels}
        if copied:
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **copied}


def _tolerates(toleration: JSONObject, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")
