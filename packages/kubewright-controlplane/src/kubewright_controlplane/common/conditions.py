"""Conditions of a status: one of each type, with the time of its last change.

Follows k8s.io/apimachinery/pkg/api/meta/conditions.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

C = TypeVar("C", bound=msgspec.Struct)


def with_condition(present: Sequence[C], condition: C) -> list[C]:
    """Return the conditions with `condition` in the place of the one of its type, or at the end.

    It keeps the time of the last transition if the status is the same.
    """
    new: Any = condition
    conditions: list[Any] = list(present)
    for index, before in enumerate(conditions):
        if before.type == new.type:
            moved = before.last_transition_time if before.status == new.status else new.last_transition_time
            conditions[index] = msgspec.structs.replace(new, last_transition_time=moved)
            return conditions
    return [*conditions, new]
