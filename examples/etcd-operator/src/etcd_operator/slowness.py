"""A baseline for the time that a member takes to answer, learned from the member itself."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

LEARNED: Final = 10
"""Answers before a member is judged."""
WEIGHT: Final = 0.1
"""Of the newest answer, in the baseline."""
FACTOR: Final = 10.0
"""How many times the usual time is slow."""
FLOOR: Final = 0.1
"""Seconds that are never slow: below, a busy machine explains more than a broken disk."""
SUSTAINED: Final = 3
"""Slow answers in a row before a member is called slow."""
MOST: Final = 10_000
"""Members that are remembered; the one that was not seen for the longest time is forgotten first."""


class Verdict(NamedTuple):
    """What an answer says about its member."""

    is_slow: bool
    became_slow: bool
    factor: float
    usual: float
    """The baseline in seconds; 0 until it is learned."""


@dataclass
class _Baseline:
    usual: float = 0.0
    answers: int = 0
    slow_in_a_row: int = 0


class Slowness:
    """The baselines of all members. A slow answer does not change a baseline, so a slow disk does not become usual."""

    def __init__(self) -> None:
        self._baselines: OrderedDict[tuple[str, str], _Baseline] = OrderedDict()

    def observe(self, member: tuple[str, str], seconds: float, *, usual: float = 0.0) -> Verdict:
        """Learn from an answer, and return whether the member is slow. `usual` is what an earlier process has learned."""
        known = self._baselines.setdefault(member, _Baseline(usual, LEARNED if usual else 0))
        self._baselines.move_to_end(member)
        while len(self._baselines) > MOST:
            self._baselines.popitem(last=False)
        factor = seconds / known.usual if known.usual else 1.0
        if known.answers >= LEARNED and seconds > FLOOR and factor > FACTOR:
            known.slow_in_a_row += 1
        else:
            known.slow_in_a_row = 0
            weight = max(WEIGHT, 1 / (known.answers + 1))
            known.usual += (seconds - known.usual) * weight
            known.answers += 1
        slow = known.slow_in_a_row >= SUSTAINED
        learned = known.usual if known.answers >= LEARNED else 0.0
        return Verdict(slow, known.slow_in_a_row == SUSTAINED, factor, learned)
