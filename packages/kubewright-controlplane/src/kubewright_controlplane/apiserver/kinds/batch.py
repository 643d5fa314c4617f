"""Strategies of batch: Jobs and CronJobs. Follows k8s.io/kubernetes pkg/registry/batch and pkg/apis/batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright.machinery import cron
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.kinds import jobspec, jobstatus
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import podwarnings
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_FIXED: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_PLACEMENT: Final = ("nodeSelector", "tolerations", "schedulingGates")
_UNLIMITED: Final = 2**31 - 1
_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_MAX_CRONJOB_NAME: Final = 52
_ZONE_PART: Final = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}")
_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"jobs": JobStrategy(), "cronjobs": CronJobStrategy()}


class JobStrategy(Strategy):
    selectable_fields = ("status.successful",)
    unselectable = 'field label "{}" not supported for Job'

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        _default_job_spec(spec)
        _label(obj)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
            _label(obj)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = jobspec.spec_errors("spec", spec)
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        errors += checks.label_selector("spec.selector", spec.get("selector"))
        return errors + workload.match_errors(spec, spec["template"])

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return _generated_selector_errors(obj) + jobspec.name_errors(obj)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _update_errors(obj, old)

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return jobstatus.update_errors(obj, old)

    def before_delete(self, obj: JSONObject, attributes: Attributes) -> None:
        """Jobs are the only kind that orphans its dependents by default, for compatibility with the first Jobs."""
        options = attributes.options or {}
        if options.get("propagationPolicy") or options.get("orphanDependents") is not None:
            return
        attributes.warnings.append(_ORPHANS)
        finalizers: list[str] = obj["metadata"].setdefault("finalizers", [])
        if not {"orphan", "foregroundDeletion"}.intersection(finalizers):
            finalizers.append("orphan")

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded") or 0)}


class CronJobStrategy(Strategy):
    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        workload.default_template(template.setdefault("spec", {}))

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec, errors = obj["spec"], list[FieldError]()
        if len(obj["metadata"]["name"]) > _MAX_CRONJOB_NAME:
            why = f"must be no more than {_MAX_CRONJOB_NAME} characters"
            errors.append(invalid("metadata.name", obj["metadata"]["name"], why))
        schedule = spec.get("schedule") or ""
        if not schedule:
            errors.append(required("spec.schedule"))
        elif "TZ" in schedule:
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, why))
        else:
            errors += _schedule_errors(schedule)
        errors += _time_zone_errors(spec.get("timeZone"))
        policies = ("Allow", "Forbid", "Replace")
        errors += checks.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
        job = spec["jobTemplate"]["spec"]
        if job.get("selector") is not None:
            path = "spec.jobTemplate.spec.selector"
            errors.append(invalid(path, job["selector"], "`selector` will be auto-generated"))
        if job.get("manualSelector"):
            errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
        errors += jobspec.spec_errors("spec.jobTemplate.spec", job)
        for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            errors += checks.non_negative(f"spec.{field}", spec.get(field))
        return errors

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old, "spec.jobTemplate.spec")


def _time_zone_errors(zone: str | None) -> list[FieldError]:
    path = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = [invalid(path, zone, f"unknown time zone {zone}")]
    if not all(_ZONE_PART.fullmatch(part) and part not in (".", "..") for part in zone.split("/")):
        return unknown
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, why)]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return unknown
    return []


def _default_job_spec(spec: JSONObject) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _UNLIMITED)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    workload.default_template(spec)


def _label(job: JSONObject) -> None:
    """Copy the labels of the Pods to a Job without labels. They are the same dict, so that the selector's additions
    show.
    """
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = labels


def _generate_selector(job: JSONObject) -> None:
    """Set a selector and Pod labels that no other Job has, because they contain its uid."""
    metadata, spec = job["metadata"], job["spec"]
    labels: dict[str, str] = spec["template"]["metadata"].setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels.setdefault(f"{prefix}job-name", metadata["name"])
        labels.setdefault(f"{prefix}controller-uid", metadata["uid"])
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_UID_LABEL, metadata["uid"])


def _generated_selector_errors(job: JSONObject) -> list[FieldError]:
    """Return the errors of labels that contradict a selector which the server generates."""
    metadata, spec = job["metadata"], job["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels: dict[str, str] = (spec["template"].get("metadata") or {}).get("labels") or {}
    expected: dict[str, str] = {}
    for prefix in ("", "batch.kubernetes.io/"):
        expected[f"{prefix}controller-uid"] = metadata.get("uid") or ""
        expected[f"{prefix}job-name"] = metadata.get("name") or ""
    errors: list[FieldError] = []
    for key, value in expected.items():
        at, why = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            errors.append(required(at, why))
        elif labels[key] != value:
            errors.append(invalid(at, labels, why))
    selector: JSONObject = spec["selector"]
    if not checks.label_selector("", selector) and not Selector.from_dict(selector).matches(expected):
        errors.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def _schedule_errors(schedule: str) -> list[FieldError]:
    try:
        cron.parse(schedule)
    except ValueError as error:
        return [invalid("spec.schedule", schedule, str(error))]
    return []


def _update_errors(job: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of the change from `old` to `job`.

    Little may change, except for scheduling and resources while the Job is suspended (ValidateJobSpecUpdate, KEP-2926
    and KEP-5440).
    """
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
