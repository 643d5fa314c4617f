"""Making and deleting pods for their controllers, with events that tell of it.

Pods are created in batches that double in size, so that a template which the API server refuses costs one request and
not hundreds. Follows kubernetes/pkg/controller (controller_utils.go, replicaset's slowStartBatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from kubewright.apis.core.v1 import Pod, PodTemplateSpec
from kubewright.apis.meta.v1 import ObjectMeta, owner_reference
from kubewright.controllers import Context
from kubewright.machinery.errors import APIError
from kubewright.models import Object

T = TypeVar("T", bound=Object)

BURST = 500
"""The most pods created or deleted in one reconcile."""


def pod_of(owner: Object, template: PodTemplateSpec) -> Pod:
    """A pod as the template says, owned by `owner`, under a name that the API server completes.

    Labels and annotations are the pod's own to change; the spec is the template's.
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


async def create_pods(ctx: Context[T], wanted: Sequence[Pod]) -> list[Pod]:
    """Create pods, in batches of 1, 2, 4, ... Raises the first failure, after its batch is through."""
    made: list[Pod] = []
    batch, start = 1, 0
    while start < len(wanted):
        chunk = wanted[start : start + batch]
        outcomes = await asyncio.gather(*(ctx.create(pod) for pod in chunk), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Pod):
                made.append(outcome)
                _tell(ctx, outcome, "SuccessfulCreate", "Created")
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if failures:
            first = failures[0]
            if not (isinstance(first, APIError) and first.namespace_is_ending):
                ctx.events.warning(ctx.object, "FailedCreate", f"Error creating: {first}", action="Create")
            raise first
        start += batch
        batch *= 2
    return made


async def delete_pods(ctx: Context[T], surplus: Sequence[Pod]) -> None:
    """Delete pods, all at once; those that are gone already are fine."""

    async def delete(pod: Pod) -> None:
        await ctx.delete(pod)
        _tell(ctx, pod, "SuccessfulDelete", "Deleted")

    await asyncio.gather(*(delete(pod) for pod in surplus))


def _tell(ctx: Context[T], pod: Pod, reason: str, done: str) -> None:
    ctx.events.normal(ctx.object, reason, f"{done} pod: {pod.metadata.name}", action=reason)
