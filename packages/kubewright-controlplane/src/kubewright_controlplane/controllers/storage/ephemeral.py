"""Creates the claims of ephemeral volumes. They belong to their Pods, so the garbage collector deletes them.

Follows kubernetes/pkg/controller/volume/ephemeral and
https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Volume
from kubewright.apis.meta.v1 import ObjectMeta, OwnerReference
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.machinery.errors import AlreadyExists
from kubewright_controlplane.common.pods import is_finished

NAME: Final = "ephemeral-volume-controller"


async def reconcile(ctx: Context[Pod]) -> None:
    pod = ctx.object
    if pod.metadata.deletion_timestamp is not None or is_finished(pod):
        return
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            await _create_claim(ctx, volume)


async def _create_claim(ctx: Context[Pod], volume: Volume) -> None:
    """Create the claim of a volume. If a claim of another owner has its name, an Event says so."""
    pod, template = ctx.object, volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    if template is None:
        return
    name = f"{pod.metadata.name}-{volume.name}"
    found = await ctx.get_or_none(PersistentVolumeClaim, name)
    if found is None:
        owner = OwnerReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid or "",
            controller=True,
            block_owner_deletion=True,
        )
        given = template.metadata or ObjectMeta(name="")
        metadata = ObjectMeta(
            name=name,
            namespace=pod.metadata.namespace,
            labels=given.labels,
            annotations=given.annotations,
            owner_references=[owner],
        )
        with suppress(AlreadyExists):
            await ctx.create(PersistentVolumeClaim(metadata=metadata, spec=msgspec.structs.replace(template.spec)))
    elif all(each.uid != pod.metadata.uid for each in found.metadata.owner_references):
        note = f'PVC "{name}" was not created for pod "{pod.metadata.name}" (pod is not owner)'
        ctx.events.warning(pod, "FailedBinding", note, action="Binding")


def _owner_of(claim: PersistentVolumeClaim, _: object) -> Iterable[Request]:
    owners = (each for each in claim.metadata.owner_references if each.controller and each.kind == "Pod")
    return [Request(claim.metadata.namespace, each.name) for each in owners]


def ephemeral_volume_controller() -> Controller[Pod]:
    """Return the controller `ephemeral-volume-controller`."""
    watches = [Watch.mapped(PersistentVolumeClaim, _owner_of)]
    return controller(Pod, name=NAME, watches=watches, namespace_ending="stop")(reconcile)
