"""Decides what a StatefulSet does next with its Pods. Reads and writes nothing.

An `OrderedReady` set makes one step at a time: it creates a Pod when all Pods before it are available, and deletes Pods
from the highest ordinal down when all that stay are available. A `Parallel` set creates and deletes all at once. An
update replaces Pods from the highest ordinal down to the partition, at most `maxUnavailable` at a time.

Follows kubernetes/pkg/controller/statefulset/stateful_set_control.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.apis.apps.v1 import StatefulSet
from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.common import pods
from kubewright_controlplane.controllers.history import REVISION_HASH
from kubewright_controlplane.controllers.intstr import scaled
from kubewright_controlplane.controllers.statefulset import identity


@dataclass(slots=True)
class Step:
    """What to do now."""

    create: list[int] = field(default_factory=list[int])
    """Ordinals of the Pods to create."""
    delete: list[Pod] = field(default_factory=list[Pod])


@dataclass(frozen=True, slots=True)
class Members:
    """The Pods of a set by ordinal: those to keep, and those to delete, highest first."""

    places: Mapping[int, Pod | None]
    condemned: Sequence[Pod]

    @classmethod
    def of(cls, stateful_set: StatefulSet, present: Sequence[Pod]) -> Members:
        by_ordinal: dict[int, Pod] = {}
        for pod in present:
            ordinal = identity.ordinal_of(stateful_set, pod)
            if ordinal is not None:
                by_ordinal[ordinal] = pod
        places = {ordinal: by_ordinal.pop(ordinal, None) for ordinal in identity.ordinals(stateful_set)}
        return cls(places, [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True)])


class Plan:
    """Computes the next step of a StatefulSet."""

    def __init__(self, stateful_set: StatefulSet, members: Members, revision: str, now: datetime) -> None:
        """`revision` is the name of the newest revision."""
        self._set = stateful_set
        self._members = members
        self._revision = revision
        self._now = now
        self._ordered = stateful_set.spec.pod_management_policy != "Parallel"

    def next(self) -> Step:
        return self._fill() or self._shrink() or self._update() or Step()

    def _fill(self) -> Step | None:
        """Create missing Pods, and replace those that have ended. An empty step waits."""
        create: list[int] = []
        delete: list[Pod] = []
        blocked = False
        for ordinal, pod in self._members.places.items():
            if pod is None:
                create.append(ordinal)
            elif pods.is_finished(pod):
                delete += [pod] if pod.metadata.deletion_timestamp is None else []
                blocked = True
            elif self._is_available(pod):
                continue
            if self._ordered:
                return Step(create, delete)
        return Step(create, delete) if create or delete or blocked else None

    def _shrink(self) -> Step | None:
        """Delete Pods beyond the wanted number."""
        condemned = self._members.condemned
        if not self._ordered:
            delete = [pod for pod in condemned if pod.metadata.deletion_timestamp is None]
            return Step(delete=delete) if delete else None
        if not condemned:
            return None
        highest = condemned[0]
        if highest.metadata.deletion_timestamp is not None:
            return Step()
        sick = [pod for pod in reversed(condemned) if not self._is_available(pod)]
        return Step() if sick and sick[0] is not highest and not self._is_available(highest) else Step(delete=[highest])

    def _update(self) -> Step | None:
        """Replace Pods of older revisions."""
        strategy = self._set.spec.update_strategy
        if strategy is not None and strategy.type == "OnDelete":
            return None
        places = list(self._members.places.values())
        most = self._may_be_unavailable()
        room = most - sum(pod is None or not self._is_available(pod) for pod in places)
        old: list[Pod] = []
        for pod in reversed(places[partition_of(self._set) :]):
            if pod is None:
                break
            if self._is_old(pod) and pod.metadata.deletion_timestamp is None:
                old.append(pod)
            elif most == 1 and not self._is_available(pod):
                break  # an updated Pod is available before the next one is replaced
            if most == 1 and old:
                return Step(delete=old)
        return Step(delete=old[:room]) if room > 0 and old else None

    def _may_be_unavailable(self) -> int:
        strategy = self._set.spec.update_strategy
        rolling = strategy.rolling_update if strategy else None
        if rolling is None or rolling.max_unavailable is None:
            return 1
        return max(1, scaled(rolling.max_unavailable, len(self._members.places), round_up=False))

    def _is_old(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(REVISION_HASH) != self._revision

    def _is_available(self, pod: Pod) -> bool:
        return is_available(self._set, pod, self._now)


def is_available(stateful_set: StatefulSet, pod: Pod, now: datetime) -> bool:
    """Return whether the Pod runs, has been ready long enough, and is not terminating."""
    delay = stateful_set.spec.min_ready_seconds or 0
    stays = pod.metadata.deletion_timestamp is None and pod.status.phase == "Running"
    return stays and pods.is_available(pod, delay, now)


def partition_of(stateful_set: StatefulSet) -> int:
    """Return the number of Pods, from the first, that an update does not change."""
    strategy = stateful_set.spec.update_strategy
    rolling = strategy.rolling_update if strategy else None
    return (rolling.partition or 0) if rolling else 0
