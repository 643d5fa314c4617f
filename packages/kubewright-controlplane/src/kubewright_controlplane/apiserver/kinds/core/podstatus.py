"""The errors of the status of a Pod, and of a change of it.

Follows k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses
from kubewright_controlplane.apiserver.registry import checks

_WITHOUT_RULE: Final = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_LISTS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_MAX_INT32: Final = 2**31 - 1


def update_errors(pod: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of the status of `pod`, which replaces that of `old`."""
    now, before = pod.get("status") or {}, old.get("status") or {}
    errors = _condition_errors(now.get("conditions") or [])
    errors += _nomination_errors(now.get("nominatedNodeName") or "", before, old.get("spec") or {})
    errors += _generation_errors("status", now)
    errors += checks.immutable("status.qosClass", now.get("qosClass"), before.get("qosClass"))
    errors += _transition_errors(now, before, pod.get("spec") or {})
    errors += _address_errors("status.podIPs", now.get("podIPs") or [])
    errors += _host_errors(now)
    for field in _LISTS:
        for index, status in enumerate(now.get(field) or ()):
            errors += _user_errors(f"status.{field}[{index}].user.linux", (status.get("user") or {}).get("linux") or {})
    return errors


def _condition_errors(conditions: JSONArray) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        at, kind = f"status.conditions[{index}]", condition.get("type") or ""
        errors += _generation_errors(at, condition)
        if kind not in _WITHOUT_RULE:
            errors += checks.named(f"{at}.Type", kind, names.qualified_name)
    return errors


def _generation_errors(path: str, value: JSONObject) -> list[FieldError]:
    generation = value.get("observedGeneration") or 0
    return [invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE)] if generation < 0 else []


def _nomination_errors(node: str, before: JSONObject, spec: JSONObject) -> list[FieldError]:
    path = "status.nominatedNodeName"
    if not node or node == before.get("nominatedNodeName"):
        return []
    errors = checks.named(path, node, names.dns1123_subdomain)
    if spec.get("nodeName"):
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


def _address_errors(path: str, ips: JSONArray) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, each in enumerate(ips):
        errors += addresses.ip_errors(f"{path}[{index}]", each.get("ip") or "")
    if not errors and len({addresses.version(each["ip"]) for each in ips}) < len(ips):
        shown = [{"IP": each["ip"]} for each in ips]
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


def _host_errors(status: JSONObject) -> list[FieldError]:
    ips: JSONArray = status.get("hostIPs") or []
    errors: list[FieldError] = []
    if ips and ips[0].get("ip") != status.get("hostIP"):
        errors.append(invalid("status.hostIPs[0].ip", ips[0].get("ip") or "", "must be equal to `hostIP`"))
    return errors + _address_errors("status.hostIPs", ips)


def _user_errors(path: str, user: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("uid", "gid"):
        errors += checks.between(f"{path}.{field}", user.get(field), 0, _MAX_INT32)
    for index, group in enumerate(user.get("supplementalGroups") or ()):
        errors += checks.between(f"{path}.supplementalGroups[{index}]", group, 0, _MAX_INT32)
    return errors


def _transition_errors(now: JSONObject, before: JSONObject, spec: JSONObject) -> list[FieldError]:
    """Return the errors of containers that run again although their restart policy forbids it."""
    containers = {each.get("name"): each for each in spec.get("containers") or ()}
    if any(rule.get("action") == "RestartAllContainers" for each in containers.values() for rule in _rules(each)):
        return []
    states = {each.get("name"): each.get("state") or {} for each in now.get("containerStatuses") or ()}
    errors: list[FieldError] = []
    for index, status in enumerate(before.get("containerStatuses") or ()):
        ended, name = (status.get("state") or {}).get("terminated"), status.get("name")
        if ended is None or name not in states or states[name].get("terminated") is not None:
            continue
        container = containers.get(name)
        if container is None or not _may_restart(container, spec, ended.get("exitCode") or 0):
            why = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"status.containerStatuses[{index}].state", why))
    return errors


def _rules(container: JSONObject) -> Iterator[JSONObject]:
    yield from container.get("restartPolicyRules") or ()


def _may_restart(container: JSONObject, spec: JSONObject, code: int) -> bool:
    for rule in _rules(container):
        codes: JSONObject = rule.get("exitCodes") or {}
        if rule.get("action") == "Restart" and (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)
