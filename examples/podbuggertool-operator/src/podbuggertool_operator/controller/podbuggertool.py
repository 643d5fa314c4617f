"""The controller of Podbuggertool: each living, Ready Pod that matches has the tool as an ephemeral container."""

import asyncio
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from weakref import WeakValueDictionary

from kubewright import (
    Backoff,
    Conflict,
    Context,
    Forbidden,
    Invalid,
    KubewrightError,
    NotFound,
    PolicyRule,
    Result,
    Retry,
    Watch,
    controller,
)
from kubewright.apis.core.v1 import Pod
from kubewright.cache import Entry
from kubewright.client import StrategicPatch
from kubewright.controllers.predicates import changed

from podbuggertool_operator.api.v1beta1.podbuggertool import EARLIER, PendingPod, Podbuggertool
from podbuggertool_operator.controller.pods import container_name, facts
from podbuggertool_operator.controller.report import Report, tell, write_status

LOOK_AGAIN: Final = timedelta(seconds=3)
"""While a Pod that is not Ready is waited for."""
AT_ONCE: Final = 100
"""Pods that get the tool in one reconcile. Before the next ones it looks whether the tool is still wanted."""

turns: Final = WeakValueDictionary[str, asyncio.Lock]()
"""By the uid of a Pod: its tools are added one after the other. Of several at the same time one alone would get in."""


def label_of(tool: Podbuggertool) -> Iterable[str]:
    return [f"{tool.metadata.namespace}/{tool.spec.label}"]


def labels_of(pod: Entry[Pod]) -> Iterable[str]:
    return [f"{pod.key.namespace}/{key}={value}" for key, value in pod.labels.items()]


@controller(
    Podbuggertool,
    indexers={"label": label_of},
    watches=[Watch.indexed(Pod, "label", values=labels_of, predicate=changed(facts))],
    rules=[PolicyRule(api_groups=[""], resources=["pods/ephemeralcontainers"], verbs=["patch"])],
    retry=Retry(backoff=Backoff(limit=timedelta(minutes=1))),
)
async def reconcile(ctx: Context[Podbuggertool]) -> Result | None:
    await take_up_spec(ctx)
    report = await survey(ctx)
    ready = report.waiting("Adding")
    # Tools of the same Pods go through them in different orders, or they would wait for each other at each of them.
    chosen = random.sample(ready, min(len(ready), AT_ONCE))
    failures = [failure for name in chosen if (failure := await add(ctx, name, report)) is not None]
    tell(ctx, report)
    await write_status(ctx, report)
    if len(ready) > AT_ONCE and (report.added or not failures):
        return Result(requeue_after=timedelta(0))  # the next ones; what failed is among them again
    for failure in sorted(failures, key=lambda each: isinstance(each, Conflict)):  # what is told of comes first
        raise failure
    return Result(requeue_after=LOOK_AGAIN) if report.waiting("NotReady") else None


async def take_up_spec(ctx: Context[Podbuggertool]) -> None:
    """Write down the spec before anything is done for it: that can't be undone."""
    tool, before = ctx.object, ctx.object.status.spec
    if before == tool.spec:
        return
    if before is not None:
        stays = f"what Pods with {before.label} got from {before.image} stays there: it cannot be removed"
        ctx.events.normal(tool, "SpecChanged", stays)
        ctx.log.info(
            "Spec change", before=f"{before.label} {before.image}", after=f"{tool.spec.label} {tool.spec.image}"
        )
        tool.status.earlier.insert(0, before)
    tool.status.earlier = [each for each in tool.status.earlier if each != tool.spec][:EARLIER]
    tool.status.spec = tool.spec
    await ctx.update_status(tool.status)


async def survey(ctx: Context[Podbuggertool]) -> Report:
    """How each Pod stands that should have the tool."""
    tool, now, report = ctx.object, ctx.clock.now(), Report()
    for pod in await ctx.list(Pod, labels=tool.spec.label):
        report.look_at(pod, tool, now)
    return report


async def add(ctx: Context[Podbuggertool], name: str, report: Report) -> KubewrightError | None:
    """Add the tool to a Pod. What goes wrong is given, and does not keep the other Pods from it.

    It can't be undone, so it is done to the Pod as it was looked at or not at all: with its resource version. That also
    makes sure that it is done once.
    """
    tool = ctx.object
    container = {"name": container_name(tool.spec.image), "image": tool.spec.image, "stdin": True, "tty": True}
    try:
        async with turns.setdefault(report.pods[name].metadata.uid, asyncio.Lock()):
            pod = await ctx.get(Pod, name)
            report.look_at(pod, tool, ctx.clock.now())
            if not report.is_next(name):
                return None  # it has changed since it was listed
            seen = {"metadata": {"resourceVersion": pod.metadata.resource_version}}
            patch = StrategicPatch({**seen, "spec": {"ephemeralContainers": [container]}})
            await ctx.patch(pod, patch, subresource="ephemeralcontainers")
    except NotFound:
        report.forget(name)
        return None
    except Conflict as conflict:
        return conflict  # somebody else has changed it: it is looked at again
    except KubewrightError as error:
        refused = isinstance(error, (Forbidden, Invalid))  # anything else may be over at the next try
        report.pending[name] = PendingPod(name=name, reason="Refused" if refused else "Adding", message=str(error))
        return error
    report.added.append(name)
    del report.pending[name]
    note = f'Podbuggertool "{tool.metadata.name}" added {container["name"]} with the image {tool.spec.image}'
    ctx.events.normal(pod, "Added", note, related=tool)
    ctx.log.info("Ephemeral container added", pod=name, container=container["name"], image=tool.spec.image)
    return None
