"""Choices of schemas: `anyOf`, `oneOf`, `allOf`, `not`."""

from __future__ import annotations

from typing import Any

from kubewright_controlplane.schema.faults import Check, Faults, add_unplaced
from kubewright_controlplane.schema.path import Path, dotted


def any_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: Path, faults: Faults) -> None:
        nearest: Faults = []
        for each in alternatives:
            found = _tried(each, value, path)
            if not found:
                return
            nearest = nearest or found
        add_unplaced(faults, path, f'"{dotted(path)}" must validate at least one schema (anyOf)')
        faults.extend(nearest)

    return check


def one_of(alternatives: list[Check]) -> Check:
    def check(value: Any, path: Path, faults: Faults) -> None:
        results = [_tried(each, value, path) for each in alternatives]
        good = sum(not each for each in results)
        if good == 1:
            return
        told = f"Found {good} valid alternatives" if good else "Found none valid"
        add_unplaced(faults, path, f'"{dotted(path)}" must validate one and only one schema (oneOf). {told}')
        if not good:
            faults.extend(results[0])

    return check


def all_of(parts: list[Check]) -> Check:
    def check(value: Any, path: Path, faults: Faults) -> None:
        good = 0
        for each in parts:
            found = _tried(each, value, path)
            good += not found
            faults.extend(found)
        if good != len(parts):
            add_unplaced(
                faults,
                path,
                f'"{dotted(path)}" must validate all the schemas (allOf){"" if good else ". None validated"}',
            )

    return check


def none_of(unwanted: Check) -> Check:
    def check(value: Any, path: Path, faults: Faults) -> None:
        if not _tried(unwanted, value, path):
            add_unplaced(faults, path, f'"{dotted(path)}" must not validate the schema (not)')

    return check


def _tried(check: Check, value: Any, path: Path) -> Faults:
    found: Faults = []
    check(value, path, found)
    return found
