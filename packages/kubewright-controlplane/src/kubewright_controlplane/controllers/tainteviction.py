"""The taint eviction controller: deletes Pods that do not tolerate a NoExecute taint of their node.

A toleration with `tolerationSeconds` lets the Pod run for that time. The time starts when the taint is noticed.

Follows kubernetes/pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Node, Pod, PodCondition, Taint
from kubewright.cache._entry import Event
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, Request, Result, Watch, controller
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright_controlplane.common import taints
from kubewright_controlplane.common.durations import duration
from kubewright_controlplane.common.podstatus import set_condition


class TaintEviction:
    """Deletes Pods when their time on a tainted node is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tainted: dict[str, Sequence[Taint]] = {}
        """The NoExecute taints of each node that has some."""
        self._due: dict[Request, datetime] = {}
        """When Pods are deleted."""

    def observe_node(self, event: Event[Node], pods: Lister[Pod]) -> Iterable[Request]:
        """Return the Pods on a node whose taints have changed."""
        node = event.new.decode() if event.new is not None else None
        found = [each for each in node.spec.taints if each.effect == "NoExecute"] if node is not None else []
        name = event.key.name
        if found == self._tainted.get(name, []):
            return ()
        if found:
            self._tainted[name] = found
        else:
            self._tainted.pop(name, None)
        here = (pod.metadata for pod in pods.list() if pod.spec.node_name == name)
        return [Request(each.namespace, each.name) for each in here]

    def observe_pod(self, event: Event[Pod]) -> Iterable[Request]:
        """Return the Pod if it is on a tainted node."""
        if event.new is None:
            self._due.pop(event.key, None)
            return ()
        return [event.key] if self._tainted and event.new.decode().spec.node_name in self._tainted else ()

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        pod = ctx.object
        seconds = _seconds(pod, self._tainted.get(pod.spec.node_name or "", []))
        if pod.metadata.deletion_timestamp is not None:
            self._due.pop(ctx.request, None)
            return None
        if seconds is None:
            if self._due.pop(ctx.request, None) is not None:
                note = f"Cancelling deletion of Pod {pod.metadata.namespace}/{pod.metadata.name}"
                ctx.events.normal(pod, "TaintManagerEviction", note, action="Evict")
            return None
        now = self._clock.now()
        due = self._due.setdefault(ctx.request, now + duration(max(0, seconds)))
        if seconds > 0 and now < due:
            return Result(requeue_after=due - now)
        await self._evict(ctx, now)
        return None

    async def _evict(self, ctx: Context[Pod], now: datetime) -> None:
        pod = ctx.object
        note = f"Marking for deletion Pod {pod.metadata.namespace}/{pod.metadata.name}"
        ctx.events.normal(pod, "TaintManagerEviction", note, action="Evict")
        target = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
            last_transition_time=now,
            observed_generation=pod.metadata.generation,
        )
        await ctx.delete(await set_condition(ctx.client, pod, target))
        self._due.pop(ctx.request, None)


def _seconds(pod: Pod, found: Sequence[Taint]) -> int | None:
    """Return how long the Pod tolerates these taints; None if forever."""
    limits: list[int] = []
    for taint in found:
        using = [each for each in pod.spec.tolerations if taints.tolerated(taint, [each])]
        if not using:
            return 0
        limits += [each.toleration_seconds for each in using if each.toleration_seconds is not None]
    return min(limits, default=None)


def _never(_: AnyEvent) -> bool:
    return False


def taint_eviction_controller(clock: Clock) -> Controller[Pod]:
    """Return the controller `taint-eviction-controller`."""
    reconciler = TaintEviction(clock)
    declare = controller(
        Pod,
        name="taint-eviction-controller",
        predicate=Predicate(_never),  # `observe_pod` returns the Pods to reconcile
        watches=[
            Watch(Node, lambda pods: lambda event: reconciler.observe_node(event, pods)),
            Watch(Pod, lambda _: reconciler.observe_pod),
        ],
        workers=2,
    )
    return declare(reconciler)
