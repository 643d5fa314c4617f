"""The subresource `resize` of a Pod: changes CPU and memory of its containers while they run.

Follows k8s.io/kubernetes pkg/registry/core/pod/strategy.go and ValidatePodResize in pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import podspec
from kubewright_controlplane.apiserver.kinds.core.podsubresources import MIRROR, VERSIONING
from kubewright_controlplane.apiserver.kinds.core.qos import qos_class
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, View

_KINDS: Final = ("containers", "initContainers")
_RESIZABLE: Final = ("cpu", "memory")


@dataclass(frozen=True)
class Resize(View):
    """Changes the resources and the resize policies of containers. Other changes are ignored."""

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        kept = {**old["metadata"], **{key: view["metadata"][key] for key in VERSIONING if key in view["metadata"]}}
        return {**old, "metadata": kept, "spec": _resized(view.get("spec") or {}, old["spec"])}

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or {}):
            return [forbidden("[]", "static pods cannot be resized")]
        if (old["spec"].get("os") or {}).get("name") == "windows":
            return [forbidden("[]", "windows pods cannot be resized")]
        new_spec, old_spec, status = obj["spec"], old["spec"], old.get("status") or {}
        errors = podspec.validate("spec", new_spec, pod_name=obj["metadata"]["name"])
        if (status.get("qosClass") or qos_class(old_spec)) != qos_class(new_spec):
            why = "Pod QOS Class may not change as a result of resizing"
            errors.append(invalid("spec", status.get("qosClass") or "", why))
        if not _reports_resources(status):
            errors.append(forbidden("spec", "Pod running on node without support for resize"))
        errors += _pod_level_errors(new_spec.get("resources"), old_spec.get("resources"))
        if order := _order_errors(new_spec, old_spec):
            return errors + order
        for kind in reversed(_KINDS):
            for index, (new, before) in enumerate(_pairs(kind, new_spec, old_spec)):
                path = f"spec.{kind}[{index}].resources"
                errors += _removal_errors(path, "resource", new.get("resources"), before.get("resources"))
        errors += _container_errors(new_spec, old_spec)
        return errors


def _resized(new: JSONObject, old: JSONObject) -> JSONObject:
    """Return the old spec with the resources of the new one; the new one if containers were added or removed."""
    if any(len(new.get(kind) or ()) != len(old.get(kind) or ()) for kind in _KINDS):
        return new
    spec = _with("resources", new, old)
    for kind in _KINDS:
        pairs = list(_pairs(kind, new, old))
        if all(given["name"] == before["name"] for given, before in pairs) and pairs:
            spec[kind] = [_with("resizePolicy", given, _with("resources", given, before)) for given, before in pairs]
        elif pairs:
            spec[kind] = new[kind]
    return spec


def _with(key: str, source: JSONObject, target: JSONObject) -> JSONObject:
    """Return `target` with one field as `source` has it."""
    rest = {name: value for name, value in target.items() if name != key}
    return {**rest, key: source[key]} if key in source else rest


def _pairs(kind: str, new: JSONObject, old: JSONObject) -> Iterator[tuple[JSONObject, JSONObject]]:
    given: JSONArray = new.get(kind) or []
    yield from zip(given, old.get(kind) or (), strict=True)


def _reports_resources(status: JSONObject) -> bool:
    """Return whether the first container that runs reports its resources, as kubelets do that can resize."""
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _order_errors(new: JSONObject, old: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for kind in _KINDS:
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            errors.append(forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize"))
            continue
        errors += [
            forbidden(f"spec.{kind}[{index}].name", f"{kind} may not be renamed or reordered on resize")
            for index, (given, before) in enumerate(_pairs(kind, new, old))
            if given.get("name") != before.get("name")
        ]
    return errors


def _pod_level_errors(new: JSONObject | None, old: JSONObject | None) -> list[FieldError]:
    """Return what is wrong with a change of the resources of the whole Pod."""
    if not any((each or {}).get(part) for each in (new, old) for part in ("requests", "limits")):
        return []
    if old is not None and new is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = [] if old is None else _removal_errors("spec.resources", "pod-level resource", new, old)
    if not checks.same(_fixed(new), _fixed(old)):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _removal_errors(path: str, what: str, new: JSONObject | None, old: JSONObject | None) -> list[FieldError]:
    return [
        forbidden(f"{path}.{part}", f"{what} {part} cannot be removed")
        for part in ("requests", "limits")
        if ((old or {}).get(part) or {}).keys() - ((new or {}).get(part) or {}).keys()
    ]


def _container_errors(new: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return what else differs than CPU and memory."""
    errors = [
        forbidden("spec", "only cpu and memory resources are mutable")
        for given, before in _pairs("containers", new, old)
        if not _differs_in_size_only(given, before)
    ]
    for index, (given, before) in enumerate(_pairs("initContainers", new, old)):
        path = f"spec.initContainers[{index}]"
        if not _differs_in_size_only(given, before):
            errors.append(forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
        if not checks.same(given, before) and given.get("restartPolicy") != "Always":
            why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            policies = given.get("resizePolicy") or ()
            errors += [forbidden(path, why) for each in policies if each.get("restartPolicy") == "RestartContainer"]
    return errors


def _differs_in_size_only(new: JSONObject, old: JSONObject) -> bool:
    fixed = ({**each, "resources": _fixed(each.get("resources"))} for each in (new, old))
    return checks.same(*fixed)


def _fixed(resources: JSONObject | None) -> JSONObject:
    """Return the resources that a resize may not change."""
    return {
        part: {name: value for name, value in amounts.items() if name not in _RESIZABLE}
        for part, amounts in (resources or {}).items()
        if part in ("requests", "limits")
    }
