"""The reconciler of CronJobs.

The name of a Job contains its scheduled time, so that it is created once, even if the controller restarts.

Follows kubernetes/pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright._runtime.clock import Clock
from kubewright.apis.batch.v1 import CronJob, CronJobStatus, Job
from kubewright.apis.meta.v1 import ObjectMeta, owner_reference
from kubewright.client._rest import reference_to
from kubewright.controllers import Context, Controller, Result, controller
from kubewright.machinery import cron, time
from kubewright.machinery.errors import AlreadyExists
from kubewright_controlplane.common.durations import duration

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_NEVER: Final = "time difference between two schedules is less than 1 second"
"""What Kubernetes reports of a schedule without a next time."""
_PADDING: Final = timedelta(milliseconds=100)


class CronJobReconciler:
    """Creates Jobs at their scheduled times, and deletes old ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def reconcile(self, ctx: Context[CronJob]) -> Result | None:
        cron_job, now = ctx.object, self._clock.now()
        jobs = list(await ctx.list(Job, owned=True))
        status = _status(cron_job, jobs)
        deleted = await self._tidy(ctx, jobs)
        _report_ended(ctx, jobs, deleted)
        times = self._schedule(ctx)
        if times is not None and times.after(cron_job.metadata.creation_timestamp or now) is None:
            note = f"invalid schedule: {cron_job.spec.schedule} : {_NEVER}"
            ctx.events.warning(cron_job, "InvalidSchedule", note, action="Schedule")
            times = None
        due = _due(cron_job, times, now) if times else None
        if due is not None and due != cron_job.status.last_schedule_time:
            await self._start(ctx, status, jobs, due)
        await ctx.update_status(status)
        following = times.after(due or now) if times else None
        return Result(requeue_after=max(following - now, timedelta(0)) + _PADDING) if following else None

    def _schedule(self, ctx: Context[CronJob]) -> cron.Schedule | cron.FixedDelay | None:
        """Return the schedule; None while it is suspended or invalid."""
        spec = ctx.object.spec
        if spec.suspend:
            return None
        try:
            return cron.parse(spec.schedule, ZoneInfo(spec.time_zone) if spec.time_zone else UTC)
        except (ZoneInfoNotFoundError, ValueError) as error:
            ctx.events.warning(ctx.object, "UnparseableSchedule", f"unparseable schedule: {error}", action="Schedule")
            return None

    async def _start(self, ctx: Context[CronJob], status: CronJobStatus, jobs: Sequence[Job], due: datetime) -> None:
        cron_job, policy = ctx.object, ctx.object.spec.concurrency_policy
        if policy == "Forbid" and status.active:
            note = "Not starting job because prior execution is running and concurrency policy is Forbid"
            ctx.events.normal(cron_job, "JobAlreadyActive", note, action="Schedule")
            return
        if policy == "Replace":
            for job in jobs:
                if _end(job) is None:
                    await _delete(ctx, job)
            status.active = []
        try:
            made = await ctx.create(_job(cron_job, due))
        except AlreadyExists:
            made = await ctx.get(Job, _name(cron_job, due))
        ctx.events.normal(cron_job, "SuccessfulCreate", f"Created job {made.metadata.name}", action="Create")
        if all(each.uid != made.metadata.uid for each in status.active):
            status.active = [*status.active, reference_to(made)]
        status.last_schedule_time = due

    async def _tidy(self, ctx: Context[CronJob], jobs: Sequence[Job]) -> set[str]:
        """Delete the oldest Jobs beyond the history limits. Returns the UIDs of the deleted Jobs."""
        spec = ctx.object.spec
        deleted: set[str] = set()
        for kind, limit in (
            ("Complete", spec.successful_jobs_history_limit),
            ("Failed", spec.failed_jobs_history_limit),
        ):
            ended = [job for job in jobs if _end(job) == kind and job.metadata.deletion_timestamp is None]
            ended.sort(key=lambda job: (str(job.status.start_time), job.metadata.name))
            for job in ended[: len(ended) - limit] if limit is not None and len(ended) > limit else ():
                await _delete(ctx, job)
                deleted.add(job.metadata.uid)
        return deleted


async def _delete(ctx: Context[CronJob], job: Job) -> None:
    await ctx.delete(job, propagation="Background")
    ctx.events.normal(ctx.object, "SuccessfulDelete", f"Deleted job {job.metadata.name}", action="Delete")


def _report_ended(ctx: Context[CronJob], jobs: Sequence[Job], deleted: Collection[str]) -> None:
    """Record which of the active Jobs have ended or no longer exist, except those just deleted."""
    by_uid = {job.metadata.uid: job for job in jobs}
    for each in ctx.object.status.active:
        if each.uid in deleted:
            continue
        job = by_uid.get(each.uid or "")
        end = _end(job) if job is not None else None
        if job is None:
            ctx.events.normal(ctx.object, "MissingJob", f"Active job went missing: {each.name}", action="Check")
        elif end is not None:
            note = f"Saw completed job: {each.name}, condition: {end}"
            ctx.events.normal(ctx.object, "SawCompletedJob", note, action="Check")


def _due(cron_job: CronJob, times: cron.Schedule | cron.FixedDelay, now: datetime) -> datetime | None:
    """Return the latest scheduled time since the last Job, unless the starting deadline has passed."""
    since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or now
    deadline = cron_job.spec.starting_deadline_seconds
    if deadline is not None:
        since = max(since, now - duration(deadline))
    return times.latest(since, now)


def _status(cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
    """Return the active Jobs, and when a Job last succeeded."""
    active = [job for job in jobs if _end(job) is None]
    successes = [job.status.completion_time for job in jobs if _end(job) == "Complete"]
    return CronJobStatus(
        active=[reference_to(job) for job in active],
        last_schedule_time=cron_job.status.last_schedule_time,
        last_successful_time=max(filter(None, [*successes, cron_job.status.last_successful_time]), default=None),
    )


def _end(job: Job) -> str | None:
    """Return `Complete` or `Failed`; None while the Job runs."""
    ends = (each.type for each in job.status.conditions if each.status == "True")
    return next((each for each in ends if each in ("Complete", "Failed")), None)


def _job(cron_job: CronJob, due: datetime) -> Job:
    template = cron_job.spec.job_template
    zone = ZoneInfo(cron_job.spec.time_zone) if cron_job.spec.time_zone else UTC
    scheduled = time.format(due) if zone is UTC else due.astimezone(zone).isoformat(timespec="seconds")
    return Job(
        metadata=ObjectMeta(
            name=_name(cron_job, due),
            namespace=cron_job.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations={**template.metadata.annotations, SCHEDULED: scheduled},
            owner_references=[owner_reference(cron_job)],
        ),
        spec=template.spec,
    )


def _name(cron_job: CronJob, due: datetime) -> str:
    return f"{cron_job.metadata.name}-{int(due.timestamp()) // 60}"


def cronjob_controller(clock: Clock) -> Controller[CronJob]:
    """Return the controller `cronjob-controller`."""
    declare = controller(CronJob, name="cronjob-controller", owns=[Job], namespace_ending="stop", workers=2)
    return declare(CronJobReconciler(clock))
