"""Checks of fields that many kinds share, in the words of the API server.

Each returns the errors it found. Follows k8s.io/apimachinery pkg/api/validation, pkg/apis/meta/v1/validation and
k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kubewright.machinery import names
from kubewright.machinery.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity

NameRule = Callable[[str], list[str]]

_CACHED_LENGTH: Final = 256
"""Longer values are not cached, so that requests cannot fill memory. No valid name is longer."""

_REASON: Final = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_STATUSES: Final = ("False", "True", "Unknown")
_LONGEST_REASON: Final = 1024
_LONGEST_MESSAGE: Final = 32 * 1024

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"
IMMUTABLE: Final = "field is immutable"


def non_negative(path: str, value: int | None) -> list[FieldError]:
    return [invalid(path, value, NOT_NEGATIVE)] if value is not None and value < 0 else []


def positive(path: str, value: int | None) -> list[FieldError]:
    return [invalid(path, value, NOT_POSITIVE)] if value is not None and value <= 0 else []


def between(path: str, value: int | None, low: int, high: int) -> list[FieldError]:
    if value is None or low <= value <= high:
        return []
    return [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def repeated(values: Iterable[str]) -> frozenset[int]:
    """Return the indexes of the values that occur earlier, too."""
    seen = set[str]()
    found: list[int] = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(index)
        seen.add(value)
    return frozenset(found)


def immutable(path: str, new: object, old: object) -> list[FieldError]:
    """Return an error if an immutable field changed. Absent, null and empty are equal."""
    return [] if same(new, old) else [invalid(path, new, IMMUTABLE)]


def one_of(path: str, value: str | None, allowed: Sequence[str]) -> list[FieldError]:
    """Return an error if a required field is missing or not one of `allowed`, which the message lists in this order."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def named(path: str, value: str, rule: NameRule) -> list[FieldError]:
    """Return the errors of a name, key or label value by one of the rules in `machinery.names`."""
    texts = _broken_rules(rule, value) if len(value) <= _CACHED_LENGTH else rule(value)
    return [invalid(path, value, text) for text in texts] if texts else []


@lru_cache(maxsize=8192)  # the names, labels and keys of a cluster's objects come with every write
def _broken_rules(rule: NameRule, value: str) -> tuple[str, ...]:
    return tuple(rule(value))


def required_name(path: str, value: str | None, rule: NameRule) -> list[FieldError]:
    return named(path, value, rule) if value else [required(path)]


def domain_prefixed_path(path: str, value: str) -> list[FieldError]:
    """Return the errors of the name of a controller such as `acme.io/foo`."""
    host, _, rest = value.partition("/")
    if not value:
        return [required(path)]
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = named(path, host, names.dns1123_subdomain)
    if re.fullmatch(_HTTP_PATH, rest) is None:
        errors.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors


def port(path: str, value: int | str | None) -> list[FieldError]:
    """Return the errors of a port, which may be a number or a name."""
    if isinstance(value, str):
        return named(path, value, names.port_name)
    return [invalid(path, value or 0, text) for text in names.port_number(value or 0)]


def labels(path: str, value: Mapping[str, str] | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, text in (value or {}).items():
        errors += named(path, key, names.qualified_name)
        errors += named(path, text, names.label_value)
    return errors


def label_selector(path: str, selector: JSONObject | None) -> list[FieldError]:
    """Return the errors of a metav1.LabelSelector; none if it is absent."""
    if not selector:
        return []
    errors = labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += _requirement(f"{path}.matchExpressions[{index}]", expression)
    return errors


def conditions(path: str, conditions: Sequence[JSONObject] | None) -> list[FieldError]:
    """Return the errors of a list of metav1.Conditions; none if it is absent."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(conditions or ()):
        kind = each.get("type") or ""
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
        errors += _condition(f"{path}[{index}]", each)
    return errors


def _condition(path: str, condition: JSONObject) -> list[FieldError]:
    errors = named(f"{path}.type", condition.get("type") or "", names.qualified_name)
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    if status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    if (generation := condition.get("observedGeneration") or 0) < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not re.fullmatch(_REASON, reason):
        errors.append(invalid(f"{path}.reason", reason, _REASON_RULE))
    if len(reason.encode()) > _LONGEST_REASON:
        errors.append(too_long(f"{path}.reason", _LONGEST_REASON))
    if len((condition.get("message") or "").encode()) > _LONGEST_MESSAGE:
        errors.append(too_long(f"{path}.message", _LONGEST_MESSAGE))
    return errors


def quantity(path: str, value: Any) -> list[FieldError]:
    """Return an error if a quantity is negative."""
    amount = Quantity.of(value)
    return [invalid(path, str(amount), NOT_NEGATIVE)] if amount < Quantity(0) else []


def same(a: Any, b: Any) -> bool:
    """Return whether two documents are equal to the API server: an absent field equals an empty or null one."""
    if isinstance(a, dict) or isinstance(b, dict):
        left, right = _mapping(a), _mapping(b)
        return all(same(left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(a, list) or isinstance(b, list):
        left_items, right_items = a or [], b or []
        return len(left_items) == len(right_items) and all(map(same, left_items, right_items))
    return bool(a == b) or (not a and not b and (a is None or b is None))


def only_these(path: str, value: JSONObject, allowed: Collection[str], why: str) -> Iterable[FieldError]:
    """Return an error for each field that is set and not allowed."""
    return [forbidden(f"{path}.{key}", why) for key in value if key not in allowed and value[key]]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _requirement(path: str, expression: JSONObject) -> list[FieldError]:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += named(f"{path}.key", expression.get("key") or "", names.qualified_name)
    for index, value in enumerate(values):
        errors += named(f"{path}.values[{index}]", value, names.label_value)
    return errors
