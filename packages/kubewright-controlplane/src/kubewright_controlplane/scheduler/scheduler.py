"""The scheduler: binds each Pod to the node that suits it best.

Pods that fit no node are tried again when something that may help changes: a node, or a Pod on a node. Events update
the placement of Pods before they are queued, so no such change is lost. Pods with a higher priority are tried first.

Follows kubernetes/pkg/scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import (
    Binding,
    Namespace,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.storage.v1 import StorageClass
from kubewright.cache._entry import Entry, Event
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, Request, Result, Watch, controller
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright.machinery.errors import Conflict, NotFound
from kubewright.models import PolicyRule
from kubewright_controlplane.common.pods import condition, is_finished
from kubewright_controlplane.common.podstatus import set_condition
from kubewright_controlplane.common.selection import compiled, lister_of
from kubewright_controlplane.common.volumes import claims_of
from kubewright_controlplane.scheduler.cluster import NodeInfo, Placement
from kubewright_controlplane.scheduler.devices import has_claims
from kubewright_controlplane.scheduler.diagnosis import diagnosis
from kubewright_controlplane.scheduler.filters import Filter, Refusal, View
from kubewright_controlplane.scheduler.podinfo import PREEMPTED, PodInfo
from kubewright_controlplane.scheduler.preemption import Budget, Victims, choose, why_not_eligible
from kubewright_controlplane.scheduler.scoring import best
from kubewright_controlplane.scheduler.volumes import VolumeCheck

NAME: Final = "default-scheduler"
_CLAIMS_AGAIN: Final = timedelta(seconds=1)
"""When to look again for ResourceClaims that do not exist."""
_WAITING: Final = "waiting"
"""The index of Pods that wait, by their claims."""


class Scheduler:
    """Binds Pods that name this scheduler and have no node."""

    def __init__(self, live: Client, clock: Clock) -> None:
        """`live` reads from the server."""
        self._live = live
        self._clock = clock
        self._placement = Placement()
        self._failed: dict[Request, PodInfo] = {}
        """Pods that fit no node."""
        self._nominated: dict[Request, PodInfo] = {}
        """Pods for which room is made, with the node."""

    def observe(self, event: Event[Pod]) -> Iterable[Request]:
        """Update the placement. Returns the Pods to schedule."""
        if event.new is None:
            self._failed.pop(event.key, None)
            self._nominated.pop(event.key, None)
            return self.failed() if self._placement.forget(event.key) else ()
        pod = event.new.decode()
        helps = self._placement.see(pod)
        if not _is_waiting(pod):
            self._failed.pop(event.key, None)
            self._nominated.pop(event.key, None)
            helps = helps or self._may_attract(pod)
            return self.failed() if helps else ()
        if pod.status.nominated_node_name:
            self._nominate(PodInfo.of(pod), pod.status.nominated_node_name)
        return [event.key]

    def failed(self) -> list[Request]:
        """Return the Pods that fit no node, in the order of their priorities."""
        return sorted(self._failed, key=lambda key: (-self._failed[key].priority, str(self._failed[key].started), key))

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        if not _is_waiting(ctx.object) or self._placement.is_assumed(ctx.request):
            return None
        if not await has_claims(ctx.object, self._live):
            return Result(requeue_after=_CLAIMS_AGAIN)
        await self._schedule(ctx)
        return None

    async def _schedule(self, ctx: Context[Pod]) -> None:
        pod = ctx.object
        volumes = await VolumeCheck.of(ctx)
        info = PodInfo.of(pod)
        nodes = self._placement.nodes(lister_of(ctx, Node).entries())
        self._failed[ctx.request] = info
        if volumes.error:
            await self._report(
                ctx, f"0/{len(nodes)} nodes are available: {volumes.error}. {_SKIPPED}" if nodes else _NO_NODES
            )
            return
        view = View(nodes, self._placement.repelling(), [*self._nominated.values()], _namespaces(ctx))
        check = Filter(pod, info, view, volumes)
        refusals = {node.name: refusal for node in nodes if (refusal := check.refusal(node)) is not None}
        fitting = [node for node in nodes if node.name not in refusals]
        if not fitting:
            await self._make_room(ctx, info, nodes, refusals, check)
            return
        chosen = best(pod, info, fitting, view.namespaces)
        if await volumes.provided(chosen.node):
            await self._bind(ctx, info, chosen.name)

    async def _bind(self, ctx: Context[Pod], info: PodInfo, node: str) -> None:
        pod = ctx.object
        # labels and annotations of a Binding would overwrite those of the Pod
        meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        binding = Binding(metadata=meta, target=ObjectReference(kind="Node", name=node))
        self._placement.assume(replace(info, node=node))
        bindings = ctx.client.subresource(Pod, pod.metadata.name, "binding", namespace=pod.metadata.namespace)
        try:
            await bindings.create(binding)
        except (NotFound, Conflict):
            self._placement.forget(ctx.request)
            return  # deleted or bound meanwhile: an event follows
        except BaseException:
            self._placement.forget(ctx.request)
            raise
        self._failed.pop(ctx.request, None)
        self._nominated.pop(ctx.request, None)
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        ctx.events.normal(pod, "Scheduled", f"Successfully assigned {where} to {node}", action="Binding")

    async def _make_room(
        self,
        ctx: Context[Pod],
        info: PodInfo,
        nodes: Sequence[NodeInfo],
        refusals: Mapping[str, Refusal],
        check: Filter,
    ) -> None:
        """Preempt Pods of lower priority if that helps, and report that the Pod waits."""
        pod = ctx.object
        if not nodes:
            await self._report(ctx, _NO_NODES)
            return
        message = diagnosis(len(nodes), refusals.values())
        reason = why_not_eligible(pod, info, nodes, refusals)
        if reason:
            await self._report(ctx, f"{message} {_PREEMPTION}{reason}", pod.status.nominated_node_name)
            return
        found = choose(info, nodes, refusals, check, await self._budgets(ctx, info, nodes))
        if isinstance(found, str):
            self._nominated.pop(ctx.request, None)
            await self._report(ctx, f"{message} {_PREEMPTION}{found}")
            return
        self._nominate(info, found.node.name)
        await self._report(ctx, message, found.node.name)
        await self._preempt(ctx, found)

    async def _budgets(self, ctx: Context[Pod], info: PodInfo, nodes: Sequence[NodeInfo]) -> list[Budget]:
        """Return the disruption budgets of the Pods that might be preempted."""
        lower = [each for node in nodes for each in node.pods.values() if each.priority < info.priority and each.labels]
        if not lower:
            return []
        from kubewright.apis.policy.v1 import PodDisruptionBudget  # few Pods preempt others

        budgets: list[Budget] = []
        for budget in await ctx.list(PodDisruptionBudget, namespace=""):
            selector = compiled(budget.spec.selector) if budget.spec.selector is not None else None
            if selector is None or selector.empty:
                continue
            namespace, disrupted = budget.metadata.namespace, budget.status.disrupted_pods
            mine = (each for each in lower if each.key.namespace == namespace and each.key.name not in disrupted)
            keys = frozenset(each.key for each in mine if selector.matches(each.labels))
            budgets.append(Budget(budget.status.disruptions_allowed or 0, keys))
        return budgets

    async def _preempt(self, ctx: Context[Pod], victims: Victims) -> None:
        preemptor = ctx.object
        for each in victims.pods:
            victim = await ctx.get_or_none(Pod, each.key.name, namespace=each.key.namespace)
            if victim is None or victim.metadata.deletion_timestamp is not None:
                continue
            target = PodCondition(
                type="DisruptionTarget",
                status="True",
                reason=PREEMPTED,
                message=f"{NAME}: preempting to accommodate a higher priority pod",
                last_transition_time=self._clock.now(),
                observed_generation=victim.metadata.generation,
            )
            try:
                victim = await set_condition(ctx.client, victim, target)
            except NotFound:
                continue
            await ctx.delete(victim)
            note = f"Preempted by pod {preemptor.metadata.uid} on node {victims.node.name}"
            ctx.events.normal(victim, "Preempted", note, action="Preempting", related=preemptor)

    async def _report(self, ctx: Context[Pod], message: str, nominated: str | None = None) -> None:
        pod = ctx.object
        before = condition(pod, "PodScheduled")
        if before is not None and before.message == message and pod.status.nominated_node_name == nominated:
            return
        waiting = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message=message,
            last_transition_time=self._clock.now(),
            observed_generation=pod.metadata.generation,
        )
        await set_condition(ctx.client, pod, waiting, nominatedNodeName=nominated)
        ctx.events.warning(pod, "FailedScheduling", message, action="Scheduling")

    def _nominate(self, info: PodInfo, node: str) -> None:
        self._nominated[info.key] = replace(info, node=node)

    def _may_attract(self, pod: Pod) -> bool:
        """Return whether a Pod on a node may be one that a waiting Pod wants to be near."""
        return bool(pod.spec.node_name) and any(each.affinity for each in self._failed.values())


_PREEMPTION: Final = "no new claims to deallocate, preemption: "
_SKIPPED: Final = "not found"
"""kube-scheduler's words where it ends before its checks of devices, and therefore does not try preemption either."""
_NO_NODES: Final = "no nodes available to schedule pods"


