"""The errors of the status of a Job, and of a change of it.

A rule applies only if the change touches what the rule is about, so that a Job whose status was already wrong can
still be updated. Follows k8s.io/kubernetes pkg/apis/batch/validation and pkg/registry/batch/job.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.fields import OMITTED, FieldError, duplicate, invalid, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.jobspec import index_intervals
from kubewright_controlplane.apiserver.registry import checks

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_CONDITIONS: Final = "status.conditions"
_LASTING: Final = ("Failed", "Complete", "FailureTarget")


def update_errors(job: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of the status of `job`, which replaces that of `old`."""
    change = _Change(job, old)
    return [
        *_count_errors(change.now),
        *_uncounted_errors(change.now.get("uncountedTerminatedPods") or {}),
        *_condition_errors(change),
        *_time_errors(change),
        *_finished_errors(change),
        *_index_errors(change),
        *_transition_errors(change),
    ]


class _Change:
    """The status of a Job before and after a write."""

    def __init__(self, job: JSONObject, old: JSONObject) -> None:
        self.spec: JSONObject = job["spec"]
        self.now: JSONObject = job.get("status") or {}
        self.before: JSONObject = old.get("status") or {}
        self.conditions = _true_conditions(self.now)
        self.old_conditions = _true_conditions(self.before)

    def touches(self, *fields: str) -> bool:
        return any(not checks.same(self.now.get(field), self.before.get(field)) for field in fields)

    def toggles(self, *conditions: str) -> bool:
        """Return whether one of the conditions was true and is not any longer, or the reverse."""
        return not (self.conditions ^ self.old_conditions).isdisjoint(conditions)

    @property
    def is_finished(self) -> bool:
        return not self.conditions.isdisjoint(("Complete", "Failed"))

    @property
    def toggles_finished(self) -> bool:
        return self.is_finished == self.old_conditions.isdisjoint(("Complete", "Failed"))


def _true_conditions(status: JSONObject) -> set[str]:
    return {each.get("type") or "" for each in status.get("conditions") or () if each.get("status") == "True"}


def _count_errors(status: JSONObject) -> list[FieldError]:
    return [error for field in _COUNTS for error in checks.non_negative(f"status.{field}", status.get(field))]


def _uncounted_errors(uncounted: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(field) or ()):
            at = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(at, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(at, uid))
            seen.add(uid)
    return errors


def _condition_errors(change: _Change) -> list[FieldError]:
    """Return the errors of conditions that exclude or need each other."""
    true, found = change.conditions, list[str]()
    if change.toggles("Complete", "Failed") and {"Complete", "Failed"} <= true:
        found.append("cannot set Complete=True and Failed=true conditions")
    if change.toggles("Complete", "FailureTarget") and {"Complete", "FailureTarget"} <= true:
        found.append("cannot set Complete=True and FailureTarget=true conditions")
    fails = change.toggles("Failed") or change.touches("failedIndexes")
    if fails and "Failed" in true and "FailureTarget" not in true:
        found.append("cannot set Failed=True condition without the FailureTarget=true condition")
    if change.toggles("Complete", "SuccessCriteriaMet") and "Complete" in true and "SuccessCriteriaMet" not in true:
        found.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    found += [
        f"cannot set SuccessCriteriaMet=True and {failed}=true conditions"
        for failed in ("Failed", "FailureTarget")
        if {"SuccessCriteriaMet", failed} <= true
    ]
    if change.spec.get("successPolicy") and "Complete" in true and "SuccessCriteriaMet" not in true:
        found.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return [invalid(_CONDITIONS, OMITTED, why) for why in found]


def _time_errors(change: _Change) -> list[FieldError]:
    path, errors = "status.completionTime", list[FieldError]()
    start, end = change.now.get("startTime"), change.now.get("completionTime")
    if change.toggles("Complete") or change.touches("completionTime"):
        if end and "Complete" not in change.conditions:
            why = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, end, why))
        if not end and "Complete" in change.conditions:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    if change.touches("startTime", "completionTime") and start and end and end < start:
        errors.append(invalid(path, end, "must be equal to or after `startTime`"))
    return errors


