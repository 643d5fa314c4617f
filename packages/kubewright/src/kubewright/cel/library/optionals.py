"""Optional values. Follows cel-go's optional types (version 1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import NONE, EvaluationError, Optional, item


def _of_non_zero(value: Any) -> Optional:
    zero = value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)
    return NONE if zero or value == timedelta(0) else Optional(value)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _item(container: Any, key: Any) -> Optional:
    if isinstance(container, Optional):
        return _item(container.value, key) if container.present else NONE
    try:
        return Optional(item(container, key))
    except EvaluationError:
        return NONE


def _item_of(container: Optional, key: Any) -> Optional:
    return Optional(item(container.value, key)) if container.present else NONE


def _unwrapped(optionals: list[Optional]) -> list[Any]:
    return [each.value for each in optionals if each.present]


FUNCTIONS: Final[tuple[Function, ...]] = library(
    ("optional.of(A) -> optional_type(A)", Optional),
    ("optional.ofNonZeroValue(A) -> optional_type(A)", _of_non_zero),
    ("optional.none() -> optional_type(A)", lambda: NONE),
    ("optional_type(A).hasValue() -> bool", lambda optional: optional.present),
    ("optional_type(A).value() -> A", _value),
    ("optional_type(A).or(optional_type(A)) -> optional_type(A)", lambda left, right: left if left.present else right),
    ("optional_type(A).orValue(A) -> A", lambda left, right: left.value if left.present else right),
    ("optional.unwrap(list(optional_type(A))) -> list(A)", _unwrapped),
    ("list(optional_type(A)).unwrapOpt() -> list(A)", _unwrapped),
    ("_[?_](list(A), int) -> optional_type(A)", _item),
    ("_[?_](map(A, B), A) -> optional_type(B)", _item),
    ("_[?_](optional_type(list(A)), int) -> optional_type(A)", _item),
    ("_[?_](optional_type(map(A, B)), A) -> optional_type(B)", _item),
    ("_[_](optional_type(list(A)), int) -> optional_type(A)", _item_of),
    ("_[_](optional_type(map(A, B)), A) -> optional_type(B)", _item_of),
)
