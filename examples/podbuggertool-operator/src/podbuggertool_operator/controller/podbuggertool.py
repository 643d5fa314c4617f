"""The controller of Podbuggertool: adds the tool to each matching, Ready Pod as an ephemeral container."""

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
from podbuggertool_operator.controller.report import Report, record_events, write_status

CHECK_INTERVAL: Final = timedelta(seconds=3)
"""Interval of checks while a Pod is not Ready."""
BATCH: Final = 100
"""Maximum number of Pods to change in one reconcile. The next reconcile reads the tool again."""

locks: Final = WeakValueDictionary[str, asyncio.Lock]()
"""Locks by the uid of a Pod: its tools are added one after the other. Concurrent patches of one Pod would conflict."""


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
    await record_spec(ctx)
    report = await survey(ctx)
    ready = report.waiting("Adding")
    # In random order, so that tools for the same Pods rarely wait for each other.
    chosen = random.sample(ready, min(len(ready), BATCH))
    failures = [failure for name in chosen if (failure := await add(ctx, name, report)) is not None]
    record_events(ctx, report)
    await write_status(ctx, report)
    if len(ready) > BATCH and (report.added or not failures):
        return Result(requeue_after=timedelta(0))  # for the next Pods, and those that failed
    for failure in sorted(failures, key=lambda each: isinstance(each, Conflict)):  # errors first
        raise failure
    return Result(requeue_after=CHECK_INTERVAL) if report.waiting("NotReady") else None


async def record_spec(ctx: Context[Podbuggertool]) -> None:
    """Record the spec in the status before the first Pod is changed: an added container cannot be removed."""
    tool, before = ctx.object, ctx.object.status.spec
    if before == tool.spec:
        return
    if before is not None:
        message = f"Pods with {before.label} keep the container with {before.image}: it cannot be removed"
        ctx.events.normal(tool, "SpecChanged", message)
        ctx.log.info(
            "Podbuggertool spec change",
            before=f"{before.label} {before.image}",
            after=f"{tool.spec.label} {tool.spec.image}",
        )
        tool.status.earlier.insert(0, before)
    tool.status.earlier = [each for each in tool.status.earlier if each != tool.spec][:EARLIER]
    tool.status.spec = tool.spec
    await ctx.update_status(tool.status)


async def survey(ctx: Context[Podbuggertool]) -> Report:
    """Return the state of each Pod that should have the tool."""
    tool, now, report = ctx.object, ctx.clock.now(), Report()
    for pod in await ctx.list(Pod, labels=tool.spec.label):
        report.update(pod, tool, now)
    return report


async def add(ctx: Context[Podbuggertool], name: str, report: Report) -> KubewrightError | None:
    """Add the tool to a Pod. Returns the error, if any, so that the other Pods still get the tool.

    The patch has the resource version of the Pod, because it cannot be undone. So the Pod has not changed since it was
    checked, and the container is added only once.
    """
    tool = ctx.object
    container = {"name": container_name(tool.spec.image), "image": tool.spec.image, "stdin": True, "tty": True}
    try:
        async with locks.setdefault(report.pods[name].metadata.uid, asyncio.Lock()):
            pod = await ctx.get(Pod, name)
            report.update(pod, tool, ctx.clock.now())
            if not report.is_next(name):
                return None  # the Pod changed since it was listed
            seen = {"metadata": {"resourceVersion": pod.metadata.resource_version}}
            patch = StrategicPatch({**seen, "spec": {"ephemeralContainers": [container]}})
            await ctx.patch(pod, patch, subresource="ephemeralcontainers")
    except NotFound:
        report.forget(name)
        return None
    except Conflict as conflict:
        return conflict  # another client changed the Pod; the retry reads it again
    except KubewrightError as error:
        refused = isinstance(error, (Forbidden, Invalid))  # a retry may solve any other error
        report.pending[name] = PendingPod(name=name, reason="Refused" if refused else "Adding", message=str(error))
        return error
    report.added.append(name)
    del report.pending[name]
    note = f'Podbuggertool "{tool.metadata.name}" added {container["name"]} with the image {tool.spec.image}'
    ctx.events.normal(pod, "Added", note, related=tool)
    ctx.log.info("Ephemeral container added", pod=name, container=container["name"], image=tool.spec.image)
    return None
