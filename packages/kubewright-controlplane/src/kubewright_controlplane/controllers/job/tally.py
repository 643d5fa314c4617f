"""The counts of a Job's Pods. Decisions only: reads and writes nothing.

Each Pod of a Job holds a finalizer until it is counted, so that no end of a Pod is missed. First its UID is recorded in
the status (`uncountedTerminatedPods`), then the finalizer is removed, then the count rises. After a crash between these
steps, the next step follows from the objects.

Follows kubernetes/pkg/controller/job and https://kubernetes.io/docs/concepts/workloads/controllers/job/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
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
    """Return the completion index of a Pod; None without one."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def is_tracked(pod: Pod) -> bool:
    """Return whether the Pod has not been counted yet."""
    return FINALIZER in pod.metadata.finalizers


def replaces_failed_only(job: Job) -> bool:
    """Return whether a terminating Pod is only replaced after it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Return whether the Pod ended without success, or counts as failed because it is being deleted."""
    if pod.status.phase == "Failed":
        return True
    if pod.metadata.deletion_timestamp is None or pod.status.phase == "Succeeded":
        return False
    return not replaces_failed_only(job) or (pod.status.phase or "Pending") == "Pending"


@dataclass(slots=True)
class Tally:
    """The counts at one moment."""

    active: list[Pod]
    terminating: int
    succeeded: int
    failed: int
    succeeded_indexes: set[int]
    """The indexes that have succeeded, including those that are not in the status yet."""

    @classmethod
    def of(cls, job: Job, children: Sequence[Pod]) -> Tally:
        status = job.status
        noted = status.uncounted_terminated_pods
        noted_succeeded = set(noted.succeeded if noted else ())
        noted_failed = set(noted.failed if noted else ())
        fresh = [pod for pod in children if is_tracked(pod) and pod.metadata.uid not in noted_succeeded | noted_failed]
        succeeded = [pod for pod in fresh if pod.status.phase == "Succeeded"]
        failed = [pod for pod in fresh if has_failed(job, pod) and policy.verdict(job, pod).counts]
        done = (
            indexes.parse(status.completed_indexes, job.spec.completions) | indexes_of(job, succeeded)
            if is_indexed(job)
            else set[int]()
        )
        return cls(
            active=[pod for pod in children if pods.is_active(pod)],
            terminating=sum(pods.is_terminating(pod) for pod in children),
            succeeded=len(done) if is_indexed(job) else (status.succeeded or 0) + len(noted_succeeded) + len(succeeded),
            failed=(status.failed or 0) + len(noted_failed) + len(failed),
            succeeded_indexes=done,
        )

    def wanted(self, job: Job) -> int:
        """Return the number of Pods that should be active."""
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

    def free_indexes(self, job: Job, children: Iterable[Pod], count: int, failed: Set[int]) -> list[int]:
        """Return the lowest indexes without an active Pod that have neither succeeded nor failed."""
        taken = self.succeeded_indexes | failed | {index_of(pod) for pod in self.active}
        if replaces_failed_only(job):
            taken |= {index_of(pod) for pod in children if pods.is_terminating(pod)}
        return [index for index in range(job.spec.completions or 0) if index not in taken][:count]


def indexes_of(job: Job, found: Iterable[Pod]) -> set[int]:
    """Return the indexes of Pods that are in the Job's range."""
    numbers = (index_of(pod) for pod in found)
    return {number for number in numbers if number is not None and number < (job.spec.completions or 0)}


def surplus(job: Job, tally: Tally, now: datetime) -> list[Pod]:
    """Return active Pods to delete: duplicates of an index, and those beyond the wanted number."""
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
    """Return the pause before another Pod is created. It grows with each failure since the last success."""
    successes = [ended_at(pod) for pod in children if pod.status.phase == "Succeeded"]
    last_success = max(filter(None, successes), default=None)
    ends = [ended_at(pod) for pod in children if has_failed(job, pod)]
    failures = [end for end in ends if end is not None and (last_success is None or end > last_success)]
    if not failures:
        return timedelta(0)
    return max(timedelta(0), max(failures) + pause_after(len(failures)) - now)


def pause_after(failures: int) -> timedelta:
    """Return the pause after so many failures in a row."""
    return min(_FIRST_WAIT * (1 << min(failures - 1, 10)), _LONGEST_WAIT)


def ended_at(pod: Pod) -> datetime | None:
    """Return when the last of a Pod's containers ended."""
    states = (each.state.terminated for each in pod.status.container_statuses if each.state is not None)
    ends = [state.finished_at for state in states if state is not None and state.finished_at is not None]
    ready = pods.condition(pod, "Ready")
    return max(ends, default=(ready.last_transition_time if ready else None) or pod.metadata.deletion_timestamp)
