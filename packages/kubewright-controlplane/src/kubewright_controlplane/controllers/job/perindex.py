"""Jobs whose indexes fail on their own: `backoffLimitPerIndex`. Decisions only: reads and writes nothing.

The number of failures of an index is in annotations of its newest Pod. A failed Pod therefore keeps its finalizer until
its replacement exists.

Follows kubernetes/pkg/controller/job (indexed_job_utils.go).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.common import pods
from kubewright_controlplane.controllers.job import indexes, policy, tally

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def has_limit(job: Job) -> bool:
    return job.spec.backoff_limit_per_index is not None


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of a Job's indexes."""

    indexes: frozenset[int]
    """The indexes that have failed, including those that are not in the status yet."""
    last: Mapping[int, Pod]
    """The failed Pod of each index that is to be replaced."""

    @classmethod
    def of(cls, job: Job, children: Sequence[Pod], succeeded: Collection[int]) -> Failures:
        if not has_limit(job):
            return cls(frozenset(), {})
        tracked = [pod for pod in children if tally.is_tracked(pod)]
        fresh = tally.indexes_of(job, (pod for pod in tracked if _fails_index(job, pod)))
        failed = frozenset(indexes.parse(job.status.failed_indexes, job.spec.completions) | fresh)
        settled = failed | set(succeeded) | tally.indexes_of(job, filter(pods.is_active, children))
        return cls(failed, _last(job, tracked, settled))

    def holds(self, pod: Pod) -> bool:
        """Return whether the Pod keeps its finalizer until it is replaced."""
        return any(each.metadata.uid == pod.metadata.uid for each in self.last.values())

    def wait(self, index: int, now: datetime) -> timedelta:
        """Return the pause before the next Pod of an index. It grows with each failure of the index."""
        pod = self.last.get(index)
        ended = tally.ended_at(pod) if pod is not None else None
        if pod is None or ended is None:
            return timedelta(0)
        return max(timedelta(0), ended + tally.pause_after(_all(pod) + 1) - now)

    def annotations(self, job: Job, index: int) -> dict[str, str]:
        """Return the annotations of the next Pod of an index: how often the index has failed."""
        pod = self.last.get(index)
        if pod is None:
            return {FAILURES: "0"}
        counts = policy.verdict(job, pod).counts
        ignored = _count(pod, IGNORED) + (not counts)
        return {FAILURES: str(_count(pod, FAILURES) + counts), **({IGNORED: str(ignored)} if ignored else {})}


def _fails_index(job: Job, pod: Pod) -> bool:
    if not tally.has_failed(job, pod):
        return False
    verdict = policy.verdict(job, pod)
    return verdict.fails_index or (verdict.counts and _count(pod, FAILURES) >= (job.spec.backoff_limit_per_index or 0))


def _last(job: Job, tracked: Iterable[Pod], settled: Collection[int]) -> dict[int, Pod]:
    found: dict[int, Pod] = {}
    for pod in tracked:
        index = tally.index_of(pod)
        if index is None or index in settled or index >= (job.spec.completions or 0) or not tally.has_failed(job, pod):
            continue
        before = found.get(index)
        if before is None or _all(before) <= _all(pod):
            found[index] = pod
    return found


def _all(pod: Pod) -> int:
    return _count(pod, FAILURES) + _count(pod, IGNORED)


def _count(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdecimal() else 0