def _finished_errors(change: _Change) -> list[FieldError]:
    """Return the errors of a finished Job that still has something to do, and of more ready Pods than active ones."""
    now, errors, toggles = change.now, list[FieldError](), change.toggles_finished
    active, ready, terminating = (now.get(field) or 0 for field in ("active", "ready", "terminating"))
    uncounted: JSONObject = now.get("uncountedTerminatedPods") or {}
    has_nothing_to_do = change.spec.get("suspend") is True and change.spec.get("completions") == 0
    if change.is_finished:
        if active > 0 and (toggles or change.touches("active")):
            errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
        if not now.get("startTime") and (toggles or change.touches("startTime")) and not has_nothing_to_do:
            errors.append(required("status.startTime", "startTime is required for finished job"))
        if any(uncounted.values()) and (toggles or change.touches("uncountedTerminatedPods")):
            errors.append(invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
        if terminating > 0 and (toggles or change.touches("terminating")):
            errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if ready > active and change.touches("ready", "active"):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return errors


def _index_errors(change: _Change) -> list[FieldError]:
    completed, failed = change.now.get("completedIndexes") or "", change.now.get("failedIndexes")
    by_index, completions = change.spec.get("backoffLimitPerIndex"), change.spec.get("completions")
    errors: list[FieldError] = []
    if change.touches("completedIndexes"):
        errors += _format_errors("completedIndexes", completed, completions)
    if change.touches("failedIndexes") and failed is not None and by_index is not None:
        errors += _format_errors("failedIndexes", failed, completions)
    if change.touches("completedIndexes") and completed and change.spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, why))
    if change.touches("failedIndexes") and failed is not None and by_index is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, why))
    if failed is not None and completions is not None and change.touches("failedIndexes", "completedIndexes"):
        errors += _overlap_errors(completed, failed, completions)
    return errors


def _format_errors(field: str, text: str, completions: int | None) -> list[FieldError]:
    if completions is None:
        return []
    try:
        index_intervals(text, completions)
    except ValueError as error:
        return [invalid(f"status.{field}", text, f"error parsing {field}: {error}")]
    return []


def _overlap_errors(completed: str, failed: str, completions: int) -> list[FieldError]:
    """Return an error for an index that has failed and is completed. Broken texts are reported elsewhere."""
    try:
        done, broken = (index_intervals(text, completions) for text in (completed, failed))
    except ValueError:
        return []
    at, other = 0, 0
    while at < len(done) and other < len(broken):
        (first, last), (low, high) = done[at], broken[other]
        if first <= high and low <= last:
            why = f"failedIndexes and completedIndexes overlap at index: {max(first, low)}"
            return [invalid("status.failedIndexes", failed, why)]
        at, other = (at + 1, other) if last < low else (at, other + 1)
    return []


def _transition_errors(change: _Change) -> list[FieldError]:
    """Return the errors of what may not be taken back."""
    now, before, errors = change.now, change.before, list[FieldError]()
    ended = [each for each in _LASTING if each in change.old_conditions - change.conditions]
    errors += [invalid(_CONDITIONS, OMITTED, f"cannot disable the terminal {each}=True condition") for each in ended]
    for field in ("failed", "succeeded"):
        shrinks = (now.get(field) or 0) < (before.get(field) or 0)
        if shrinks and not (field == "succeeded" and _is_elastic(change.spec)):
            errors.append(invalid(f"status.{field}", now.get(field) or 0, f"cannot decrease the {field} counter"))
    if now.get("completionTime") and before.get("completionTime") and change.touches("completionTime"):
        errors.append(invalid("status.completionTime", now["completionTime"], checks.IMMUTABLE))
    resumes = "Suspended" in change.old_conditions and _is_false("Suspended", now.get("conditions") or [])
    if before.get("startTime") and change.touches("startTime") and not change.spec.get("suspend") and not resumes:
        why = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", now.get("startTime"), why))
    if "SuccessCriteriaMet" in change.old_conditions - change.conditions:
        errors.append(invalid(_CONDITIONS, OMITTED, "cannot disable the SuccessCriteriaMet=True condition"))
    if "Complete" in change.old_conditions and "SuccessCriteriaMet" in change.conditions - change.old_conditions:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(invalid(_CONDITIONS, OMITTED, why))
    return errors


def _is_elastic(spec: JSONObject) -> bool:
    """Return whether an indexed Job may be scaled down, which lowers the number of its succeeded Pods."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _is_false(kind: str, conditions: JSONArray) -> bool:
    return any(each.get("type") == kind and each.get("status") == "False" for each in conditions)
