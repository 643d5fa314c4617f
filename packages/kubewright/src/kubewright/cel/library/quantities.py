"""Quantities. Follows k8s.io/apiserver/pkg/cel/library/quantity.go."""

from __future__ import annotations

from typing import Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import EvaluationError
from kubewright.machinery.quantity import Quantity

_LIMIT: Final = 2**63


def _parse(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _is_integer(quantity: Quantity) -> bool:
    return quantity.is_integer() and -_LIMIT <= quantity.value < _LIMIT


def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise EvaluationError("cannot convert value to integer")
    return quantity.value


FUNCTIONS: Final[tuple[Function, ...]] = library(
    ("quantity(string) -> kubernetes.Quantity", _parse),
    ("isQuantity(string) -> bool", _is_quantity),
    ("sign(kubernetes.Quantity) -> int", lambda it: (it > Quantity(0)) - (it < Quantity(0))),
    ("kubernetes.Quantity.isGreaterThan(kubernetes.Quantity) -> bool", lambda it, other: it > other),
    ("kubernetes.Quantity.isLessThan(kubernetes.Quantity) -> bool", lambda it, other: it < other),
    ("kubernetes.Quantity.compareTo(kubernetes.Quantity) -> int", lambda it, other: (it > other) - (it < other)),
    ("kubernetes.Quantity.asApproximateFloat() -> double", float),
    ("kubernetes.Quantity.asInteger() -> int", _as_integer),
    ("kubernetes.Quantity.isInteger() -> bool", _is_integer),
    ("kubernetes.Quantity.add(kubernetes.Quantity) -> kubernetes.Quantity", lambda it, other: it + other),
    ("kubernetes.Quantity.add(int) -> kubernetes.Quantity", lambda it, other: it + Quantity.from_int(other)),
    ("kubernetes.Quantity.sub(kubernetes.Quantity) -> kubernetes.Quantity", lambda it, other: it - other),
    ("kubernetes.Quantity.sub(int) -> kubernetes.Quantity", lambda it, other: it - Quantity.from_int(other)),
)
