"""How fast and how far an autoscaler may change the number of replicas.

The recommendations of the last minutes are kept in memory, so that a short dip scales nothing down. After a restart,
the current number of replicas counts as a recommendation.

Follows kubernetes/pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubewright.apis.autoscaling.v2 import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

_WINDOW: Final = 300
"""Seconds for which a higher recommendation prevents scaling down, by default."""
_STEEP: Final = [HPAScalingPolicy(type="Percent", value=100, period_seconds=15)]
_UP: Final = [HPAScalingPolicy(type="Pods", value=4, period_seconds=15), *_STEEP]
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FAST_UP: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")


class Bounded(NamedTuple):
    """A number of replicas, and what limited it."""

    replicas: int
    is_limited: bool
    reason: str
    message: str


class _Moment(NamedTuple):
    at: datetime
    replicas: int


@dataclass(slots=True)
class Record:
    """The recent recommendations and changes of one autoscaler."""

    recommendations: list[_Moment] = field(default_factory=list[_Moment])
    ups: list[_Moment] = field(default_factory=list[_Moment])
    downs: list[_Moment] = field(default_factory=list[_Moment])

    def start(self, replicas: int, now: datetime) -> None:
        """Count the current number of replicas as the first recommendation."""
        if not self.recommendations:
            self.recommendations.append(_Moment(now, replicas))

    def scaled(self, before: int, after: int, now: datetime) -> None:
        changes = self.ups if after > before else self.downs
        changes.append(_Moment(now, abs(after - before)))

    def stabilize(
        self, desired: int, current: int, behavior: HorizontalPodAutoscalerBehavior | None, now: datetime
    ) -> int:
        """Return the recommendation that the recent ones allow."""
        up, down = _rules(behavior)
        low, high = desired, desired
        for each in self.recommendations:
            if behavior is not None and each.at > now - _window(up, 0):
                low = min(low, each.replicas)
            if each.at > now - _window(down, _WINDOW):
                high = max(high, each.replicas)
        longest = max(_window(up, 0), _window(down, _WINDOW))
        self.recommendations = [each for each in self.recommendations if each.at > now - longest]
        self.recommendations.append(_Moment(now, desired))
        return high if behavior is None else min(max(current, low), high)

    def bound(
        self,
        desired: int,
        current: int,
        least: int,
        most: int,
        behavior: HorizontalPodAutoscalerBehavior | None,
        now: datetime,
    ) -> Bounded:
        """Return the replicas within the limits."""
        if behavior is None:
            return _bounded(desired, least, most, max(2 * current, 4))
        up, down = _rules(behavior)
        if desired > current:
            limit = max(current, self._limit(up, current, 1, now))
            return _bounded(desired, 0, most, limit)
        if desired < current:
            limit = min(current, self._limit(down, current, -1, now))
            lowest, why = (limit, _TOO_FAST_DOWN) if least < limit else (least, _TOO_FEW)
            if desired < lowest:
                return Bounded(lowest, True, *why)
        return Bounded(desired, False, *_WITHIN)

    def _limit(self, rules: HPAScalingRules | None, current: int, sign: int, now: datetime) -> int:
        """Return the furthest number of replicas that the policies allow."""
        select = (rules.select_policy if rules else None) or "Max"
        if select == "Disabled":
            return current
        policies = (rules.policies if rules else None) or (_UP if sign > 0 else _STEEP)
        proposals = [self._proposal(each, current, sign, now) for each in policies]
        return max(proposals) if (select == "Max") == (sign > 0) else min(proposals)

    def _proposal(self, policy: HPAScalingPolicy, current: int, sign: int, now: datetime) -> int:
        since = now - timedelta(seconds=policy.period_seconds)
        added = sum(each.replicas for each in self.ups if each.at > since)
        removed = sum(each.replicas for each in self.downs if each.at > since)
        start = current - added + removed
        if policy.type == "Pods":
            return start + sign * policy.value
        share = start * (1 + sign * policy.value / 100)
        return math.ceil(share) if sign > 0 else int(share)


def _bounded(desired: int, least: int, most: int, fastest: int) -> Bounded:
    highest, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
    if desired < least:
        return Bounded(least, True, *_TOO_FEW)
    if desired > highest:
        return Bounded(highest, True, *why)
    return Bounded(desired, False, *_WITHIN)


def _rules(behavior: HorizontalPodAutoscalerBehavior | None) -> tuple[HPAScalingRules | None, HPAScalingRules | None]:
    return (behavior.scale_up, behavior.scale_down) if behavior is not None else (None, None)


def _window(rules: HPAScalingRules | None, default: int) -> timedelta:
    seconds = rules.stabilization_window_seconds if rules is not None else None
    return timedelta(seconds=default if seconds is None else seconds)
