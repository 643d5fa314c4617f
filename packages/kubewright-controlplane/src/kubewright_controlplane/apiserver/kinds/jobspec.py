"""The errors of the spec of a Job, in a Job or in the template of a CronJob.

Follows k8s.io/kubernetes pkg/apis/batch/validation.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import (
    OMITTED,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import podspec
from kubewright_controlplane.apiserver.registry import checks

_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES: Final = ("NonIndexed", "Indexed")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MAX_RULES: Final = 20
_MAX_PATTERNS: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_MANAGER: Final = 63
_MAX_INDEXES_TEXT: Final = 64 * 1024
_MAX_INDEXED: Final = 100_000
"""The largest parallelism and number of failed indexes of an indexed Job."""
_MANY_COMPLETIONS: Final = 100_000
_MAX_OF_MANY: Final = 10_000
"""The largest parallelism and number of failed indexes of a Job with many completions and limits for each index."""
_INDEX: Final = re.compile(r"\+?[0-9]{1,18}")


def spec_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of a spec, except for its selector."""
    errors: list[FieldError] = []
    for field in _COUNTS:
        errors += checks.non_negative(f"{path}.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += _manager_errors(f"{path}.managedBy", spec["managedBy"])
    errors += _mode_errors(path, spec)
    if spec.get("podFailurePolicy") is not None:
        errors += _failure_policy_errors(f"{path}.podFailurePolicy", spec)
    if spec.get("successPolicy") is not None:
        errors += _success_policy_errors(f"{path}.successPolicy", spec)
    errors += _replacement_errors(f"{path}.podReplacementPolicy", spec)
    return errors + _template_errors(f"{path}.template", spec)


def name_errors(job: JSONObject) -> list[FieldError]:
    """Return the error of the name of an indexed Job from which the hostnames of its Pods cannot be made."""
    spec, name = job["spec"], job["metadata"].get("name") or ""
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    hostname = f"{name}-{completions - 1}"
    if not names.dns1123_label(hostname):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")]


def _manager_errors(path: str, manager: str) -> list[FieldError]:
    errors = checks.domain_prefixed_path(path, manager)
    return [*errors, too_long(path, _MAX_MANAGER)] if len(manager.encode()) > _MAX_MANAGER else errors


def _mode_errors(path: str, spec: JSONObject) -> list[FieldError]:
    mode = spec.get("completionMode")
    if mode == "Indexed":
        return _indexed_errors(path, spec)
    if mode is not None and mode not in _MODES:
        return [not_supported(f"{path}.completionMode", mode, _MODES)]
    indexed = [field for field in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(field) is not None]
    return [invalid(f"{path}.{field}", spec[field], "requires indexed completion mode") for field in indexed]


def _indexed_errors(path: str, spec: JSONObject) -> list[FieldError]:
    completions, parallelism, failed = (spec.get(each) for each in ("completions", "parallelism", "maxFailedIndexes"))
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MAX_INDEXED:
        why = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, why))
    if failed is not None and completions is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MAX_INDEXED:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MAX_INDEXED}"))
    if (completions or 0) <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return errors
    if failed is None:
        why = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(f"{path}.maxFailedIndexes", why))
    why = (
        f"must be less than or equal to {_MAX_OF_MANY} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    limited = (("parallelism", parallelism), ("maxFailedIndexes", failed))
    return errors + [invalid(f"{path}.{at}", value, why) for at, value in limited if (value or 0) > _MAX_OF_MANY]


def _failure_policy_errors(path: str, spec: JSONObject) -> list[FieldError]:
    rules: JSONArray = spec["podFailurePolicy"].get("rules") or []
    errors = [too_many(f"{path}.rules", len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {each.get("name") or "" for field in ("containers", "initContainers") for each in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        errors += _failure_rule_errors(f"{path}.rules[{index}]", rule, spec, containers)
    return errors


def _failure_rule_errors(path: str, rule: JSONObject, spec: JSONObject, containers: set[str]) -> list[FieldError]:
    action = rule.get("action") or ""
    errors = _choice_errors(f"{path}.action", action, _ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        errors += _exit_code_errors(f"{path}.onExitCodes", codes, containers)
    errors += _condition_errors(f"{path}.onPodConditions", conditions)
    if codes is not None and conditions:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _choice_errors(path: str, value: str, allowed: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path, "valid values: [" + " ".join(f'"{each}"' for each in allowed) + "]")]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _condition_errors(path: str, patterns: JSONArray) -> list[FieldError]:
    errors = [too_many(path, len(patterns), _MAX_PATTERNS)] if len(patterns) > _MAX_PATTERNS else []
    for index, pattern in enumerate(patterns):
        at = f"{path}[{index}]"
        errors += checks.named(f"{at}.type", pattern.get("type") or "", names.qualified_name)
        errors += _choice_errors(f"{at}.status", pattern.get("status") or "", _STATUSES)
    return errors


def _exit_code_errors(path: str, codes: JSONObject, containers: set[str]) -> list[FieldError]:
    operator, container = codes.get("operator") or "", codes.get("containerName")
    errors = _choice_errors(f"{path}.operator", operator, _OPERATORS)
    if container is not None and container not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, why))
    at, values = f"{path}.values", codes.get("values") or []
    if not values:
        errors.append(invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(at, len(values), _MAX_EXIT_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{at}[{index}]", value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(f"{at}[{index}]", value))
        seen.add(value)
    if values != sorted(values):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


def _success_policy_errors(path: str, spec: JSONObject) -> list[FieldError]:
    policy: JSONObject = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [invalid(path, policy, "requires indexed completion mode")]
    rules: JSONArray = policy.get("rules") or []
    errors: list[FieldError] = []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", why))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _success_rule_errors(f"{path}.rules[{index}]", rule, spec.get("completions") or 0)
    return errors


def _success_rule_errors(path: str, rule: JSONObject, completions: int) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: list[FieldError] = []
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        at = f"{path}.succeededIndexes"
        if len(indexes.encode()) > _MAX_INDEXES_TEXT:
            errors.append(too_long(at, _MAX_INDEXES_TEXT))
        try:
            total = sum(end - first + 1 for first, end in index_intervals(indexes, completions))
        except ValueError as error:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        at, why = f"{path}.succeededCount", "must be less than or equal to {} (the number of {})"
        errors += checks.non_negative(at, count)
        if count > completions:
            errors.append(invalid(at, count, why.format(completions, "specified completions")))
        if indexes is not None and count > total:
            what = "indexes in the specified succeededIndexes field"
            errors.append(invalid(at, count, why.format(total, what)))
    return errors


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the first and last index of each interval of `1,3-5`. Raises ValueError if not in order, or too large."""
    found: list[tuple[int, int]] = []
    for interval in text.split(",") if text else ():
        first, end = _interval(interval, completions)
        if found and found[-1][1] >= first:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, end))
    return found


def _interval(text: str, completions: int) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) > 2:
        why = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" {why}')
    limits: list[int] = []
    for part in parts:
        if _INDEX.fullmatch(part) is None:
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        if int(part) >= completions:
            raise ValueError(f'too large index: "{part}"')
        limits.append(int(part))
    if len(limits) > 1 and limits[0] >= limits[1]:
        raise ValueError(f"non-increasing order, previous: {limits[0]}, current: {limits[1]}")
    return limits[0], limits[-1]


def _replacement_errors(path: str, spec: JSONObject) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    allowed = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ("Failed",)
    return [] if policy is None or policy in allowed else [not_supported(path, policy, allowed)]


def _template_errors(path: str, spec: JSONObject) -> list[FieldError]:
    template: JSONObject = spec.get("template") or {}
    errors = podspec.validate_template(path, template)
    at, policy = f"{path}.spec.restartPolicy", (template.get("spec") or {}).get("restartPolicy")
    if not policy or policy == "Always":
        errors.append(required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(at, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return errors
