"""The controller of EtcdBackupSchedule: a backup at each time, and no more than are to be kept.

The name of a backup has the time that it is for, so a killed operator never takes one twice. A backup that is deleted
to make room is always older than `keep` successful ones: a schedule that fails deletes nothing that is good.
"""

from datetime import datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubewright import AlreadyExists, Context, ObjectMeta, Result, controller, set_condition
from kubewright.controllers import DeletedContext
from kubewright.machinery import cron

from etcd_operator import metrics
from etcd_operator.api.v1.etcdbackup import EtcdBackup, EtcdBackupSpec
from etcd_operator.api.v1.etcdbackupschedule import EtcdBackupSchedule, EtcdBackupScheduleSpec

SCHEDULE: Final = "etcd.kubewright.dev/schedule"
MOMENT: Final = "etcd.kubewright.dev/scheduled-at"
ENDED: Final = ("Succeeded", "Failed")


def times_of(spec: EtcdBackupScheduleSpec) -> cron.Schedule | cron.FixedDelay:
    """Return the times of a schedule. Raises ValueError, with the field."""
    try:
        zone = ZoneInfo(spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(
            f"spec.timeZone: unknown time zone {spec.time_zone!r}; use one such as Europe/Berlin"
        ) from None
    try:
        return cron.parse(f"@every {spec.every}" if spec.every is not None else spec.schedule or "", zone)
    except ValueError as error:
        if spec.every is not None:
            raise ValueError(f"spec.every: {error}; use an interval such as 6h") from None
        raise ValueError(f"spec.schedule: {error}; use five fields such as 0 */6 * * *") from None


@controller(EtcdBackupSchedule, owns=[EtcdBackup], reconcile_deleted=True)
async def reconcile(ctx: Context[EtcdBackupSchedule] | DeletedContext[EtcdBackupSchedule]) -> Result | None:
    if isinstance(ctx, DeletedContext):
        metrics.forget(EtcdBackupSchedule, ctx.request)
        return None
    schedule, now = ctx.object, ctx.clock.now()
    backups = sorted(await ctx.list(EtcdBackup, owned=True), key=moment_of)
    await delete_old(ctx, backups)
    try:
        times = times_of(schedule.spec)
    except ValueError as error:
        await report(ctx, backups, None, str(error))
        return None
    latest = moment_of(backups[-1]) if backups else schedule.status.last_schedule_time
    last = latest or schedule.metadata.creation_timestamp or now
    due = times.latest(last, now)
    following = None if schedule.spec.suspend else times.after(due or last)
    await report(ctx, backups, following)
    if schedule.spec.suspend:
        return None
    if due is not None and await has_room(ctx, backups):
        await start(ctx, due)
    return Result(requeue_after=following - now + timedelta(milliseconds=100)) if following is not None else None


async def has_room(ctx: Context[EtcdBackupSchedule], backups: list[EtcdBackup]) -> bool:
    """Return whether a backup may start now. The end of an active one is an event, which leads here again."""
    active = [each for each in backups if each.status.phase not in ENDED]
    policy = ctx.object.spec.concurrency_policy
    if policy == "Replace":
        for each in active:
            await ctx.delete(each)
    return not active or policy != "Forbid"


async def start(ctx: Context[EtcdBackupSchedule], moment: datetime) -> None:
    schedule = ctx.object
    backup = EtcdBackup(
        metadata=ObjectMeta(
            name=f"{schedule.metadata.name}-{moment:%Y%m%d-%H%M%S}",
            labels={SCHEDULE: schedule.metadata.name},
            annotations={MOMENT: moment.isoformat()},
        ),
        spec=EtcdBackupSpec(cluster=schedule.spec.cluster, claim=schedule.spec.claim),
    )
    try:
        await ctx.create(backup)
    except AlreadyExists:
        return
    ctx.events.normal(schedule, "BackupCreated", f"EtcdBackup {backup.metadata.name!r} was due at {moment}")


async def delete_old(ctx: Context[EtcdBackupSchedule], backups: list[EtcdBackup]) -> None:
    spec = ctx.object.spec
    good = [each for each in backups if each.status.phase == "Succeeded"]
    bad = [each for each in backups if each.status.phase == "Failed"]
    for each in (*good[: -spec.keep], *bad[: len(bad) - spec.keep_failed if len(bad) > spec.keep_failed else 0]):
        if each.metadata.deletion_timestamp is None:
            await ctx.delete(each)


async def report(
    ctx: Context[EtcdBackupSchedule], backups: list[EtcdBackup], following: datetime | None, mistake: str = ""
) -> None:
    """Write the status. `mistake` is what is wrong with the spec."""
    schedule, status = ctx.object, ctx.object.status
    is_new = status.observed_generation != schedule.metadata.generation
    status.observed_generation, status.next_schedule_time = schedule.metadata.generation or 0, following
    ended = [each for each in backups if each.status.phase in ENDED]
    good = [each for each in ended if each.status.phase == "Succeeded"]
    if backups:
        status.last_schedule_time = moment_of(backups[-1])
    if good:
        status.last_backup, status.last_success_time = good[-1].metadata.name, good[-1].status.completion_time
    failed = ended[-1] if ended and ended[-1].status.phase == "Failed" else None
    if mistake:
        judge(ctx, "False", "InvalidSchedule", mistake)
    elif failed is not None:
        judge(ctx, "False", "BackupFailed", f"{failed.metadata.name}: {failed.status.message}")
    elif following is None:
        judge(ctx, "True", "Suspended", "no backup is due")
    else:
        judge(ctx, "True", "Scheduled", "backups are taken when they are due")
    await ctx.update_status(status)
    metrics.report_ready(schedule, status.conditions)
    if is_new and mistake:
        ctx.events.warning(schedule, "InvalidSchedule", mistake)
    elif is_new and following is not None:
        ctx.events.normal(schedule, "Scheduled", f"The next backup is due at {following}")


def judge(ctx: Context[EtcdBackupSchedule], ready: Literal["True", "False"], reason: str, message: str) -> None:
    set_condition(
        ctx.object.status.conditions,
        "Ready",
        ready,
        reason=reason,
        message=message,
        observed_generation=ctx.object.metadata.generation,
    )


def moment_of(backup: EtcdBackup) -> datetime:
    return datetime.fromisoformat(backup.metadata.annotations[MOMENT])
