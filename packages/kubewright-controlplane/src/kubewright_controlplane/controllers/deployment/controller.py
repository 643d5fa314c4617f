"""The reconciler of Deployments.

Every write is computed from the current objects and requires their resource version. A crash between two writes is
repaired by the next reconcile: the name of the new ReplicaSet comes from the template, and sizes and revisions are
computed again.

Follows kubernetes/pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, Result, controller
from kubewright.machinery.errors import AlreadyExists, APIError
from kubewright_controlplane.common.selection import SELECTOR, by_selector
from kubewright_controlplane.controllers.claims import Claims, orphans
from kubewright_controlplane.controllers.deployment import replicasets, rollout
from kubewright_controlplane.controllers.deployment.status import creation_failed, status_of, time_left


class DeploymentReconciler:
    """Rolls out the ReplicaSets of a Deployment."""

    def __init__(self, live: Client, clock: Clock) -> None:
        """`live` reads from the server where the cache is not enough."""
        self._live = live
        self._claims = Claims(live)
        self._clock = clock

    async def reconcile(self, ctx: Context[Deployment]) -> Result | None:
        deployment = ctx.object
        sets = await self._claims.of(ctx, ReplicaSet, deployment.spec.selector)
        new = replicasets.new_of(deployment, sets)
        olds = [each for each in sets if new is None or each.metadata.uid != new.metadata.uid]
        new, olds = await self._step(ctx, new, olds)
        return await self._report(ctx, new, olds)

    async def _step(
        self, ctx: Context[Deployment], new: ReplicaSet | None, olds: list[ReplicaSet]
    ) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        deployment = ctx.object
        known = [*olds, *([new] if new else [])]
        if deployment.spec.paused or rollout.is_scaling(deployment, known):
            if new is not None:
                new = await self._refresh(ctx, new, _next_revision(olds), keep_sizes=True)
                await self._record_revision(ctx, new)
            sizes = rollout.scale(deployment, new, olds)
        else:
            if new is not None or not rollout.waits_for_old_pods(deployment, olds):
                new = await self._new(ctx, new, olds)
            sizes = rollout.roll(deployment, new, olds)
        await self._resize(ctx, sizes)
        if deployment.spec.paused or rollout.is_complete(deployment, new):
            await self._clean_up(ctx, olds)
        return new, olds

    async def _new(self, ctx: Context[Deployment], new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> ReplicaSet:
        """Return the ReplicaSet of the current template, after it is created or has the newest revision."""
        deployment = ctx.object
        revision = _next_revision(olds)
        if new is None:
            new = await self._create(ctx, replicasets.build(deployment, olds, revision))
        else:
            new = await self._refresh(ctx, new, revision)
        await self._record_revision(ctx, new)
        return new

    async def _create(self, ctx: Context[Deployment], desired: ReplicaSet) -> ReplicaSet:
        try:
            made = await ctx.create(desired)
        except AlreadyExists:
            await self._count_collision(ctx, desired)
            raise
        except APIError as error:
            await self._report_failed_creation(ctx, desired, error)
            raise
        ctx.log.info("ReplicaSet created", replica_set=made.metadata.name, replicas=made.spec.replicas)
        if made.spec.replicas:
            self._tell_scaling(ctx, made, 0, made.spec.replicas)
        return made

    async def _count_collision(self, ctx: Context[Deployment], desired: ReplicaSet) -> None:
        """Choose another name, if the name is taken by a ReplicaSet of another owner or template.

        If it is the wanted ReplicaSet, which the cache does not show yet, a retry is enough.
        """
        deployment = ctx.object
        taken = await self._live.get(ReplicaSet, desired.metadata.name, namespace=desired.metadata.namespace)
        if not replicasets.is_of(deployment, taken):
            count = (deployment.status.collision_count or 0) + 1
            deployment.status.collision_count = count
            await ctx.update_status(deployment.status)

    async def _report_failed_creation(self, ctx: Context[Deployment], desired: ReplicaSet, error: APIError) -> None:
        if error.namespace_is_ending:
            return
        message = f'Failed to create new replica set "{desired.metadata.name}": {error}'
        await ctx.update_status(creation_failed(ctx.object, message, self._clock.now()))
        ctx.events.warning(ctx.object, "ReplicaSetCreateError", message, action="Create")

    async def _refresh(
        self, ctx: Context[Deployment], new: ReplicaSet, revision: int, *, keep_sizes: bool = False
    ) -> ReplicaSet:
        """Copy the Deployment's annotations and `minReadySeconds`.

        `keep_sizes` keeps the annotations with the sizes at the last scaling, by which the next one is proportional.
        """
        deployment = ctx.object
        newest = max(revision, replicasets.revision_of(new))
        annotations = replicasets.annotations_for(deployment, new.metadata.annotations, newest)
        if keep_sizes:
            before = new.metadata.annotations
            annotations |= {key: before[key] for key in rollout.size_annotations(deployment) if key in before}
        seconds = deployment.spec.min_ready_seconds or 0
        if annotations == new.metadata.annotations and seconds == (new.spec.min_ready_seconds or 0):
            return new
        change = {
            "metadata": {"annotations": annotations, "resourceVersion": new.metadata.resource_version},
            "spec": {"minReadySeconds": seconds},
        }
        return await ctx.patch(new, MergePatch(change))

    async def _record_revision(self, ctx: Context[Deployment], new: ReplicaSet) -> None:
        revision = new.metadata.annotations.get(replicasets.REVISION)
        if revision and ctx.object.metadata.annotations.get(replicasets.REVISION) != revision:
            annotations = {replicasets.REVISION: revision}
            await ctx.patch(ctx.object, MergePatch({"metadata": {"annotations": annotations}}), subresource="status")

    async def _resize(self, ctx: Context[Deployment], sizes: rollout.Sizes) -> None:
        for replica_set, size in sizes.changes:
            before = replica_set.spec.replicas or 0
            change = {
                "metadata": {
                    "annotations": dict(sizes.annotations),
                    "resourceVersion": replica_set.metadata.resource_version,
                },
                "spec": {"replicas": size},
            }
            await ctx.patch(replica_set, MergePatch(change))
            replica_set.spec.replicas = size
            if size != before:
                self._tell_scaling(ctx, replica_set, before, size)

    def _tell_scaling(self, ctx: Context[Deployment], replica_set: ReplicaSet, before: int, size: int) -> None:
        direction = "up" if size > before else "down"
        name = replica_set.metadata.name
        ctx.log.info("ReplicaSet scaled", replica_set=name, before=before, after=size)
        note = f"Scaled {direction} replica set {name} from {before} to {size}"
        ctx.events.normal(ctx.object, "ScalingReplicaSet", note, action="ScalingReplicaSet")

    async def _clean_up(self, ctx: Context[Deployment], olds: list[ReplicaSet]) -> None:
        for old in replicasets.surplus(ctx.object, olds):
            await ctx.delete(old)
            olds.remove(old)

    async def _report(
        self, ctx: Context[Deployment], new: ReplicaSet | None, olds: Sequence[ReplicaSet]
    ) -> Result | None:
        now = self._clock.now()
        status = status_of(ctx.object, new, olds, now)
        await ctx.update_status(status)
        left = time_left(ctx.object, status, now)
        return None if left is None else Result(requeue_after=max(left, timedelta(seconds=1)))


def _next_revision(olds: Sequence[ReplicaSet]) -> int:
    return max((replicasets.revision_of(old) for old in olds), default=0) + 1


def deployment_controller(live: Client, clock: Clock) -> Controller[Deployment]:
    """Return the controller `deployment-controller`."""
    declare = controller(
        Deployment,
        name="deployment-controller",
        owns=[ReplicaSet],
        watches=[orphans(ReplicaSet)],
        indexers={SELECTOR: by_selector},
        namespace_ending="stop",
        workers=5,
    )
    return declare(DeploymentReconciler(live, clock))
