"""Deletes Pods on nodes that no longer exist, Pods that are deleted before they are scheduled, and old finished Pods.

The newest `MOST` finished Pods are kept. Follows kubernetes/pkg/controller/podgc.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, Pod, PodCondition
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, DeletedContext, Request, Result, Watch, controller
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright.machinery.errors import NotFound
from kubewright_controlplane.common.pods import is_finished
from kubewright_controlplane.common.selection import lister_of

MOST: Final = 12500
QUARANTINE: Final = timedelta(seconds=40)
"""How long Pods stay after their node was deleted: the node may be created again."""

_PERIOD: Final = timedelta(seconds=20)
"""The shortest interval between two counts of finished Pods."""


class PodGarbage:
    """Deletes each Pod for which there is a reason."""

    def __init__(self, live: Client, clock: Clock) -> None:
        """`live` reads from the server, because a cache may not show a new node yet."""
        self._live = live
        self._clock = clock
        self._missing: dict[str, datetime] = {}
        self._counted: datetime | None = None

    async def reconcile(self, ctx: Context[Pod] | DeletedContext[Pod]) -> Result | None:
        if isinstance(ctx, DeletedContext):
            return None
        pod = ctx.object
        if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
            await self._delete(ctx, pod)
            return None
        if is_finished(pod):
            await self._thin_out(ctx)
        return await self._look_for_node(ctx, pod.spec.node_name) if pod.spec.node_name else None

    async def _look_for_node(self, ctx: Context[Pod], node: str) -> Result | None:
        if await ctx.get_or_none(Node, node) is None:
            return await self._without_node(ctx, node)
        self._missing.pop(node, None)
        return None

    async def _without_node(self, ctx: Context[Pod], node: str) -> Result | None:
        since = self._missing.setdefault(node, self._clock.now())
        left = since + QUARANTINE - self._clock.now()
        if left > timedelta(0):
            return Result(requeue_after=left)
        if await self._live.get_or_none(Node, node) is None:
            await self._fail(ctx)
            await self._delete(ctx, ctx.object)
        return None

    async def _fail(self, ctx: Context[Pod]) -> None:
        """Report the Pod failed, so that its controller counts it."""
        pod = ctx.object
        if is_finished(pod):
            return
        target = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="DeletionByPodGC",
            message="PodGC: node no longer exists",
            last_transition_time=self._clock.now(),
        )
        conditions = [*(each for each in pod.status.conditions if each.type != target.type), target]
        await ctx.update_status(msgspec.structs.replace(pod.status, phase="Failed", conditions=conditions))

    async def _thin_out(self, ctx: Context[Pod]) -> None:
        now, lister = self._clock.now(), lister_of(ctx, Pod)
        if len(lister) <= MOST or (self._counted is not None and now - self._counted < _PERIOD):
            return
        self._counted = now
        finished = [pod for pod in lister.list() if is_finished(pod)]
        finished.sort(key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name))
        for pod in finished[: max(0, len(finished) - MOST)]:
            await self._delete(ctx, pod)

    async def _delete(self, ctx: Context[Pod], pod: Pod) -> None:
        try:
            await ctx.client.delete(pod, grace_period=0)
        except NotFound:
            return
        ctx.log.info("Pod deleted", pod=pod.metadata.name)


def _on_node(node: Node, pods: Lister[Pod]) -> Iterable[Request]:
    here = (pod for pod in pods.list() if pod.spec.node_name == node.metadata.name)
    return [Request(pod.metadata.namespace, pod.metadata.name) for pod in here]


def _may_be_garbage(event: AnyEvent) -> bool:
    return event.new is not None and (event.old is None or event.new.deleting)


def _is_add_or_delete(event: AnyEvent) -> bool:
    return event.type != "update"


def pod_garbage_controller(live: Client, clock: Clock) -> Controller[Pod]:
    """Return the controller `pod-garbage-collector-controller`."""
    declare = controller(
        Pod,
        name="pod-garbage-collector-controller",
        predicate=Predicate(_may_be_garbage),
        watches=[Watch.mapped(Node, _on_node, predicate=Predicate(_is_add_or_delete))],
        reconcile_deleted=True,
    )
    return declare(PodGarbage(live, clock))
