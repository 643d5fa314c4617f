"""How soon a request is reconciled again: backoff, retries, and rate limits.

The backoff spaces the retries of one object. A rate limit spaces the retries of all objects together, for example when
ten thousand objects fail at once because a cloud API is down, or the reconciles that events of one object cause.

Follows client-go's util/workqueue: ItemExponentialFailureRateLimiter and BucketRateLimiter.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds

_MAX_DOUBLINGS: Final = 63
"""Keeps the power finite. Every limit is reached earlier."""


class Backoff(msgspec.Struct, frozen=True):
    """The delay after each failure in a row: `base`, then twice that, and so on up to `limit`.

    `jitter` is the largest random part that is added: with 0.1, a delay of 10 s takes 10 to 11 s. `attempts` is the
    number of attempts, the first one included; after the last one, a request waits for the next event. None: no limit.
    The defaults are those of controller-runtime.
    """

    base: Seconds = 0.005
    limit: Seconds = 1000.0
    jitter: float = 0.0
    attempts: int | None = None

    def __post_init__(self) -> None:
        base, limit = seconds(self.base), seconds(self.limit)
        if base <= 0 or limit <= 0:
            raise ConfigError(f"Backoff(base={base:g}, limit={limit:g}): both must be positive")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(f"Backoff(attempts={self.attempts}): must be at least 1; write None for no limit")

    def is_last(self, attempt: int) -> bool:
        """Return whether no other attempt follows if this one, counted from 1, fails."""
        return self.attempts is not None and attempt >= self.attempts

    def delay(self, failures: int) -> float:
        """Return the delay in seconds after `failures` failures in a row, at least one."""
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        delay: float = min(seconds(self.base) * 2.0**doublings, seconds(self.limit))
        return delay * (1 + self.jitter * random.random())


class RateLimit(msgspec.Struct, frozen=True):
    """`per_second` on average, and up to `burst` at once after a quiet time.

    One every 10 seconds is `RateLimit(per_second=0.1, burst=1)`.
    """

    per_second: float = 10.0
    burst: int = 100

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise ConfigError(
                f"RateLimit(per_second={self.per_second:g}, burst={self.burst}): per_second must be above zero, and "
                "burst at least 1"
            )


class Retry(msgspec.Struct, frozen=True):
    """How failed reconciles of a controller are retried."""

    backoff: Backoff = msgspec.field(default_factory=Backoff)
    """The delays between the retries of one object."""
    rate_limit: RateLimit | None = None
    """A limit for the retries of all objects together. It never delays events."""


class Bucket:
    """The state of a rate limit: the generic cell rate algorithm, which needs one number."""

    __slots__ = ("_drained_at", "_interval", "_slack")

    def __init__(self, limit: RateLimit) -> None:
        self._interval = 1.0 / limit.per_second
        self._slack = (limit.burst - 1) * self._interval
        self._drained_at = 0.0

    @property
    def drained_at(self) -> float:
        """The time at which the full rate is available again."""
        return self._drained_at

    def reserve(self, now: float) -> float:
        """Reserve the next free slot, and return the seconds from `now` until that slot."""
        expected = max(self._drained_at, now)
        self._drained_at = expected + self._interval
        return max(0.0, expected - self._slack - now)
