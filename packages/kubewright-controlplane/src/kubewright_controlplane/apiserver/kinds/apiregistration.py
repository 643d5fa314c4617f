"""Strategies of apiregistration.k8s.io: APIServices.

Follows k8s.io/kube-aggregator pkg/registry/apiservice and pkg/apis/apiregistration/validation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import names, time
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy
from kubewright_controlplane.apiserver.registry.objects import set_condition

_LOCAL: Final = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
_MAX_GROUP_PRIORITY: Final = 20000
_MAX_VERSION_PRIORITY: Final = 1000


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"apiservices": APIServiceStrategy(server.options.clock)}


class APIServiceStrategy(PlainStrategy):
    allow_unconditional_update = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def default(self, obj: JSONObject) -> None:
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}
        if (obj.get("spec") or {}).get("service") is None:
            set_condition(obj, dict(_LOCAL), time.format(self._clock.now()))

    def name_errors(self, name: str) -> list[str]:
        return list(names.path_segment(name))

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj.get("spec") or {}
        return [*_name_errors(obj["metadata"]["name"], spec), *_version_errors(spec), *_server_errors(spec)]

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
            status = condition.get("status") or ""
            if status not in ("True", "False", "Unknown"):
                path = f"status.conditions[{index}].status"
                errors.append(not_supported(path, status, ("True", "False", "Unknown")))
        return errors


def _name_errors(name: str, spec: JSONObject) -> list[FieldError]:
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if name == wanted or names.path_segment(name):
        return []
    return [invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')]


def _version_errors(spec: JSONObject) -> list[FieldError]:
    group, version = spec.get("group") or "", spec.get("version") or ""
    errors: list[FieldError] = []
    if not group and version != "v1":
        errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        errors += checks.named("spec.group", group, names.dns1123_subdomain)
    errors += checks.named("spec.version", version, names.dns1035_label)
    errors += _priority_errors("spec.groupPriorityMinimum", spec, _MAX_GROUP_PRIORITY)
    return errors + _priority_errors("spec.versionPriority", spec, _MAX_VERSION_PRIORITY)


def _priority_errors(path: str, spec: JSONObject, limit: int) -> list[FieldError]:
    value = spec.get(path.removeprefix("spec.")) or 0
    return [] if 0 < value <= limit else [invalid(path, value, f"must be positive and less than {limit}")]


def _server_errors(spec: JSONObject) -> list[FieldError]:
    service, ca, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if service is None:
        return _local_errors(ca, insecure)
    errors = [required(f"spec.service.{each}") for each in ("namespace", "name") if not service.get(each)]
    if wrong := names.port_number(service.get("port") or 0):
        errors.append(invalid("spec.service.port", service.get("port") or 0, f"port is not valid: {', '.join(wrong)}"))
    if insecure and ca:
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors


def _local_errors(ca: str | None, insecure: bool | None) -> list[FieldError]:
    errors: list[FieldError] = []
    if ca:
        shown = f"{len(b64decode(ca))} bytes"
        errors.append(invalid("spec.caBundle", shown, "local APIServices may not have a caBundle"))
    if insecure:
        errors.append(
            invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        )
    return errors
