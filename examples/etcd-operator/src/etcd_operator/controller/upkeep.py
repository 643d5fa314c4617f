"""What keeps a healthy cluster healthy: compaction, defragmentation, alarms, and members that became slow.

All of it waits while a member is not healthy or the membership changes, and does one thing in a reconcile.
"""

from datetime import timedelta
from functools import partial

from etcd_operator.controller import growth
from etcd_operator.controller.members import Progress, Work, hand_over, remove
from etcd_operator.metrics import RESPONSES
from etcd_operator.slowness import Slowness
from etcd_operator.view import Seen

QUOTA_SHARE = 0.9
"""Share of the quota below which writes are allowed again after the alarm NOSPACE."""

FULL_PERCENT = 10
"""Share that is worth a defragmentation when the quota is used up. etcd counts pages as free only after a next write."""


async def keep_up(work: Work, slowness: Slowness) -> Progress | None:
    """Do the first thing that is due, if all members are healthy. What only a user can do holds nothing up."""
    if not work.view.all_healthy():
        return None
    warning: Progress | None = None
    speed = partial(watch_speed, slowness=slowness)
    for step in (compact, defragment, growth.follow_data, growth.expand_volumes, disarm, speed):
        progress = await step(work)
        if progress is not None and not progress.warning:
            return progress
        warning = warning or progress
    return warning


async def compact(work: Work) -> Progress | None:
    """Compact revisions that are older than those to keep, in steps of a tenth of these."""
    keep, status = work.cluster.spec.maintenance.compaction_revisions, work.cluster.status
    revision = max(int(each.status.header.revision) for each in work.view.voters if each.status)
    if not keep or revision - keep - status.compacted_revision < max(keep // 10, 1):
        return None
    async with work.any_etcd() as etcd:
        await etcd.compact(revision - keep)
    status.compacted_revision = revision - keep
    work.ctx.log.info("Revisions compacted", up_to=revision - keep)
    return None


async def defragment(work: Work) -> Progress | None:
    """Defragment one member whose database has enough free space, the leader last."""
    rules = work.cluster.spec.maintenance
    if not rules.defragment_percent:
        return None
    full = has_alarm(work, "NOSPACE")
    least, percent = (0, FULL_PERCENT) if full else (rules.defragment_min_bytes, rules.defragment_percent)
    due = [each for each in work.view.voters if is_fragmented(each, least, percent)]
    if not due:
        return None
    seen = min(due, key=lambda it: it.leads)
    if seen.leads and len(work.view.voters) > 1 and (moved := await hand_over(work, seen)) is not None:
        return moved
    async with work.etcd(seen) as etcd:
        await etcd.defragment()
    work.event("Defragmented", f"The database of {seen.name} was defragmented")
    return Progress("Defragmenting", f"{seen.name} was defragmented; {len(due) - 1} to go")


def is_fragmented(seen: Seen, least: int, percent: int) -> bool:
    """Return whether a member's database has at least this size, and this share of it is free."""
    if seen.status is None:
        return False
    size, used = int(seen.status.db_size), int(seen.status.db_size_in_use)
    return size >= least and (size - used) * 100 >= size * percent


async def disarm(work: Work) -> Progress | None:
    """Allow writes again when the databases are below the quota; report other alarms."""
    errors = [error for each in work.view.members if each.status for error in each.status.errors]
    if not errors:
        return None
    async with work.any_etcd() as etcd:
        alarms = await etcd.alarms()
        largest = max(int(each.status.db_size) for each in work.view.voters if each.status)
        if largest < work.cluster.quota_bytes * QUOTA_SHARE:
            for alarm in alarms:
                if alarm.alarm == "NOSPACE":
                    await etcd.disarm(alarm)
                    work.event("AlarmDisarmed", "The databases are below spec.quotaBytes again: writes are allowed")
    kinds = sorted({each.alarm for each in alarms})
    if "NOSPACE" in kinds and largest >= work.cluster.quota_bytes * QUOTA_SHARE:
        message = f"the database has {largest} bytes, and spec.quotaBytes allows {work.cluster.quota_bytes}: compact old revisions, or raise the quota"
        return Progress("NoSpace", message, warning=True)
    if "CORRUPT" in kinds:
        return Progress("Corrupt", "a member's data differs from that of the others: restore a backup", warning=True)
    return None


def has_alarm(work: Work, name: str) -> bool:
    return any(name in error for each in work.view.members if each.status for error in each.status.errors)


async def watch_speed(work: Work, slowness: Slowness) -> Progress | None:
    """Learn how fast members answer. Report one that became slow, move leadership away from it, and replace it."""
    cluster, shown = work.cluster, {each.name: each for each in work.cluster.status.members}
    patience = cluster.spec.maintenance.replace_slow_after_seconds
    for seen in work.view.voters:
        if seen.seconds is None or seen.member is None:
            continue
        RESPONSES.labels(cluster.metadata.namespace, cluster.metadata.name, seen.name).set(seen.seconds)
        status = shown[seen.name]
        usual = status.usual_milliseconds / 1000
        verdict = slowness.observe((cluster.metadata.uid, seen.member.id), seen.seconds, usual=usual)
        status.usual_milliseconds = noted(status.usual_milliseconds, verdict.usual)
        status.slow_since = (status.slow_since or work.now) if verdict.is_slow else None
        if verdict.became_slow:
            note = f"{seen.name} answers in {seen.seconds * 1000:.0f} ms, {verdict.factor:.0f} times its usual time"
            work.event("MemberSlow", note, warning=True)
        if verdict.is_slow and seen.leads and (moved := await hand_over(work, seen)) is not None:
            return moved
        if status.slow_since and patience and work.now - status.slow_since >= timedelta(seconds=patience):
            return await remove(work, seen, f"it was slow for {patience} s")
    return None


def noted(before: int, usual: float) -> int:
    """Return the usual time for the status, which is written only when it has changed by half."""
    now = max(round(usual * 1000), 1) if usual else 0
    return before if before and now and before / 2 <= now <= before * 2 else now
