"""Creates and deletes the Pods of a controller, and records events about it.

Pods are created in batches that double in size, so that a template that the API server rejects costs one request.

Follows kubernetes/pkg/controller (controller_utils.go, replicaset's slowStartBatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from kubewright.apis.core.v1 import Pod, PodTemplateSpec
from kubewright.apis.meta.v1 import ObjectMeta, owner_reference
from kubewright.controllers import Context
from kubewright.machinery.errors import APIError
from kubewright.models import Object

T = TypeVar("T", bound=Object)

BURST = 500
"""The maximum number of Pods created or deleted in one reconcile."""


class Notes(NamedTuple):
    """The notes of Events about Pods."""

    created: str = "Created pod: {pod}"
    deleted: str = "Deleted pod: {pod}"
    failed: str = "Error creating: {error}"


_NOTES: Final = Notes()


def pod_of(owner: Object, template: PodTemplateSpec) -> Pod:
    """Return a Pod of the template, owned by `owner`, with a name that the API server completes.

    Labels and annotations are copies. The spec is shared with the template.
    """
    return Pod(
        metadata=ObjectMeta(
            generate_name=f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(template.metadata.annotations),
            finalizers=list(template.metadata.finalizers),
            owner_references=[owner_reference(owner)],
        ),
        spec=template.spec,
    )


async def create_pods(ctx: Context[T], wanted: Sequence[Pod], notes: Notes = _NOTES) -> list[Pod]:
    """Create Pods in batches of 1, 2, 4, ... Raises the first error after its batch has ended."""
    made: list[Pod] = []
    batch, start = 1, 0
    while start < len(wanted):
        chunk = wanted[start : start + batch]
        outcomes = await asyncio.gather(*(ctx.create(pod) for pod in chunk), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Pod):
                made.append(outcome)
                _record(ctx, "SuccessfulCreate", notes.created, outcome)
        failures = [(pod, each) for pod, each in zip(chunk, outcomes, strict=True) if isinstance(each, BaseException)]
        if failures:
            pod, first = failures[0]
            if not (isinstance(first, APIError) and first.namespace_is_ending):
                note = notes.failed.format(pod=pod.metadata.name, error=first)
                ctx.events.warning(ctx.object, "FailedCreate", note, action="Create")
            raise first
        start += batch
        batch *= 2
    return made


async def delete_pods(ctx: Context[T], surplus: Sequence[Pod], notes: Notes = _NOTES) -> None:
    """Delete Pods concurrently. Ignores those that no longer exist."""

    async def delete(pod: Pod) -> None:
        await ctx.delete(pod)
        _record(ctx, "SuccessfulDelete", notes.deleted, pod)

    await asyncio.gather(*(delete(pod) for pod in surplus))


def _record(ctx: Context[T], reason: str, note: str, pod: Pod) -> None:
    ctx.events.normal(ctx.object, reason, note.format(pod=pod.metadata.name), action=reason)
