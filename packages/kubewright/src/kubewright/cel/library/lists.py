"""Lists and sets: Kubernetes' list functions, and the lists (version 3) and sets extensions.

Follows k8s.io/apiserver/pkg/cel/library/lists.go and cel-go's ext/lists.go and ext/sets.go.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import NONE, EvaluationError, Optional, comparable, contains, equal, plus

_SUMMABLE: Final = ("int", "uint", "double", "duration")
_COMPARABLE: Final = (*_SUMMABLE, "bool", "string", "bytes", "timestamp")


def _order(left: Any, right: Any) -> int:
    comparable(left, right)
    return int(left > right) - int(left < right)


def sorted_by(values: list[Any], keys: list[Any]) -> list[Any]:
    """Return `values`, sorted by their keys."""

    def compare(left: int, right: int) -> int:
        return _order(keys[left], keys[right])

    return [values[place] for place in sorted(range(len(values)), key=cmp_to_key(compare))]


def _sorted(values: list[Any]) -> list[Any]:
    return sorted_by(values, values)


def _is_sorted(values: list[Any]) -> bool:
    return all(_order(left, right) <= 0 for left, right in pairwise(values))


def _sum(values: list[Any]) -> Any:
    if not values:
        return 0
    total = values[0]
    for each in values[1:]:
        total = plus(total, each)
    return total


def _least(values: list[Any]) -> Any:
    return _extreme(values, -1, "min")


def _greatest(values: list[Any]) -> Any:
    return _extreme(values, 1, "max")


def _extreme(values: list[Any], wanted: int, name: str) -> Any:
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    found = values[0]
    for each in values[1:]:
        if _order(each, found) == wanted:
            found = each
    return found


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index, each in enumerate(values) if equal(each, wanted)), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if equal(values[index], wanted)), -1)


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0 or start > end or end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for each in values:
        flat += _flatten(each, depth - 1) if each.__class__ is list and depth > 0 else [each]
    return flat


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for each in values:
        if not contains(found, each):
            found.append(each)
    return found


def _range(count: int) -> list[int]:
    if count > 1_000_000:
        raise EvaluationError("lists.range is limited to 1000000 items")
    return list(range(count))


def _has_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(values, each) for each in wanted)


FUNCTIONS: Final[tuple[Function, ...]] = (
    *library(*((f"list({each}).isSorted() -> bool", _is_sorted) for each in _COMPARABLE), linear=True),
    *library(*((f"list({each}).sum() -> {each}", _sum) for each in _SUMMABLE), linear=True),
    *library(*((f"list({each}).min() -> {each}", _least) for each in _COMPARABLE), linear=True),
    *library(*((f"list({each}).max() -> {each}", _greatest) for each in _COMPARABLE), linear=True),
    *library(*((f"list({each}).sort() -> list({each})", _sorted) for each in _COMPARABLE), linear=True),
    *library(
        ("list(A).indexOf(A) -> int", _index_of),
        ("list(A).lastIndexOf(A) -> int", _last_index_of),
        ("list(A).slice(int, int) -> list(A)", _slice),
        ("list(list(A)).flatten() -> list(A)", _flatten),
        ("list(dyn).flatten(int) -> list(dyn)", _flatten),
        ("list(A).distinct() -> list(A)", _distinct),
        ("list(A).reverse() -> list(A)", lambda values: values[::-1]),
        ("list(A).first() -> optional_type(A)", lambda values: Optional(values[0]) if values else NONE),
        ("list(A).last() -> optional_type(A)", lambda values: Optional(values[-1]) if values else NONE),
        ("lists.range(int) -> list(int)", _range),
        ("sets.contains(list(A), list(A)) -> bool", _has_all),
        (
            "sets.equivalent(list(A), list(A)) -> bool",
            lambda left, right: _has_all(left, right) and _has_all(right, left),
        ),
        ("sets.intersects(list(A), list(A)) -> bool", lambda left, right: any(contains(right, each) for each in left)),
        linear=True,
    ),
)
