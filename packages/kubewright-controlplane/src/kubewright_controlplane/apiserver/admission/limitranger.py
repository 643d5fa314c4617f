"""LimitRanger: defaults and limits for the resources of Pods and claims in a namespace.

Follows k8s.io/kubernetes plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, is_resize, rejection
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.objects import decode_json
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event

Amounts: TypeAlias = Mapping[str, Any]

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MOST_DEFAULTS: Final = 20_000
"""The number of values that one entry of a LimitRange may set in a Pod."""
_MOST_ERRORS: Final = 1_000
"""The number of errors in the answer to one write."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of `spec.limits`."""

    kind: str
    min: Mapping[str, Quantity]
    max: Mapping[str, Quantity]
    default_requests: Mapping[str, Any]
    default_limits: Mapping[str, Any]

    @classmethod
    def of(cls, item: JSONObject) -> _Item:
        def amounts(field: str) -> Mapping[str, Quantity]:
            return {name: Quantity.of(value) for name, value in (item.get(field) or {}).items()}

        return cls(
            item["type"], amounts("min"), amounts("max"), item.get("defaultRequest") or {}, item.get("default") or {}
        )


class LimitRanger(Plugin):
    name = "LimitRanger"
    only_for = ("pods", "persistentvolumeclaims")

    def __init__(self, resources: ResourceSet) -> None:
        self._items: dict[str, dict[str, tuple[_Item, ...]]] = {}
        """By the namespace and name of their LimitRange."""
        resources.observe("limitranges", self._on_commit)

    def admit(self, attributes: Attributes) -> None:
        if concerns(attributes, "pods", "CREATE") or is_resize(attributes):
            assert attributes.object is not None
            for item in self._items_of(attributes, "Container"):
                _set_defaults(attributes, attributes.object, item)

    def validate(self, attributes: Attributes) -> None:
        if attributes.object is None or not attributes.namespace:
            return
        errors = list(islice(self._errors(attributes, attributes.object), _MOST_ERRORS))
        if errors:
            raise rejection(attributes, errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def _errors(self, attributes: Attributes, obj: JSONObject) -> Iterator[str]:
        if attributes.namespace not in self._items:
            return
        if concerns(attributes, "pods", "CREATE") or is_resize(attributes):
            for item in self._items_of(attributes, "Container"):
                for container in _containers(obj):
                    yield from _errors(item, container.get("resources") or {})
            total = pod_total(obj)
            for item in self._items_of(attributes, "Pod"):
                yield from _errors(item, total)
        elif concerns(attributes, "persistentvolumeclaims", "CREATE", "UPDATE"):
            requests = (obj["spec"].get("resources") or {}).get("requests") or {}
            for item in self._items_of(attributes, "PersistentVolumeClaim"):
                yield from _claim_errors(item, requests)

    def _items_of(self, attributes: Attributes, kind: str) -> Iterator[_Item]:
        for _, items in sorted(self._items.get(attributes.namespace, {}).items()):
            yield from (each for each in items if each.kind == kind)

    def _on_commit(self, event: Event) -> None:
        namespace, name = event.entry.namespace, event.entry.name
        if event.type == "DELETED":
            self._items.get(namespace, {}).pop(name, None)
            if not self._items.get(namespace):
                self._items.pop(namespace, None)
            return
        spec: JSONObject = decode_json(event.entry.data).get("spec") or {}
        items = tuple(_Item.of(each) for each in spec.get("limits") or ())
        self._items.setdefault(namespace, {})[name] = items


def _containers(pod: JSONObject) -> list[JSONObject]:
    return [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]


def _set_defaults(attributes: Attributes, pod: JSONObject, item: _Item) -> None:
    notes: list[str] = []
    total = 0
    for sort in ("containers", "initContainers"):
        for container in pod["spec"].get(sort) or ():
            what = f"{'container' if sort == 'containers' else 'init container'} {container.get('name', '')}"
            resources: JSONObject = container.setdefault("resources", {})
            for field, source, noun in (
                ("requests", item.default_requests, "request"),
                ("limits", item.default_limits, "limit"),
            ):
                given: JSONObject = resources.get(field) or {}
                added = {name: value for name, value in source.items() if name not in given}
                total += len(source)
                if total > _MOST_DEFAULTS:
                    raise rejection(attributes, f"the defaults of a LimitRange are more than {_MOST_DEFAULTS} values")
                if added:
                    resources[field] = {**given, **added}
                    notes.append(f"{', '.join(sorted(added))} {noun} for {what}")
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def _errors(item: _Item, resources: JSONObject) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, enforced in item.min.items():
        yield from _bound("minimum", item.kind, name, enforced, requests, limits)
    for name, enforced in item.max.items():
        yield from _bound("maximum", item.kind, name, enforced, limits, requests)


def _bound(word: str, kind: str, name: str, enforced: Quantity, first: Amounts, second: Amounts) -> Iterator[str]:
    """Check a minimum, which requires a request, or a maximum, which requires a limit. Each applies to both amounts."""
    nouns = ("request", "limit") if word == "minimum" else ("limit", "request")
    text = f"{word} {name} usage per {kind} is {enforced}"
    if name not in first:
        yield f"{text}.  No {nouns[0]} is specified"
        return
    for noun, amounts in zip(nouns, (first, second), strict=True):
        if name not in amounts:
            continue
        amount = Quantity.of(amounts[name])
        if amount < enforced if word == "minimum" else amount > enforced:
            yield f"{text}, but {noun} is {amount}"
            return


def _claim_errors(item: _Item, requests: Amounts) -> Iterator[str]:
    """Check a claim. It has no limits: the maximum applies to its request."""
    for name, enforced in item.min.items():
        yield from _bound("minimum", item.kind, name, enforced, requests, {})
    for name, enforced in item.max.items():
        text = f"maximum {name} usage per {item.kind} is {enforced}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif Quantity.of(requests[name]) > enforced:
            yield f"{text}, but request is {Quantity.of(requests[name])}"


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
