"""Drift repair: what a complete plan has made stays as the plan describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from kubewright.cache import ObjectKey
from kubewright.cache._informer import copy_of
from kubewright.controllers import Context
from kubewright.machinery.errors import TerminalError
from kubewright.models import Object
from kubewright.plans._plan import Child, Plan
from kubewright.plans._status import Execution
from kubewright.plans._tasks import name_of, unreadiness
from kubewright.plans.engine import observer, step_context

T = TypeVar("T", bound=Object)

_Identity: TypeAlias = tuple[str, str, str, str]


@dataclass(slots=True)
class Repair:
    """What a repair found."""

    repaired: list[str] = field(default_factory=list[str])
    """The objects that it changed, as `Service "web"`. Only kinds that are cached are compared."""
    unready: list[str] = field(default_factory=list[str])
    """Why objects are not ready."""


async def repair(ctx: Context[T], plan: Plan[T], execution: Execution) -> Repair:
    """Apply again what the tasks of a complete plan describe now. Does not wait.

    Objects that a later task deletes, and Jobs and Pods, are left alone. An apply that changes nothing is not sent.
    """
    found = Repair()
    for child in await _children(ctx, plan, execution):
        version = _version(ctx, child.object)
        live = await ctx.apply(child.object, adopt=child.adopt, create_only=child.create_only)
        if version is not None and version != live.metadata.resource_version:
            found.repaired.append(name_of(live))
        missing = _missing(live, child)
        if missing:
            found.unready.append(missing)
    _report(ctx, found)
    return found


def _missing(live: Object, child: Child) -> str:
    try:
        waiting = unreadiness(live, child.ready)
    except TerminalError as error:
        return str(error)
    return waiting.message if waiting is not None else ""


def _report(ctx: Context[T], found: Repair) -> None:
    if found.repaired:
        ctx.log.info("Drift repaired", objects=", ".join(found.repaired))
        ctx.events.normal(ctx.object, "DriftRepaired", f"Restored {', '.join(found.repaired)}")
        observer().drift_repaired(len(found.repaired))


async def _children(ctx: Context[T], plan: Plan[T], execution: Execution) -> list[Child]:
    """Return the objects that exist at the end of the plan, in the order in which it makes them."""
    found: dict[_Identity, Child] = {}
    for phase in plan.phases:
        for step in phase.steps:
            context = step_context(ctx, execution, phase, step, execution.started or ctx.clock.now())
            for task in step.tasks:
                children = await task.children(context)
                for each in children.absent:
                    found.pop(_identity(ctx, each), None)
                for child in children.present:
                    found[_identity(ctx, child.object)] = child
    return list(found.values())


def _identity(ctx: Context[T], obj: Object) -> _Identity:
    key = _key(ctx, obj)
    return obj.__api__.group, obj.__api__.kind, key.namespace or "", key.name


def _key(ctx: Context[T], obj: Object) -> ObjectKey:
    namespace = (obj.metadata.namespace or ctx.request.namespace) if obj.__api__.namespaced else None
    return ObjectKey(namespace, obj.metadata.name)


def _version(ctx: Context[T], obj: Object) -> str | None:
    """Return the version that the cache shows; "" for an object that does not exist, None for an uncached kind."""
    informer = ctx.client.cache.informer_or_none(type(obj))
    if informer is None:
        return None
    entry = copy_of(informer).latest(_key(ctx, obj))
    return str(entry.resource_version) if entry is not None else ""
