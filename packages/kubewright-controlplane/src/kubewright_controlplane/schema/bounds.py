"""Bounds of texts and numbers: lengths, patterns, ranges, multiples."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import json as jsons
from kubewright.machinery.fields import too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.schema.faults import Check, Faults, add_invalid, add_unplaced
from kubewright_controlplane.schema.path import Path, dotted
from kubewright_controlplane.schema.pattern import compile_pattern

_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def text_bounds(spec: JSONObject) -> Check | None:
    """The check of a text's length and pattern, of which the first fault is told."""
    longest, shortest, pattern = spec.get("maxLength"), spec.get("minLength"), spec.get("pattern")
    if longest is None and shortest is None and not pattern:
        return None
    search = compile_pattern(pattern) if pattern else None

    def check(value: str, path: Path, faults: Faults) -> None:
        if longest is not None and len(value) > longest:
            faults.append((path, too_long(dotted(path), longest)))
        elif shortest is not None and len(value) < shortest:
            add_invalid(faults, path, value, f"should be at least {shortest} chars long")
        elif search is not None and search(value) is None:
            add_invalid(faults, path, value, f"should match '{pattern}'")

    return check


def number_checks(spec: JSONObject) -> list[Check]:
    """The checks of a number."""
    checks: list[Check] = []
    if (limits := _RANGES.get(spec.get("format", "int64"))) and spec.get("type") == "integer":
        checks.append(_ranged(limits, spec.get("format", "")))
    if factor := spec.get("multipleOf"):
        checks.append(_multiple_of(factor))
    if (highest := spec.get("maximum")) is not None:
        checks.append(_at_most(highest, exclusive=bool(spec.get("exclusiveMaximum"))))
    if (lowest := spec.get("minimum")) is not None:
        checks.append(_at_least(lowest, exclusive=bool(spec.get("exclusiveMinimum"))))
    return checks


def _ranged(limits: tuple[int, int], format: str) -> Check:
    low, high = limits
    kind = f"with format {format}" if format else "(default format)"

    def check(value: float, path: Path, faults: Faults) -> None:
        if not low <= value <= high or (isinstance(value, float) and not value.is_integer()):
            add_unplaced(faults, path, f"Checked value must be of type integer {kind} in {dotted(path)}")

    return check


def _multiple_of(factor: float) -> Check:
    def check(value: float, path: Path, faults: Faults) -> None:
        quotient = 1 / factor * value if factor < 1 else value / factor
        whole = value % factor == 0 if isinstance(value, int) and isinstance(factor, int) else quotient.is_integer()
        if not whole:
            add_invalid(faults, path, value, f"should be a multiple of {jsons.number(factor)}")

    return check


def _at_most(limit: float, *, exclusive: bool) -> Check:
    text = f"should be less than {'' if exclusive else 'or equal to '}{jsons.number(limit)}"

    def check(value: float, path: Path, faults: Faults) -> None:
        if value > limit or (exclusive and value == limit):
            add_invalid(faults, path, value, text)

    return check


def _at_least(limit: float, *, exclusive: bool) -> Check:
    text = f"should be greater than {'' if exclusive else 'or equal to '}{jsons.number(limit)}"

    def check(value: float, path: Path, faults: Faults) -> None:
        if value < limit or (exclusive and value == limit):
            add_invalid(faults, path, value, text)

    return check
