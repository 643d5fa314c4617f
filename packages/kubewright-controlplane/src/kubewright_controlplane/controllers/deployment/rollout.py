"""Decides how many replicas each ReplicaSet of a Deployment gets next. Reads and writes nothing.

A rollout consists of steps. During a step, at most `replicas + maxSurge` Pods exist by intent, and at least `replicas -
maxUnavailable` are available. Each decision depends only on the current objects.

Follows kubernetes/pkg/controller/deployment (rolling.go, recreate.go, sync.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright_controlplane.controllers.intstr import scaled

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a rolling update: Pods that are wanted, additional Pods, and missing Pods."""

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: Deployment) -> Bounds:
        replicas = wanted(deployment)
        strategy = deployment.spec.strategy
        if strategy is None or strategy.type == "Recreate" or strategy.rolling_update is None:
            return cls(replicas, 0, 0)
        rolling = strategy.rolling_update
        surge = scaled(rolling.max_surge if rolling.max_surge is not None else 0, replicas, round_up=True)
        unavailable = scaled(
            rolling.max_unavailable if rolling.max_unavailable is not None else 0, replicas, round_up=False
        )
        if surge == 0 and unavailable == 0:
            unavailable = 1  # both percentages were rounded to 0, which would allow no progress
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        return self.replicas + self.surge if self.replicas else 0

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable


@dataclass(slots=True)
class Sizes:
    """The replicas of each ReplicaSet, initially those of its spec."""

    sets: Sequence[ReplicaSet]
    annotations: Mapping[str, str]
    """The sizes of the Deployment that each ReplicaSet records."""
    by_name: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {each.metadata.name: each.spec.replicas or 0 for each in self.sets}

    def of(self, replica_set: ReplicaSet) -> int:
        return self.by_name[replica_set.metadata.name]

    def set(self, replica_set: ReplicaSet, size: int) -> None:
        self.by_name[replica_set.metadata.name] = max(size, 0)

    def total(self, sets: Iterable[ReplicaSet] | None = None) -> int:
        return sum(self.of(each) for each in (self.sets if sets is None else sets))

    @property
    def changes(self) -> list[tuple[ReplicaSet, int]]:
        """Return the ReplicaSets whose size changes.

        It includes ReplicaSets with Pods that have not recorded the current sizes of the Deployment, by which
        `is_scaling` decides.
        """
        return [(each, self.of(each)) for each in self.sets if self._changes(each)]

    def _changes(self, each: ReplicaSet) -> bool:
        size, before = self.of(each), each.spec.replicas or 0
        known = self.annotations.items() <= each.metadata.annotations.items()
        return size != before or (size > 0 and not known)


