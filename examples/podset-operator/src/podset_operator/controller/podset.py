"""The controller of PodSet: keeps the desired number of Pods, and never creates more.

The cache may be stale, the response to a create may be lost, and another process of this operator may still run. None of
this leads to a surplus Pod, because before each create or delete the controller

1. reads the PodSet, and then its Pods, from the server, and
2. writes the status of that PodSet with the name of every Pod that it is about to create: the name is reserved. If the
   PodSet changed since it was read, the write is a Conflict, and the controller starts again.

So a process that creates Pods knows all others: they are in its list, or their names are reserved. A name stays reserved
until its Pod was seen. Reserved names are used first, and a second create with the same name changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Final

from kubewright import AlreadyExists, APIError, Backoff, Conflict, Context, Retry, controller, set_condition
from kubewright.apis.core.v1 import Pod
from kubewright.controllers import is_controlled_by
from kubewright.machinery.names import generate_name

from podset_operator.api.v1.podset import PodSet
from podset_operator.pods import in_order_of_deletion, is_live, labels_for, name_prefix, pod_for, ready_since

LARGEST_BATCH: Final = 16
"""Concurrent requests for one PodSet. The limit keeps a large PodSet from delaying others."""


@controller(PodSet, owns=[Pod], retry=Retry(backoff=Backoff(limit=timedelta(minutes=1))))
async def reconcile(ctx: Context[PodSet]) -> None:
    pods = await ctx.list(Pod, labels=labels_for(ctx.object), owned=True)
    scaling = Scaling(ctx, ctx.object, pods)
    if scaling.missing:
        await scale(ctx)
    else:
        await scaling.report()


async def scale(ctx: Context[PodSet]) -> None:
    server, namespace = ctx.client.uncached, ctx.request.namespace
    podset = await server.get(PodSet, ctx.request.name, namespace=namespace)
    if podset.metadata.deletion_timestamp is not None:
        return
    scaling = Scaling(ctx, podset, await server.list(Pod, namespace=namespace, labels=labels_for(podset)))
    try:
        await scaling.grow()
        await scaling.shrink()
    except Rejected as rejected:
        await scaling.report(rejected)
        raise rejected.error from None
    await scaling.report()


class Rejected(Exception):
    """The API server rejects the creation or deletion of a Pod."""

    def __init__(self, reason: str, error: APIError) -> None:
        super().__init__(str(error))
        self.reason = reason
        self.error = error


class Scaling:
    """The state of a PodSet and its Pods, and the changes to make."""

    def __init__(self, ctx: Context[PodSet], podset: PodSet, pods: Iterable[Pod]) -> None:
        """Pods that this PodSet does not control are ignored."""
        own = {pod.metadata.name: pod for pod in pods if is_controlled_by(pod, podset)}
        self.ctx = ctx
        self.podset = podset
        """The PodSet as on the server, except for its new status."""
        self.written = deepcopy(podset.status)
        """The status on the server."""
        self.pods = {name: pod for name, pod in own.items() if is_live(pod)}
        self.reserved = [name for name in podset.status.reserved_pod_names if name not in own]
        """Reserved names whose Pod was not seen."""

    @property
    def missing(self) -> int:
        """The number of missing Pods. A negative number is a surplus."""
        return self.podset.spec.replicas - len(self.pods)

    async def grow(self) -> None:
        """Create the missing Pods in batches of 1, 2, 4, ..., so that a rejection costs few requests."""
        size = 1
        while self.missing > 0:
            size = min(size, self.missing)
            while len(self.reserved) < size:
                self.reserved.append(generate_name(name_prefix(self.podset)))
            await self.confirm()
            await self.each("Create", self.create, self.reserved[:size])
            size = min(2 * size, LARGEST_BATCH)

    async def shrink(self) -> None:
        """Delete the surplus Pods."""
        while self.missing < 0:
            surplus = in_order_of_deletion(self.pods.values())[: min(-self.missing, LARGEST_BATCH)]
            await self.confirm()
            await self.each("Delete", self.delete, [pod.metadata.name for pod in surplus])

    async def create(self, name: str) -> None:
        try:
            pod = await self.ctx.create(pod_for(self.podset, name))
        except AlreadyExists:
            pod = await self.ctx.client.uncached.get(Pod, name, namespace=self.ctx.request.namespace)
        self.reserved.remove(name)
        if is_controlled_by(pod, self.podset) and is_live(pod):
            self.pods[name] = pod

    async def delete(self, name: str) -> None:
        await self.ctx.delete(self.pods[name])
        del self.pods[name]

    async def each(self, action: str, do: Callable[[str], Awaitable[None]], names: Sequence[str]) -> None:
        """Call `do` for all names concurrently. Raises Rejected if the server rejects one, or else the first error."""
        before = len(self.pods)
        outcomes = await asyncio.gather(*map(do, names), return_exceptions=True)
        done = [name for name, error in zip(names, outcomes, strict=True) if error is None]
        if done:
            self.ctx.log.info(
                "PodSet Pods change", before=before, after=len(self.pods), wanted=self.podset.spec.replicas
            )
            self.ctx.events.normal(self.podset, f"{action}d", f"{action}d Pods {', '.join(done)}", action=action)
        for error in outcomes:
            if isinstance(error, APIError) and not isinstance(error, Conflict) and not error.namespace_is_ending:
                self.ctx.events.warning(
                    self.podset, f"Failed{action}", f"Cannot {action.lower()} Pods: {error}", action=action
                )
                raise Rejected(f"Failed{action}", error)
            if error is not None:
                raise error

    async def confirm(self) -> None:
        """Write the current Pods and the reserved names to the status. Raises Conflict if the PodSet changed."""
        self.count()
        await self.write()

    async def report(self, rejected: Rejected | None = None) -> None:
        """Write the status if it changed."""
        self.count()
        status, wanted = self.podset.status, self.podset.spec.replicas
        status.observed_generation = self.podset.metadata.generation or 0
        status.selector = ",".join(f"{key}={value}" for key, value in labels_for(self.podset).items())
        reason = "AllPodsReady" if status.ready_replicas == wanted else "PodsNotReady"
        set_condition(
            status.conditions,
            "Ready",
            "True" if rejected is None and status.ready_replicas == wanted else "False",
            reason=rejected.reason if rejected else reason,
            message=str(rejected) if rejected else f"{status.ready_replicas} of {wanted} Pods are ready",
            observed_generation=self.podset.metadata.generation,
        )
        if status != self.written:
            await self.write()

    def count(self) -> None:
        status = self.podset.status
        status.replicas = len(self.pods)
        status.ready_replicas = sum(ready_since(pod) is not None for pod in self.pods.values())
        status.pod_names = sorted(self.pods)
        status.reserved_pod_names = list(self.reserved)

    async def write(self) -> None:
        self.podset = await self.ctx.client.update_status(self.podset)
        self.written = deepcopy(self.podset.status)
