"""The progress of a Job: whether and why it ends, and its status. Reads and writes nothing.

A Job that is about to end has the condition `SuccessCriteriaMet` or `FailureTarget`. It gets `Complete` or `Failed`
when the last of its Pods has stopped.

Follows kubernetes/pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from kubewright.apis.batch.v1 import Job, JobCondition, JobStatus, UncountedTerminatedPods
from kubewright.apis.core.v1 import Pod
from kubewright.controllers import Result
from kubewright_controlplane.common import pods
from kubewright_controlplane.common.durations import duration
from kubewright_controlplane.controllers.job import indexes, perindex, policy, tally
from kubewright_controlplane.controllers.job.perindex import Failures

_INTERIM: Final = {True: "SuccessCriteriaMet", False: "FailureTarget"}
_FINAL: Final = {True: "Complete", False: "Failed"}


class End(NamedTuple):
    """Why a Job ends."""

    succeeded: bool
    reason: str
    message: str


def is_finished(job: Job) -> bool:
    return any(_condition(job.status, kind) for kind in _FINAL.values())


def is_suspended(status: JobStatus) -> bool:
    return _condition(status, "Suspended") is not None


def complete() -> End:
    return End(True, "CompletionsReached", "Reached expected number of succeeded pods")


def verdict(job: Job, children: Sequence[Pod], count: tally.Tally, failures: Failures, now: datetime) -> End | None:
    """Return whether the Job ends before its work is done. An earlier decision is kept."""
    for succeeded, kind in _INTERIM.items():
        before = _condition(job.status, kind)
        if before is not None:
            return End(succeeded, before.reason or "", before.message or "")
    for pod in children:
        error = policy.verdict(job, pod).error if tally.has_failed(job, pod) else ""
        if error:
            return End(False, "PodFailurePolicy", error)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    if count.failed > limit or _restarted_too_often(job, children, limit):
        return End(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = time_left(job, now)
    if left is not None and left <= timedelta(0):
        return End(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    most, failed = job.spec.max_failed_indexes, len(failures.indexes)
    if most is not None and failed > most:
        return End(False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    if failed and failed + len(count.succeeded_indexes) >= (job.spec.completions or 0):
        return End(False, "FailedIndexes", "Job has failed indexes")
    matched = policy.success(job, count.succeeded_indexes)
    return End(True, "SuccessPolicy", matched) if matched else None


def time_left(job: Job, now: datetime) -> timedelta | None:
    """Return the time left of the Job's deadline; None without a deadline."""
    seconds, start = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or job.spec.suspend:
        return None
    return (start or now) + duration(seconds) - now


def again(job: Job, wait: timedelta | None, now: datetime) -> Result | None:
    """Return when to check again without a change."""
    times = [each for each in (wait, time_left(job, now)) if each is not None and each > timedelta(0)]
    return Result(requeue_after=min(times) + timedelta(milliseconds=10)) if times else None


def ended(job: Job, children: Sequence[Pod], failures: Failures, end: End | None) -> list[Pod]:
    """Return the Pods to count: those that ended, or all of them if the Job ends."""

    def counts(pod: Pod) -> bool:
        if end is not None or pod.status.phase == "Succeeded":
            return True
        return tally.has_failed(job, pod) and not failures.holds(pod)

    return [pod for pod in children if tally.is_tracked(pod) and counts(pod)]


def noted(
    job: Job, count: tally.Tally, failures: Failures, ended: Sequence[Pod], end: End | None, now: datetime
) -> JobStatus:
    """Return the status that records `ended`, before their finalizers are removed."""
    status = counted(job.status, still_held={pod.metadata.uid for pod in ended})
    before = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded, failed = list(before.succeeded), list(before.failed)
    for pod in ended:
        uid = pod.metadata.uid
        if uid in succeeded or uid in failed:
            continue
        if pod.status.phase == "Succeeded":
            succeeded += [] if tally.is_indexed(job) else [uid]
        elif (tally.has_failed(job, pod) or (end and not end.succeeded)) and policy.verdict(job, pod).counts:
            failed.append(uid)
    status.uncounted_terminated_pods = UncountedTerminatedPods(succeeded=succeeded, failed=failed)
    if tally.is_indexed(job):
        done = indexes.parse(status.completed_indexes, job.spec.completions) | tally.indexes_of(
            job, (pod for pod in ended if pod.status.phase == "Succeeded")
        )
        status.completed_indexes = indexes.text_of(done) or None
        status.succeeded = len(done) or None
        if perindex.has_limit(job):
            status.failed_indexes = indexes.text_of(failures.indexes)
    status.active = len(count.active) or None
    status.ready = sum(pods.is_ready(pod) for pod in count.active)
    status.terminating = count.terminating
    _start(job, status, now)
    if end is not None:
        _put(status, _INTERIM[end.succeeded], "True", end.reason, end.message, now)
    return status


def counted(status: JobStatus, still_held: set[str] | None = None) -> JobStatus:
    """Return the status in which recorded Pods without a finalizer are counted."""
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    held = still_held or set()
    succeeded = sum(uid not in held for uid in noted.succeeded)
    failed = sum(uid not in held for uid in noted.failed)
    return msgspec.structs.replace(
        status,
        succeeded=((status.succeeded or 0) + succeeded) or None,
        failed=((status.failed or 0) + failed) or None,
        uncounted_terminated_pods=UncountedTerminatedPods(
            succeeded=[uid for uid in noted.succeeded if uid in held],
            failed=[uid for uid in noted.failed if uid in held],
        ),
        conditions=list(status.conditions),
    )


def finished(status: JobStatus, end: End, now: datetime) -> JobStatus:
    """Return the status of a finished Job."""
    _put(status, _FINAL[end.succeeded], "True", end.reason, end.message, now)
    if end.succeeded:
        status.completion_time = now
    return status


def _start(job: Job, status: JobStatus, now: datetime) -> None:
    """Set the start time, and the condition of a Job that was suspended at some time."""
    before = _find(status, "Suspended")
    if job.spec.suspend:
        status.start_time = None
        if before is None or before.status != "True":
            _put(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
    elif before is not None and before.status == "True":
        status.start_time = now
        _put(status, "Suspended", "False", "JobResumed", "Job resumed", now)
    elif status.start_time is None:
        status.start_time = now


def _restarted_too_often(job: Job, children: Sequence[Pod], limit: int) -> bool:
    """Return whether restarts of containers within Pods exceed the limit."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        each.restart_count or 0
        for pod in children
        if not pods.is_finished(pod)
        for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(limit, 1)


def _condition(status: JobStatus, kind: str) -> JobCondition | None:
    found = _find(status, kind)
    return found if found is not None and found.status == "True" else None


def _find(status: JobStatus, kind: str) -> JobCondition | None:
    return next((each for each in status.conditions if each.type == kind), None)


def _put(status: JobStatus, kind: str, value: str, reason: str, message: str, now: datetime) -> None:
    before = _find(status, kind)
    if before is not None and before.status == value:
        return
    made = JobCondition(
        type=kind, status=value, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )
    status.conditions = [each for each in status.conditions if each is not before] + [made]
