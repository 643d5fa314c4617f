"""Deletes Jobs some time after they have finished (`spec.ttlSecondsAfterFinished`).

Follows kubernetes/pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from datetime import timedelta

from kubewright._runtime.clock import Clock
from kubewright.apis.batch.v1 import Job
from kubewright.controllers import Context, Controller, Result, controller


class FinishedJobs:
    """Waits for the time to live of each finished Job."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def reconcile(self, ctx: Context[Job]) -> Result | None:
        job = ctx.object
        seconds = job.spec.ttl_seconds_after_finished
        ends = (each for each in job.status.conditions if each.type in ("Complete", "Failed") and each.status == "True")
        end = next((each.last_transition_time for each in ends), None)
        if seconds is None or end is None:
            return None
        left = end + timedelta(seconds=seconds) - self._clock.now()
        if left > timedelta(0):
            return Result(requeue_after=left)
        await ctx.delete(job, propagation="Foreground")
        return None


def ttl_after_finished_controller(clock: Clock) -> Controller[Job]:
    """Return the controller `ttl-after-finished-controller`."""
    return controller(Job, name="ttl-after-finished-controller")(FinishedJobs(clock))
