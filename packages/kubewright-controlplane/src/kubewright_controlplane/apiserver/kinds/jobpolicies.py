"""Validation of what a Job says about failures and success: podFailurePolicy, successPolicy, limits of indexes.

Follows k8s.io/kubernetes pkg/apis/batch/validation.
"""

from __future__ import annotations

import re
from typing import Any, Final

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
from kubewright.machinery.json import JSONObject, quoted
from kubewright_controlplane.apiserver.registry import checks

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_LONGEST_INDEXES: Final = 64 * 1024
_MOST_INDEXED: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MOST_OF_MANY: Final = 10_000


def indexed_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the limits of an indexed Job."""
    parallelism, completions, failed = (spec.get(key) for key in ("parallelism", "completions", "maxFailedIndexes"))
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_INDEXED:
        why = f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, why))
    if failed is not None:
        if completions is not None and failed > completions:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
        if failed > _MOST_INDEXED:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_INDEXED}"))
    if completions is not None and completions > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        errors += _many_errors(path, parallelism, failed)
    return errors


def _many_errors(path: str, parallelism: int | None, failed: int | None) -> list[FieldError]:
    errors: list[FieldError] = []
    if failed is None:
        why = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(f"{path}.maxFailedIndexes", why))
    why = (
        f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if value is not None and value > _MOST_OF_MANY:
            errors.append(invalid(f"{path}.{field}", value, why))
    return errors


def failure_policy_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of a Job's `podFailurePolicy`, if there is one."""
    policy: JSONObject | None = spec.get("podFailurePolicy")
    if policy is None:
        return []
    rules: list[JSONObject] = policy.get("rules") or []
    pod = spec["template"].get("spec") or {}
    containers = {each.get("name") for key in ("containers", "initContainers") for each in pod.get(key) or ()}
    errors = [too_many(f"{path}.rules", len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    per_index = spec.get("backoffLimitPerIndex") is not None
    for index, rule in enumerate(rules):
        errors += _rule_errors(f"{path}.rules[{index}]", rule, containers, per_index=per_index)
    return errors


def _rule_errors(path: str, rule: JSONObject, containers: set[Any], *, per_index: bool) -> list[FieldError]:
    action, codes, conditions = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or []
    errors = _one_of(f"{path}.action", action, _ACTIONS)
    if action == "FailIndex" and not per_index:
        errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    if codes is not None:
        errors += _exit_code_errors(f"{path}.onExitCodes", codes, containers)
    if len(conditions) > _MOST_RULES:
        errors.append(too_many(f"{path}.onPodConditions", len(conditions), _MOST_RULES))
    for index, pattern in enumerate(conditions):
        at = f"{path}.onPodConditions[{index}]"
        errors += checks.named(f"{at}.type", pattern.get("type") or "", names.qualified_name)
        errors += _one_of(f"{at}.status", pattern.get("status") or "", _STATUSES)
    if codes is not None and conditions:
        errors.append(invalid(path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _one_of(path: str, value: str, allowed: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path, f"valid values: [{' '.join(map(quoted, allowed))}]")]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _exit_code_errors(path: str, codes: JSONObject, containers: set[Any]) -> list[FieldError]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    errors = _one_of(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, why))
    at = f"{path}.values"
    if not values:
        errors.append(invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(at, len(values), _MOST_CODES))
    seen: set[int] = set()
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{at}[{index}]", code, "must not be 0 for the In operator"))
        if code in seen:
            errors.append(duplicate(f"{at}[{index}]", code))
        seen.add(code)
    return errors if values == sorted(values) else [*errors, invalid(at, values, "must be ordered")]


def success_policy_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the `successPolicy` of an indexed Job, if there is one."""
    policy: JSONObject | None = spec.get("successPolicy")
    completions: int | None = spec.get("completions")
    if policy is None or completions is None:
        return []
    rules: list[JSONObject] = policy.get("rules") or []
    errors: list[FieldError] = []
    if not rules:
        errors.append(
            required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
        )
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        errors += _success_rule_errors(f"{path}.rules[{index}]", rule, completions)
    return errors


def _success_rule_errors(path: str, rule: JSONObject, completions: int) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: list[FieldError] = []
    if indexes is None and count is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        at = f"{path}.succeededIndexes"
        if len(indexes) > _LONGEST_INDEXES:
            errors.append(too_long(at, _LONGEST_INDEXES))
        try:
            total = _count_indexes(indexes, completions)
        except ValueError as error:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return errors
    at, limit = f"{path}.succeededCount", "must be less than or equal to"
    errors += checks.non_negative(at, count)
    if count > completions:
        errors.append(invalid(at, count, f"{limit} {completions} (the number of specified completions)"))
    if indexes is not None and count > total:
        why = f"{limit} {total} (the number of indexes in the specified succeededIndexes field)"
        errors.append(invalid(at, count, why))
    return errors


def _count_indexes(text: str, completions: int) -> int:
    """Return how many indexes a text such as `1,3-5` names. Raises ValueError."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        limits = interval.split("-")
        if len(limits) > 2:
            raise ValueError(
                f'the fragment "{interval}" violates the requirement that an index interval can have at most '
                "two parts separated by '-'"
            )
        first = _index(limits[0], completions)
        if len(limits) > 1:
            end = _index(limits[1], completions)
            if first >= end:
                raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        else:
            end = first
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def _index(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)
