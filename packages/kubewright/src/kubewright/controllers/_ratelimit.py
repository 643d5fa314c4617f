"""A limit on all retries of a controller together, beside the backoff of each request.

The backoff keeps one object that fails from being tried all the time; the limit keeps ten thousand that fail at once, a
cloud that is down, from being tried at once. As client-go's BucketRateLimiter, it holds back retries alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.machinery.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RateLimit:
    """So many retries a second on average, and `burst` at once after a quiet time. Raises ConfigError below zero."""

    per_second: float = 10.0
    burst: int = 100

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise ConfigError(f"RateLimit(per_second={self.per_second:g}, burst={self.burst}): both must be above zero")


class Bucket:
    """What is left of a limit: the generic cell rate algorithm, one number."""

    def __init__(self, limit: RateLimit) -> None:
        self._interval = 1.0 / limit.per_second
        self._slack = (limit.burst - 1) * self._interval
        self._full_at = 0.0
        """When all that was let pass would have passed at the average rate."""

    def wait(self, now: float) -> float:
        """Seconds from `now` until the next one may pass, which takes that place."""
        expected = max(self._full_at, now)
        self._full_at = expected + self._interval
        return max(0.0, expected - self._slack - now)
