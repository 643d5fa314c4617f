"""Pods: values that the server sets, and allowed changes.

Follows k8s.io/kubernetes pkg/registry/core/pod/strategy.go and pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.http.message import Handler
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import containers, podspec, podstatus, podwarnings
from kubewright_controlplane.apiserver.kinds.core.eviction import Eviction
from kubewright_controlplane.apiserver.kinds.core.podsubresources import (
    Binding,
    EphemeralContainers,
    ExecConnection,
    Log,
    PortForward,
)
from kubewright_controlplane.apiserver.kinds.core.proxying import PodProxy
from kubewright_controlplane.apiserver.kinds.core.qos import qos_class
from kubewright_controlplane.apiserver.kinds.core.resizing import Resize
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy, Subresource
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_MAY_CHANGE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_TERMINAL: Final = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    delete_answers_object = True
    default_grace_seconds = 30
    metadata_without_status = ("deletionTimestamp", "ownerReferences")
    selectable_fields = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )

    def __init__(self, resources: ResourceSet, kubelet: Handler | None) -> None:
        self._resources = resources
        self._kubelet = kubelet

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {
            "binding": Binding(resources=self._resources),
            "eviction": Eviction(resources=self._resources),
            "ephemeralcontainers": EphemeralContainers(),
            "resize": Resize(),
            "log": Log(resources=self._resources, kubelet=self._kubelet),
            "exec": ExecConnection(what="exec", resources=self._resources, kubelet=self._kubelet),
            "attach": ExecConnection(what="attach", resources=self._resources, kubelet=self._kubelet),
            "portforward": PortForward(resources=self._resources, kubelet=self._kubelet),
            "proxy": PodProxy(resources=self._resources),
        }

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        podspec.default(spec)
        spec["terminationGracePeriodSeconds"] = _not_negative(spec["terminationGracePeriodSeconds"])
        spec.setdefault("enableServiceLinks", True)
        for kind in ("containers", "initContainers"):
            for container in spec.get(kind) or ():
                _default_requests(container)
                if spec.get("hostNetwork"):
                    for port in container.get("ports") or ():
                        port.setdefault("hostPort", port.get("containerPort"))
        if obj.get("status"):
            _complete_status(obj["status"])

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        spec = obj["spec"]
        status: JSONObject = {"phase": "Pending", "qosClass": qos_class(spec)}
        obj["status"] = status
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                }
            ]

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        status = obj.setdefault("status", {})
        if not status.get("qosClass"):
            status["qosClass"] = (old.get("status") or {}).get("qosClass", "BestEffort")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = podspec.validate("spec", spec, pod_name=obj["metadata"].get("name") or "")
        errors += containers.image_whitespace("spec.containers", spec.get("containers") or [])
        errors += containers.image_whitespace("spec.initContainers", spec.get("initContainers") or [])
        if not spec.get("serviceAccountName"):
            errors += _token_errors(spec.get("volumes") or [])
        if obj["metadata"].get("generation") == 1 and "resourceVersion" not in obj["metadata"]:
            errors += _create_errors(spec)
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new_spec, old_spec = obj["spec"], old["spec"]
        if new_spec == old_spec:
            return []
        for kind in ("containers", "initContainers"):
            if len(new_spec.get(kind) or ()) != len(old_spec.get(kind) or ()):
                return [forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
        errors = _deadline_errors(new_spec, old_spec) + _gate_errors(new_spec, old_spec)
        errors += _toleration_errors(new_spec, old_spec)
        if not checks.same(_fixed(new_spec, old_spec), _fixed(old_spec, old_spec)):
            errors.append(forbidden("spec", f"pod updates may not change fields other than {_MAY_CHANGE}\n"))
        return errors

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return podstatus.update_errors(obj, old)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        wrong = names.dns1123_label(obj["metadata"]["name"]) if old is None else []
        why = (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(wrong)}]"
        )
        return [*([why] if wrong else ()), *podwarnings.template_warnings("", obj)]

    def grace_seconds(self, obj: JSONObject, asked: int | None) -> int:
        spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in _TERMINAL:
            return 0
        grace = spec.get("terminationGracePeriodSeconds") or 0 if asked is None else asked
        return 1 if grace < 0 else int(grace)

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        ips = status.get("podIPs") or ()
        return {
            "spec.nodeName": spec.get("nodeName") or "",
            "spec.restartPolicy": spec.get("restartPolicy") or "",
            "spec.schedulerName": spec.get("schedulerName") or "",
            "spec.serviceAccountName": spec.get("serviceAccountName") or "",
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase") or "",
            "status.podIP": status.get("podIP") or "",
            "status.podIPs": ",".join(each.get("ip", "") for each in ips),
            "status.nominatedNodeName": status.get("nominatedNodeName") or "",
        }


def _not_negative(seconds: int) -> int:
    """Return a grace period; the shortest one instead of a negative one."""
    return seconds if seconds >= 0 else 1


def _token_errors(volumes: JSONArray) -> list[FieldError]:
    why = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken", why)
        for index, volume in enumerate(volumes)
        for place, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]


def _complete_status(status: JSONObject) -> None:
    """Set what the status lacks: `podIPs`, and the states of containers, which are empty if they are absent."""
    single, several = status.get("podIP"), list[JSONObject](status.get("podIPs") or ())
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single:
        status["podIP"] = several[0].get("ip")
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(field) or ():
            container.setdefault("state", {})
            container.setdefault("lastState", {})


def _default_requests(container: JSONObject) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def _create_errors(spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _deadline_errors(new: JSONObject, old: JSONObject) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    now, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if before is None:
        return []
    if now is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    return [invalid(path, now, "must be less than or equal to previous value")] if now > before else []


def _gate_errors(new: JSONObject, old: JSONObject) -> list[FieldError]:
    before = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    why = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden(f"spec.schedulingGates[{index}].name", f"{why} '{name}'")
        for index, name in enumerate(gate.get("name") for gate in new.get("schedulingGates") or ())
        if name not in before
    ]


def _toleration_errors(new: JSONObject, old: JSONObject) -> list[FieldError]:
    now = new.get("tolerations") or []
    for toleration in old.get("tolerations") or ():
        if toleration not in now:
            detail = "existing toleration can not be modified except its tolerationSeconds"
            if not any(_key(each) == _key(toleration) for each in now):
                return [forbidden("spec.tolerations", detail)]
    return []


def _key(toleration: JSONObject) -> JSONObject:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _fixed(spec: JSONObject, old: JSONObject) -> JSONObject:
    """Return a spec without the fields that may change."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers")
    fixed = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [{**container, "image": ""} for container in fixed[kind]]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return fixed
