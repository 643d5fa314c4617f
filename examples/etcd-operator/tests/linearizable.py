"""A checker for histories of registers: is there an order of the operations that explains every answer?

The order has to keep real time: an operation that ended before another one began comes first. An operation without an
answer may have happened at any time after its start, or never. The search is that of Wing and Gong, which remembers the
states that it has seen, as Lowe proposed. Keys are independent of each other, so each has a history of its own.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Operation:
    """One operation on a register."""

    kind: Literal["read", "write", "swap"]
    start: float
    end: float = math.inf
    """When its answer came; never, if there was none."""
    value: str | None = None
    """What was read, or written. A register that was never written has None."""
    expected: str | None = None
    """The value that a swap replaced. A swap that found another value is not in the history."""

    cluster: str = ""
    """The ID of the etcd cluster that answered; empty without an answer."""

    @property
    def answered(self) -> bool:
        return self.end < math.inf

    def after(self, state: str | None) -> tuple[bool, str | None]:
        """Return whether the operation can happen in a state, and the state after it."""
        match self.kind:
            case "read":
                return state == self.value, state
            case "write":
                return True, self.value
            case "swap":
                return state == self.expected, self.value


def is_linearizable(history: Iterable[Operation], initial: str | None = None) -> bool:
    """Return whether one order of all answered operations, and of some others, explains all answers."""
    operations = _useful(history)
    needed = sum(1 << number for number, each in enumerate(operations) if each.answered)
    seen: set[tuple[int, str | None]] = set()
    stack: list[tuple[int, str | None]] = [(0, initial)]
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        for number in _next(operations, done):
            possible, after = operations[number].after(state)
            if possible:
                stack.append((done | 1 << number, after))
    return False


def is_restored(before: Sequence[Operation], backup: Operation, after: Sequence[Operation]) -> bool:
    """Return whether a cluster began with a state that another one had during its backup: a read without its value."""
    written = {each.value for each in before if each.kind != "read"}
    return any(
        is_linearizable(after, value) and is_linearizable([*before, replace(backup, value=value)])
        for value in (None, *sorted(filter(None, written)))
    )


def _useful(history: Iterable[Operation]) -> list[Operation]:
    """Return the operations that the search needs, in order of their starts.

    A write without an answer whose value nobody saw explains nothing: an order with it is also one without it.
    """
    operations = sorted(history, key=lambda it: it.start)
    seen = {each.value for each in operations if each.kind == "read" and each.answered}
    seen |= {each.expected for each in operations if each.kind == "swap"}
    return [each for each in operations if each.answered or (each.kind != "read" and each.value in seen)]


def _next(operations: Sequence[Operation], done: int) -> list[int]:
    """Return the operations that can come next: no other one that is left ended before they began."""
    left: list[int] = []
    first_end = math.inf
    first_left = (~done & (done + 1)).bit_length() - 1
    for number in range(first_left, len(operations)):
        each = operations[number]
        if each.start > first_end:
            break
        if not done >> number & 1:
            left.append(number)
            first_end = min(first_end, each.end)
    return [number for number in left if operations[number].start <= first_end]