def _namespaces(ctx: Context[Pod]) -> Mapping[str, Mapping[str, str]]:
    return {entry.key.name: entry.labels for entry in lister_of(ctx, Namespace).entries()}


def _is_waiting(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not is_finished(pod)
        and pod.spec.scheduler_name in (None, NAME)
        and pod.metadata.deletion_timestamp is None
        and not pod.spec.scheduling_gates
    )


def _by_claim(pod: Pod) -> Iterable[str]:
    """Return the claims that a waiting Pod mounts."""
    return [f"{pod.metadata.namespace}/{name}" for name in claims_of(pod)] if _is_waiting(pod) else ()


def _key_of(claim: Entry[PersistentVolumeClaim]) -> Iterable[str]:
    return [str(claim.key)]


def _never(_: AnyEvent) -> bool:
    return False


def scheduler(live: Client, clock: Clock) -> Controller[Pod]:
    """Return the controller `default-scheduler`. `live` reads from the server."""
    reconciler = Scheduler(live, clock)

    def on_node_change(_: Node, __: Lister[Any]) -> Iterable[Request]:
        return reconciler.failed()

    def on_volume_change(volume: PersistentVolume, _: Lister[Any]) -> Iterable[Request]:
        return reconciler.failed() if volume.spec.claim_ref is None else ()

    declare = controller(
        Pod,
        name=NAME,
        predicate=Predicate(_never),  # `observe` returns the Pods to schedule
        watches=[
            Watch(Pod, lambda _: reconciler.observe),
            Watch.mapped(Node, on_node_change),
            Watch.indexed(PersistentVolumeClaim, _WAITING, values=_key_of),
            Watch.mapped(PersistentVolume, on_volume_change),
        ],
        cached=[Namespace, StorageClass],
        writes=[PersistentVolume, PersistentVolumeClaim],
        rules=[PolicyRule(api_groups=[""], resources=["pods/binding"], verbs=["create"])],
        indexers={_WAITING: _by_claim},
        namespace_ending="stop",
        workers=1,
    )
    return declare(reconciler)
