"""Strategies of batch: Jobs and CronJobs. Follows k8s.io/kubernetes pkg/registry/batch and pkg/apis/batch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright.machinery import cron, names
from kubewright.machinery.fields import FieldError, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds import jobpolicies
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import podspec, podwarnings
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
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_LONGEST_MANAGER: Final = 63
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
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
        errors = _job_spec_errors("spec", spec)
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        errors += checks.label_selector("spec.selector", spec.get("selector"))
        errors += workload.match_errors(spec, spec["template"])
        return errors + _hostname_errors(obj["metadata"]["name"], spec)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        return podwarnings.workload_warnings(obj, old, obj["spec"]["template"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _update_errors(obj, old)

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
        if job.get("manualSelector"):
            errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
        errors += _job_spec_errors("spec.jobTemplate.spec", job)
        for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            errors += checks.non_negative(f"spec.{field}", spec.get(field))
        return errors

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        template, at = obj["spec"]["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template"
        if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return [*(podwarnings.name_warnings(obj) if old is None else ()), *podwarnings.template_warnings(at, template)]


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


def _hostname_errors(name: str, spec: JSONObject) -> list[FieldError]:
    """Return the error of a name that is too long for the host names of the Pods of an indexed Job."""
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) < 1:
        return []
    longest = f"{name}-{spec['completions'] - 1}"
    if not names.dns1123_label(longest):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {longest}")]


def _manager_errors(path: str, manager: str) -> list[FieldError]:
    if not manager:
        return [required(path)]
    host, _, rest = manager.partition("/")
    if not host or not rest:
        errors = [invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    else:
        errors = checks.named(path, host, names.dns1123_subdomain)
        if not re.fullmatch(_HTTP_PATH, rest):
            errors.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return [*errors, too_long(path, _LONGEST_MANAGER)] if len(manager) > _LONGEST_MANAGER else errors


def _job_spec_errors(path: str, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _COUNTS:
        errors += checks.non_negative(f"{path}.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += _manager_errors(f"{path}.managedBy", spec["managedBy"])
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        errors += jobpolicies.indexed_errors(path, spec)
    else:
        indexed = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        why = "requires indexed completion mode"
        errors += [invalid(f"{path}.{each}", spec[each], why) for each in indexed if spec.get(each) is not None]
    errors += jobpolicies.failure_policy_errors(f"{path}.podFailurePolicy", spec)
    if mode == "Indexed":
        errors += jobpolicies.success_policy_errors(f"{path}.successPolicy", spec)
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
        errors += (
            [] if replacement in allowed else [not_supported(f"{path}.podReplacementPolicy", replacement, allowed)]
        )
    template = spec.get("template") or {}
    errors += podspec.validate_template(f"{path}.template", template)
    at, policy = f"{path}.template.spec.restartPolicy", (template.get("spec") or {}).get("restartPolicy")
    if not policy or policy == "Always":
        errors.append(required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(at, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") and policy != "Never":
        errors.append(invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))
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
