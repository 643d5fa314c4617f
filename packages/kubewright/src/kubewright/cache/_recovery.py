"""What to do when a stream has ended: go on from where it was or list anew, and how long to wait before."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from kubewright.machinery.errors import APIError, Forbidden, Gone, NotFound

BASE: Final = 0.5
"""Seconds to wait after a failure, give or take a half; after each further one in a row, twice as many."""

LIMIT: Final = 16.0
"""The longest wait in seconds, give or take a half; who has gone on for longer than this starts from `BASE` again."""

PATIENT_LIMIT: Final = 4.0
"""The same while what is missing is a kind or a right: an administrator is about to install or grant it, and looks
on."""

_MAX_DOUBLINGS: Final = 16


class Step(NamedTuple):
    """How to go on."""

    delay: float
    """Seconds to wait before."""
    relist: bool
    """From a new list, for where the stream was is of no use."""


class Recovery:
    """Remembers how the last attempts ended. One that brought nothing new does not make up for the failures before
    it.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._expiries = 0

    def step(self, failure: Exception | None, *, progressed: bool, lasted: float) -> Step:
        """How to go on after an attempt of `lasted` seconds that ended by `failure`, or by the server's will if None.

        `progressed`: it brought changes that had not been seen.
        """
        if progressed or lasted > LIMIT:
            self._failures = self._expiries = 0
        self._failures += 1
        if failure is None:
            return Step(0.0 if self._failures == 1 else self._backoff(), relist=False)
        if isinstance(failure, Gone):
            self._expiries += 1
            return Step(0.0 if self._expiries == 1 else self._backoff(), relist=True)
        delay = self._backoff(PATIENT_LIMIT if isinstance(failure, Forbidden | NotFound) else LIMIT)
        if isinstance(failure, APIError):
            delay = max(delay, failure.retry_after or 0.0)
        # A kind that is gone takes its versions with it.
        return Step(delay, relist=isinstance(failure, NotFound))

    def _backoff(self, limit: float = LIMIT) -> float:
        wait = BASE * 2.0 ** min(self._failures - 1, _MAX_DOUBLINGS)
        return min(wait, limit) * (0.5 + random.random())
