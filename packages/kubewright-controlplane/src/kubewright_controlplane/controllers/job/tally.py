"""What a Job's pods amount to. Decisions only: nothing is read or written here.

Each pod of a Job holds a finalizer until it is counted, so that no end of a pod is missed: first its uid is noted in
the status (`uncountedTerminatedPods`), then the finalizer goes, then the count rises. A crash between the steps is
made up for, as each step can be told from what is there.

Follows kubernetes/pkg/controller/job and https://kubernetes.io/docs/concepts/workloads/controllers/job/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.common import pods
from kubewright_controlplane.controllers.job import indexes, policy

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FIRST_WAIT: Final = timedelta(seconds=10)
_LONGEST_WAIT: Final = timedelta(minutes=10)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def index_of(pod: Pod) -> int | None:
    """The completion index of a pod; None where it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def is_tracked(pod: Pod) -> bool:
    """It has not been counted yet."""
    return FINALIZER in pod.metadata.finalizers


def replaces_failed_only(job: Job) -> bool:
    """A pod that is on its way out is replaced when it has ended, not before."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """It ended without success, or is taken for that because it is being deleted."""
    if pod.status.phase == "Failed":
        return True
    if pod.metadata.deletion_timestamp is None or pod.status.phase == "Succeeded":
        return False
    return not replaces_failed_only(job) or (pod.status.phase or "Pending") == "Pending"


@dataclass(slots=True)
class Tally:
    """Counts of one moment."""

    active: list[Pod]
    terminating: int
    succeeded: int
    failed: int
    succeeded_indexes: set[int]
    """Indexes that have succeeded, those included that the status does not have yet."""

    @classmethod
    def of(cls, job: Job, children: Sequence[Pod]) -> Tally:
        status = job.status
        noted = status.uncounted_terminated_pods
        noted_succeeded = set(noted.succeeded if noted else ())
        noted_failed = set(noted.failed if noted else ())
        fresh = [pod for pod in children if is_tracked(pod) and pod.metadata.uid not in noted_succeeded | noted_failed]
        succeeded = [pod for pod in fresh if pod.status.phase == "Succeeded"]
        failed = [pod for pod in fresh if has_failed(job, pod) and policy.verdict(job, pod).counts]
        done = indexes.parse(status.completed_indexes) | indexes_of(job, succeeded) if is_indexed(job) else set[int]()
        return cls(
            active=[pod for pod in children if pods.is_active(pod)],
            terminating=sum(pods.is_terminating(pod) for pod in children),
            succeeded=len(done) if is_indexed(job) else (status.succeeded or 0) + len(noted_succeeded) + len(succeeded),
            failed=(status.failed or 0) + len(noted_failed) + len(failed),
            succeeded_indexes=done,
        )

    def wanted(self, job: Job) -> int:
        """How many pods should be at work."""
        parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
        if job.spec.suspend:
            return 0
        if job.spec.completions is None:
            return len(self.active) if self.succeeded else parallelism
        return max(0, min(parallelism, job.spec.completions - self.succeeded))

    def is_complete(self, job: Job) -> bool:
        if self.active:
            return False
        return self.succeeded > 0 if job.spec.completions is None else self.succeeded >= job.spec.completions

    def free_indexes(self, job: Job, children: Iterable[Pod], count: int) -> list[int]:
        """The lowest indexes that nothing works on and that have not succeeded."""
        taken = self.succeeded_indexes | {index_of(pod) for pod in self.active}
        if replaces_failed_only(job):
            taken |= {index_of(pod) for pod in children if pods.is_terminating(pod)}
        return [index for index in range(job.spec.completions or 0) if index not in taken][:count]


def indexes_of(job: Job, found: Iterable[Pod]) -> set[int]:
    """The indexes of pods, as far as the Job has them."""
    numbers = (index_of(pod) for pod in found)
    return {number for number in numbers if number is not None and number < (job.spec.completions or 0)}


def surplus(job: Job, tally: Tally, now: datetime) -> list[Pod]:
    """Pods at work that should not be: of an index that another one has, or beyond the number wanted."""
    first: list[Pod] = []
    rest: list[Pod] = []
    seen: set[int] = set()
    for pod in tally.active:
        index = index_of(pod)
        spare = is_indexed(job) and (index is None or index in seen or index >= (job.spec.completions or 0))
        (first if spare else rest).append(pod)
        if index is not None:
            seen.add(index)
    too_many = max(0, len(tally.active) - tally.wanted(job) - len(first))
    return first + pods.in_order_of_deletion(rest, now)[:too_many]


def wait_after_failures(job: Job, children: Iterable[Pod], now: datetime) -> timedelta:
    """How long to wait before another pod is made: longer with each failure since the last success."""
    successes = [ended_at(pod) for pod in children if pod.status.phase == "Succeeded"]
    last_success = max(filter(None, successes), default=None)
    ends = [ended_at(pod) for pod in children if has_failed(job, pod)]
    failures = [end for end in ends if end is not None and (last_success is None or end > last_success)]
    if not failures:
        return timedelta(0)
    wait = min(_FIRST_WAIT * (1 << min(len(failures) - 1, 10)), _LONGEST_WAIT)
    return max(timedelta(0), max(failures) + wait - now)


def ended_at(pod: Pod) -> datetime | None:
    """When the last of a pod's containers ended."""
    states = (each.state.terminated for each in pod.status.container_statuses if each.state is not None)
    ends = [state.finished_at for state in states if state is not None and state.finished_at is not None]
    ready = pods.condition(pod, "Ready")
    return max(ends, default=(ready.last_transition_time if ready else None) or pod.metadata.deletion_timestamp)