def wanted(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Recorded on each ReplicaSet, to distinguish a change of `spec.replicas` from a step of a rollout."""
    bounds = Bounds.of(deployment)
    return {DESIRED_REPLICAS: str(bounds.replicas), MAX_REPLICAS: str(bounds.replicas + bounds.surge)}


def available(sets: Iterable[ReplicaSet]) -> int:
    return sum(each.status.available_replicas or 0 for each in sets)


def by_age(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort by age, then by name."""
    return sorted(sets, key=lambda each: (str(each.metadata.creation_timestamp), each.metadata.name))


def is_complete(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Return whether the new ReplicaSet has all Pods, and they are available."""
    replicas = wanted(deployment)
    return (
        new is not None
        and (new.spec.replicas or 0) == replicas
        and new.metadata.annotations.get(DESIRED_REPLICAS) == str(replicas)
        and (new.status.available_replicas or 0) == replicas
    )


def size_at_birth(deployment: Deployment, olds: Sequence[ReplicaSet]) -> int:
    """Return the initial replicas of a new ReplicaSet."""
    bounds = Bounds.of(deployment)
    if _recreates(deployment):
        return bounds.replicas
    room = bounds.most - sum(old.spec.replicas or 0 for old in olds)
    return max(0, min(room, bounds.replicas))


def waits_for_old_pods(deployment: Deployment, olds: Sequence[ReplicaSet]) -> bool:
    """Return whether the new ReplicaSet is not created yet: Pods of old ones exist, and the strategy is Recreate."""
    return _recreates(deployment) and any((old.spec.replicas or 0) > 0 or _has_pods(old) for old in olds)


def is_scaling(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Return whether `spec.replicas` changed since the ReplicaSets were last sized. They are scaled before the rollout
    continues.
    """
    replicas = str(wanted(deployment))
    sized = (each for each in sets if (each.spec.replicas or 0) > 0)
    return any(each.metadata.annotations.get(DESIRED_REPLICAS, replicas) != replicas for each in sized)


def scale(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes after a change of `spec.replicas`, or while paused: the ReplicaSets keep their proportions."""
    sets = [*olds, *([new] if new else [])]
    sizes = Sizes(sets, size_annotations(deployment))
    active = [each for each in sets if sizes.of(each) > 0]
    bounds = Bounds.of(deployment)
    if len(active) <= 1:
        only = active[0] if active else new or (by_age(olds)[-1] if olds else None)
        if only is not None:
            sizes.set(only, bounds.replicas)
    elif is_complete(deployment, new):
        for old in olds:
            sizes.set(old, 0)
    elif not _recreates(deployment):
        _share(sizes, active, bounds, deployment)
    return sizes


def _share(sizes: Sizes, active: Sequence[ReplicaSet], bounds: Bounds, deployment: Deployment) -> None:
    """Distribute the change over the active ReplicaSets by size. The largest gets the rounding difference."""
    change = bounds.most - sizes.total(active)
    if change == 0:
        return
    newest_first = list(reversed(by_age(active)))
    order = sorted(newest_first, key=sizes.of, reverse=True)
    if change < 0:
        order = sorted(by_age(active), key=sizes.of, reverse=True)
    left = change
    before = {each.metadata.name: sizes.of(each) for each in order}
    for each in order:
        share = _proportion(before[each.metadata.name], each, bounds, deployment)
        share = min(share, left) if change > 0 else max(share, left)
        sizes.set(each, before[each.metadata.name] + share)
        left -= share
    if left:
        sizes.set(order[0], sizes.of(order[0]) + left)


def _proportion(size: int, replica_set: ReplicaSet, bounds: Bounds, deployment: Deployment) -> int:
    """Return this ReplicaSet's part of the change, in proportion to the previous maximum."""
    annotated = replica_set.metadata.annotations.get(MAX_REPLICAS, "")
    most_before = int(annotated) if annotated.isdecimal() and int(annotated) else deployment.status.replicas or 0
    if not most_before:
        return 0
    return (2 * size * bounds.most + most_before) // (2 * most_before) - size


def roll(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> Sizes:
    """Return the next step towards the new ReplicaSet. It is None while it `waits_for_old_pods`."""
    sizes = Sizes([*olds, *([new] if new else [])], size_annotations(deployment))
    if new is None or _recreates(deployment):
        _recreate(sizes, deployment, new, olds)
        return sizes
    bounds = Bounds.of(deployment)
    before = sizes.of(new)
    _grow(sizes, bounds, new)
    if sizes.of(new) == before:
        _shrink(sizes, bounds, new, olds)
    return sizes


def _recreates(deployment: Deployment) -> bool:
    return deployment.spec.strategy is not None and deployment.spec.strategy.type == "Recreate"


def _recreate(sizes: Sizes, deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> None:
    if sizes.total(olds):
        for old in olds:
            sizes.set(old, 0)
    elif new is not None and not any(_has_pods(old) for old in olds):
        sizes.set(new, wanted(deployment))


def _has_pods(replica_set: ReplicaSet) -> bool:
    """Return whether a ReplicaSet has Pods, or Pods that are being deleted."""
    return bool(replica_set.status.replicas or replica_set.status.terminating_replicas)


def _grow(sizes: Sizes, bounds: Bounds, new: ReplicaSet) -> None:
    size = sizes.of(new)
    if size > bounds.replicas:
        sizes.set(new, bounds.replicas)
    elif size < bounds.replicas:
        room = bounds.most - sizes.total()
        sizes.set(new, size + max(0, min(room, bounds.replicas - size)))


def _shrink(sizes: Sizes, bounds: Bounds, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> None:
    """Scale the old ReplicaSets down as availability allows. Unhealthy Pods are removed first."""
    missing_in_new = sizes.of(new) - (new.status.available_replicas or 0)
    allowed = sizes.total() - bounds.least_available - missing_in_new
    if allowed <= 0:
        return
    for old in by_age(olds):
        unhealthy = sizes.of(old) - (old.status.available_replicas or 0)
        taken = max(0, min(allowed, unhealthy))
        sizes.set(old, sizes.of(old) - taken)
        allowed -= taken
    allowed = available([*olds, new]) - bounds.least_available
    for old in by_age(olds):
        taken = max(0, min(allowed, sizes.of(old)))
        sizes.set(old, sizes.of(old) - taken)
        allowed -= taken
