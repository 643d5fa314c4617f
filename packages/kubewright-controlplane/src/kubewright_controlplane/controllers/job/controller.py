"""The reconciler of Jobs. Follows kubernetes/pkg/controller/job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from kubewright._runtime.clock import Clock
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import Pod
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client._client import Client
from kubewright.client._patch import StrategicPatch
from kubewright.controllers import Context, Controller, DeletedContext, Result, controller
from kubewright.machinery.errors import APIError, NotFound
from kubewright_controlplane.common.selection import SELECTOR, by_selector, compiled, matching, selecting
from kubewright_controlplane.controllers.claims import Claims, orphans
from kubewright_controlplane.controllers.job import perindex, progress, tally
from kubewright_controlplane.controllers.job.perindex import Failures
from kubewright_controlplane.controllers.job.podtemplate import build_pod
from kubewright_controlplane.controllers.podcontrol import BURST, create_pods, delete_pods

JOB_NAME = "batch.kubernetes.io/job-name"
NAME = "kubernetes.io/job-controller"


class JobReconciler:
    """Creates the Pods of a Job, and counts how they end."""

    def __init__(self, live: Client, clock: Clock) -> None:
        self._claims = Claims(live)
        self._clock = clock

    async def reconcile(self, ctx: Context[Job] | DeletedContext[Job]) -> Result | None:
        job = None if isinstance(ctx, DeletedContext) else ctx.object
        if job is not None and job.spec.managed_by not in (None, NAME):
            return None
        over = job is None or job.metadata.deletion_timestamp is not None or progress.is_finished(job)
        await self._let_go(ctx, None if over or job is None else job.metadata.uid)
        if job is None or over or isinstance(ctx, DeletedContext):
            return None
        return await self._work(ctx, job)

    async def _work(self, ctx: Context[Job], job: Job) -> Result | None:
        children = await self._claims.of(ctx, Pod, job.spec.selector or LabelSelector())
        now = self._clock.now()
        count = tally.Tally.of(job, children)
        failures = Failures.of(job, children, count.succeeded_indexes)
        end = progress.verdict(job, children, count, failures, now)
        wait: timedelta | None = None
        failure: APIError | None = None
        if end is not None:
            ended = [pod for pod in children if pod in count.active]
            await delete_pods(ctx, ended)
            count.terminating += len(count.active)
            count.active = []
        else:
            try:
                wait = await self._manage(ctx, children, count, failures)
            except APIError as error:
                failure = error
            if count.is_complete(job):
                end = progress.complete()
        await self._track(ctx, children, count, failures, end)
        if failure is not None:
            raise failure
        return progress.again(job, wait, now)

    async def _manage(
        self, ctx: Context[Job], children: Sequence[Pod], count: tally.Tally, failures: Failures
    ) -> timedelta | None:
        """Create or delete Pods until their number fits. Returns the pause before more may be created."""
        job, now = ctx.object, self._clock.now()
        surplus = tally.surplus(job, count, now)
        if surplus:
            await self._free(ctx, surplus)  # they do not count as failed
            await delete_pods(ctx, surplus)
            count.active = [pod for pod in count.active if pod not in surplus]
            count.terminating += len(surplus)
            return None
        on_their_way = count.terminating if tally.replaces_failed_only(job) else 0
        missing = min(count.wanted(job) - len(count.active) - on_their_way, BURST)
        if missing <= 0:
            return None
        wait = timedelta(0) if perindex.has_limit(job) else tally.wait_after_failures(job, children, now)
        if wait > timedelta(0):
            return wait
        if not tally.is_indexed(job):
            count.active = count.active + await create_pods(ctx, [build_pod(job, None, {}) for _ in range(missing)])
            return None
        numbers = count.free_indexes(job, children, missing, failures.indexes)
        waits = {number: failures.wait(number, now) for number in numbers}
        ready = [number for number in numbers if not waits[number]]
        count.active = count.active + await create_pods(ctx, [_pod(job, number, failures) for number in ready])
        return min(filter(None, waits.values()), default=None)

    async def _track(
        self,
        ctx: Context[Job],
        children: Sequence[Pod],
        count: tally.Tally,
        failures: Failures,
        end: progress.End | None,
    ) -> None:
        """Record the Pods that have ended, remove their finalizers, count them, and report the end of the Job."""
        job, now = ctx.object, self._clock.now()
        ended = progress.ended(job, children, failures, end)
        status = progress.noted(job, count, failures, ended, end, now)
        await ctx.update_status(status)
        if (suspended := progress.is_suspended(status)) != progress.is_suspended(job.status):
            change = ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")
            ctx.events.normal(job, *change, action="Suspend")
        await self._free(ctx, [pod for pod in ended if tally.is_tracked(pod)])
        counted = progress.counted(status)
        if end is not None and not count.terminating:
            counted = progress.finished(counted, end, now)
        await ctx.update_status(counted)
        if end is not None and not count.terminating:
            tell = ctx.events.normal if end.succeeded else ctx.events.warning
            tell(
                job, *(("Completed", "Job completed") if end.succeeded else (end.reason, end.message)), action="Finish"
            )

    async def _let_go(self, ctx: Context[Job] | DeletedContext[Job], uid: str | None) -> None:
        """Remove the finalizer from Pods of deleted or finished Jobs of this name, because they are no longer counted.

        A Pod without a controller may be an orphan of the Job. It keeps the finalizer if another Job may adopt it.
        """
        labelled = await matching(ctx, Pod, LabelSelector(match_labels={JOB_NAME: ctx.request.name}))
        strays = [pod for pod in labelled if tally.is_tracked(pod) and _controller(pod) not in ("", uid)]
        if uid is None:
            pods = await ctx.client.list(Pod, namespace=ctx.request.namespace or "")
            strays += [pod for pod in pods.items if tally.is_tracked(pod) and self._is_orphan(ctx, pod)]
        await self._free(ctx, strays)

    def _is_orphan(self, ctx: Context[Job] | DeletedContext[Job], pod: Pod) -> bool:
        """Return whether the Pod has no controller, and no Job will adopt it."""
        if _controller(pod):
            return False
        jobs = selecting(pod, ctx.client.cache.informer(Job).lister)
        running = (each for each in jobs if each.metadata.deletion_timestamp is None and not progress.is_finished(each))
        return not any(
            compiled(each.spec.selector).matches(pod.metadata.labels) for each in running if each.spec.selector
        )

    async def _free(self, ctx: Context[Job] | DeletedContext[Job], found: Sequence[Pod]) -> None:
        async def free(pod: Pod) -> None:
            metadata = {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [tally.FINALIZER]}
            with suppress(NotFound):
                await ctx.patch(pod, StrategicPatch({"metadata": metadata}))

        await asyncio.gather(*(free(pod) for pod in found if tally.is_tracked(pod)))


def _pod(job: Job, index: int, failures: Failures) -> Pod:
    return build_pod(job, index, failures.annotations(job, index) if perindex.has_limit(job) else {})


def _controller(pod: Pod) -> str:
    return next((each.uid for each in pod.metadata.owner_references if each.controller), "")


def job_controller(live: Client, clock: Clock) -> Controller[Job]:
    """Return the controller `job-controller`. `live` reads from the server."""
    declare = controller(
        Job,
        name="job-controller",
        owns=[Pod],
        watches=[orphans(Pod)],
        indexers={SELECTOR: by_selector},
        reconcile_deleted=True,
        namespace_ending="stop",
        workers=5,
    )
    return declare(JobReconciler(live, clock))
