"""The views that any kind may have: its status and its scale.

Follows the status strategies of kube-apiserver and k8s.io/apiextensions-apiserver's scale subresource.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject, is_object
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.registry.model import Attributes, View
from kubewright_controlplane.schema.structural.schema import Schema

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")

Path = tuple[str, ...]


@cache
def document_schema(kind: GroupVersionKind) -> Schema:
    """Return the schema of a document that is not an object of a resource, such as a Scale or an Eviction."""
    return Schema.from_openapi(catalog.schema_ref(kind), catalog.components())


@dataclass(frozen=True)
class StatusView(View):
    """Writes only the status; for a built-in kind also labels, annotations and other metadata."""

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        new = {key: value for key, value in old.items() if key != "status"}
        if attributes.resource.custom:
            metadata = view["metadata"]
            new["metadata"] = old["metadata"] | {"resourceVersion": metadata.get("resourceVersion") or ""}
            if "managedFields" in metadata:
                new["metadata"]["managedFields"] = metadata["managedFields"]
        else:
            fixed = attributes.resource.strategy.metadata_without_status
            given = {key: value for key, value in view["metadata"].items() if key not in fixed}
            new["metadata"] = given | {key: old["metadata"][key] for key in fixed if key in old["metadata"]}
        if "status" in view:
            new["status"] = view["status"]
        return new


def selector_text(selector: Any) -> str:
    """Return a `spec.selector` as text. It may be a map of labels or a LabelSelector."""
    if not is_object(selector):
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return str(Selector.from_dict(selector))
    return str(Selector.from_labels(selector))


def _own_selector(obj: JSONObject) -> str:
    return selector_text(_at(obj, ("spec", "selector")))


@dataclass(frozen=True)
class ScaleView(View):
    """The replicas of an object as an autoscaling/v1 Scale. The paths say where the object stores them."""

    kind: GroupVersionKind | None = SCALE
    replicas: Path = ("spec", "replicas")
    status_replicas: Path = ("status", "replicas")
    selector: Callable[[JSONObject], str] = _own_selector

    def read(self, obj: JSONObject) -> JSONObject:
        metadata = obj["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        replicas = _at(obj, self.replicas)
        scale: JSONObject = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in kept if key in metadata},
            "spec": {"replicas": replicas} if replicas else {},
            "status": {"replicas": _at(obj, self.status_replicas) or 0},
        }
        if selector := self.selector(obj):
            scale["status"]["selector"] = selector
        return scale

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        metadata = view["metadata"]
        new: JSONObject = old | {"metadata": dict(old["metadata"])}
        for key in ("resourceVersion", "uid"):
            if metadata.get(key):
                new["metadata"][key] = metadata[key]
        parent = new
        for part in self.replicas[:-1]:
            child: JSONObject = dict(parent.get(part) or {})
            parent[part] = child
            parent = child
        parent[self.replicas[-1]] = _at(view, ("spec", "replicas")) or 0
        return new

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        replicas: object = _at(obj, self.replicas)
        if isinstance(replicas, int) and replicas < 0:
            return [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        return []


def _at(obj: Any, path: Path) -> Any:
    for part in path:
        if not is_object(obj):
            return None
        obj = obj.get(part)
    return obj
