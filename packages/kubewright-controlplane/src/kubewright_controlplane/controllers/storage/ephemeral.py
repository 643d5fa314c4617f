"""Creates the claims of the ephemeral volumes of Pods (`volumes[].ephemeral`). The Pod owns them.

Follows kubernetes/pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from typing import Final

from kubewright.apis.core.v1 import PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.controllers import Context, Controller, controller
from kubewright.controllers.predicates import AnyEvent, Predicate
from kubewright_controlplane.common.volumes import claim_name

NAME: Final = "ephemeral-volume-controller"


class EphemeralVolumes:
    """Creates the missing claims of one Pod."""

    async def reconcile(self, ctx: Context[Pod]) -> None:
        pod = ctx.object
        if pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
            if name is not None and template is not None:
                await _ensure_claim(ctx, volume.name, name, template)


async def _ensure_claim(ctx: Context[Pod], volume: str, name: str, template: PersistentVolumeClaimTemplate) -> None:
    pod = ctx.object
    claim = await ctx.get_or_none(PersistentVolumeClaim, name)
    if claim is not None:
        if not any(each.uid == pod.metadata.uid and each.controller for each in claim.metadata.owner_references):
            where = f"{pod.metadata.namespace}/{name}"
            why = f"PVC {where} was not created for pod {pod.metadata.namespace}/{pod.metadata.name}"
            note = f"ephemeral volume {volume}: {why} (pod is not owner)"
            ctx.events.warning(pod, "FailedBinding", note, action="Binding")
        return
    metadata = ObjectMeta(name=name, namespace=pod.metadata.namespace)
    if template.metadata is not None:
        metadata.labels, metadata.annotations = template.metadata.labels, template.metadata.annotations
    await ctx.create(PersistentVolumeClaim(metadata=metadata, spec=template.spec))


def _may_have_ephemeral_volume(event: AnyEvent) -> bool:
    """Return whether the Pod may have an ephemeral volume, without decoding it."""
    return event.new is not None and b'"ephemeral":' in event.new.data


def ephemeral_volume_controller() -> Controller[Pod]:
    """Return the controller `ephemeral-volume-controller`."""
    declare = controller(
        Pod,
        name=NAME,
        predicate=Predicate(_may_have_ephemeral_volume),
        owns=[PersistentVolumeClaim],
        namespace_ending="stop",
    )
    return declare(EphemeralVolumes())
