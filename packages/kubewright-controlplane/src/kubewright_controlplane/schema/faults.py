"""What is wrong with a value, and where: what the checks of a schema find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kubewright.machinery.fields import FieldError, invalid
from kubewright_controlplane.schema.path import Path, dotted

Faults: TypeAlias = list[tuple[Path, FieldError]]
"""Each fault with the place of the value that has it (for a missing field, that is the object it misses from)."""
Check: TypeAlias = Callable[[Any, Path, Faults], None]

NOWHERE: Final = "<nil>"
"""What the API server calls a place that it does not name."""


def add_invalid(faults: Faults, path: Path, value: object, text: str) -> None:
    place = dotted(path)
    faults.append((path, invalid(place or NOWHERE, value, f"{place} in body {text}")))


def add_unplaced(faults: Faults, path: Path, text: str) -> None:
    """A fault that the API server tells without saying where."""
    faults.append((path, invalid(NOWHERE, "", text)))
