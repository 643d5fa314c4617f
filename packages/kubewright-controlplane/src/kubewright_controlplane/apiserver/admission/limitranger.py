"""LimitRanger: defaults and limits for the resources of Pods and claims in a namespace.

Follows k8s.io/kubernetes plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, is_resize, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

Amounts: TypeAlias = Mapping[str, Any]

_ANNOTATION: Final = "kubernetes.io/limit-ranger"


class LimitRanger(Plugin):
    name = "LimitRanger"
    only_for = ("pods", "persistentvolumeclaims")

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if concerns(attributes, "pods", "CREATE") or is_resize(attributes):
            assert attributes.object is not None
            for item in self._items(attributes, "Container"):
                _set_defaults(attributes.object, item)

    def validate(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None or not attributes.namespace:
            return
        errors: list[str] = []
        if concerns(attributes, "pods", "CREATE") or is_resize(attributes):
            for item in self._items(attributes, "Container"):
                for container in _containers(obj):
                    errors += _errors(item, container.get("resources") or {})
            for item in self._items(attributes, "Pod"):
                errors += _errors(item, pod_total(obj))
        elif concerns(attributes, "persistentvolumeclaims", "CREATE", "UPDATE"):
            requests = {"requests": (obj["spec"].get("resources") or {}).get("requests") or {}}
            for item in self._items(attributes, "PersistentVolumeClaim"):
                errors += _errors({**item, "max": {}}, requests)
                errors += _request_errors(item, requests["requests"])
        if errors:
            raise rejection(attributes, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def _items(self, attributes: Attributes, kind: str) -> Iterator[JSONObject]:
        for limit_range in self._resources.registry("limitranges").read_all(attributes.namespace):
            for item in (limit_range.get("spec") or {}).get("limits") or ():
                if item.get("type") == kind:
                    yield item


def _containers(pod: JSONObject) -> list[JSONObject]:
    return [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]


def _set_defaults(pod: JSONObject, item: JSONObject) -> None:
    notes: list[str] = []
    for sort in ("containers", "initContainers"):
        for container in pod["spec"].get(sort) or ():
            what = f"{'container' if sort == 'containers' else 'init container'} {container.get('name', '')}"
            resources: JSONObject = container.setdefault("resources", {})
            for field, source, noun in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                given: JSONObject = resources.get(field) or {}
                added = {name: value for name, value in (item.get(source) or {}).items() if name not in given}
                if added:
                    resources[field] = {**given, **added}
                    notes.append(f"{', '.join(sorted(added))} {noun} for {what}")
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def _errors(item: JSONObject, resources: JSONObject) -> list[str]:
    kind = item["type"]
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    errors: list[str] = []
    for name, value in (item.get("min") or {}).items():
        errors += _bound("minimum", kind, name, value, requests, limits)
    for name, value in (item.get("max") or {}).items():
        errors += _bound("maximum", kind, name, value, limits, requests)
    return errors


def _bound(word: str, kind: str, name: str, bound: Any, first: Amounts, second: Amounts) -> list[str]:
    """Check a minimum, which requires a request, or a maximum, which requires a limit. Each applies to both amounts."""
    nouns = ("request", "limit") if word == "minimum" else ("limit", "request")
    enforced = Quantity.of(bound)
    text = f"{word} {name} usage per {kind} is {enforced}"
    if name not in first:
        return [f"{text}.  No {nouns[0]} is specified"]
    for noun, amounts in zip(nouns, (first, second), strict=True):
        if name not in amounts:
            continue
        amount = Quantity.of(amounts[name])
        if amount < enforced if word == "minimum" else amount > enforced:
            return [f"{text}, but {noun} is {amount}"]
    return []


def _request_errors(item: JSONObject, requests: Amounts) -> list[str]:
    """Check the maximum of a claim against its request."""
    errors: list[str] = []
    for name, value in (item.get("max") or {}).items():
        enforced = Quantity.of(value)
        text = f"maximum {name} usage per {item['type']} is {enforced}"
        if name not in requests:
            errors.append(f"{text}.  No request is specified")
        elif Quantity.of(requests[name]) > enforced:
            errors.append(f"{text}, but request is {Quantity.of(requests[name])}")
    return errors


def pod_total(pod: JSONObject) -> JSONObject:
    """Return the total resources of a Pod's containers. An init container counts if it needs more than all of them."""
    total: dict[str, dict[str, Quantity]] = {"requests": {}, "limits": {}}
    for field, sums in total.items():
        for container in pod["spec"].get("containers") or ():
            for name, value in ((container.get("resources") or {}).get(field) or {}).items():
                sums[name] = sums.get(name, Quantity(0)) + Quantity.of(value)
        for container in pod["spec"].get("initContainers") or ():
            for name, value in ((container.get("resources") or {}).get(field) or {}).items():
                sums[name] = max(sums.get(name, Quantity(0)), Quantity.of(value))
    return {field: {name: str(value) for name, value in sums.items()} for field, sums in total.items()}
