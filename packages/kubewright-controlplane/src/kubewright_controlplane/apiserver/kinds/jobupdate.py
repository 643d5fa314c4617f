"""Updates of Jobs: little may change, except for scheduling and resources while the Job is suspended.

Follows k8s.io/kubernetes pkg/apis/batch/validation (ValidateJobSpecUpdate), KEP-2926 and KEP-5440.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks

_FIXED: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_PLACEMENT: Final = ("nodeSelector", "tolerations", "schedulingGates")


def faults(job: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the faults of the change from `old` to `job`."""
    now, before = job["spec"], old["spec"]
    found = _completions(now, before)
    found += checks.immutable("spec.selector", now.get("selector"), before.get("selector"))
    found += _template(now["template"], before["template"], suspended=_is_suspended(old))
    for field in _FIXED:
        found += checks.immutable(f"spec.{field}", now.get(field), before.get(field))
    return found


def _completions(now: JSONObject, before: JSONObject) -> list[FieldError]:
    new, old = now.get("completions"), before.get("completions")
    if now.get("completionMode") != "Indexed":
        return checks.immutable("spec.completions", new, old)
    if new in (None, old, now.get("parallelism")):
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def _is_suspended(job: JSONObject) -> bool:
    """Return whether the Job's controller has confirmed that no Pod of the Job is running."""
    status = job.get("status") or {}
    seen = any(each["type"] == "Suspended" and each["status"] == "True" for each in status.get("conditions") or ())
    return bool(job["spec"].get("suspend") and seen and not status.get("active"))


def _template(now: JSONObject, before: JSONObject, *, suspended: bool) -> list[FieldError]:
    if not suspended:
        return checks.immutable("spec.template", now, before)
    pod, old = now["spec"], before["spec"]
    allowed = {**old, **{field: pod.get(field) for field in _PLACEMENT}}
    allowed["affinity"] = _with_node_affinity(old.get("affinity"), pod.get("affinity"))
    for field in ("containers", "initContainers"):
        allowed[field] = _with_resources(old.get(field) or [], pod.get(field) or [])
    return checks.immutable("spec.template.spec", pod, allowed)


def _with_node_affinity(old: JSONObject | None, new: JSONObject | None) -> JSONObject:
    return {**(old or {}), "nodeAffinity": (new or {}).get("nodeAffinity")}


def _with_resources(old: list[JSONObject], new: list[JSONObject]) -> list[JSONObject]:
    if [each["name"] for each in old] != [each["name"] for each in new]:
        return old
    return [{**was, "resources": now.get("resources")} for was, now in zip(old, new, strict=True)]
