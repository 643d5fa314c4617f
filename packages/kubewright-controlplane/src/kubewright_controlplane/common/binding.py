"""Decides which volume fits a claim, and reads the references between the two. Reads and writes nothing.

Follows kubernetes/pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.apis.core.v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.common.selection import compiled
from kubewright_controlplane.common.volumes import BIND_COMPLETED

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONERS: Final = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
"""The annotations of a claim that name the provisioner of its volume."""
_STORAGE: Final = "storage"


def is_reference_to(reference: ObjectReference | None, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is bound to the claim, or reserved for a claim of its name."""
    if reference is None:
        return False
    same = (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
    return same and reference.uid in (None, "", claim.metadata.uid)


def best(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """Return the volume that is reserved for the claim, or else the smallest free one that fits."""
    fitting = [volume for volume in volumes if fits(claim, volume)]
    kept = [volume for volume in fitting if volume.spec.claim_ref is not None]
    return min(kept or fitting, key=lambda each: (capacity_of(each).value, each.metadata.name), default=None)


def fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether the volume is free and meets all requirements of the claim."""
    if volume.metadata.deletion_timestamp is not None:
        return False
    if volume.spec.claim_ref is not None and not is_reference_to(volume.spec.claim_ref, claim):
        return False
    selector = claim.spec.selector
    return (
        (volume.spec.storage_class_name or "") == (claim.spec.storage_class_name or "")
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (selector is None or compiled(selector).matches(volume.metadata.labels))
        and capacity_of(volume) >= requested_by(claim)
    )


def capacity_of(volume: PersistentVolume) -> Quantity:
    return Quantity.of(volume.spec.capacity.get(_STORAGE, "0"))


def requested_by(claim: PersistentVolumeClaim) -> Quantity:
    requests = claim.spec.resources.requests if claim.spec.resources else {}
    return Quantity.of(requests.get(_STORAGE, "0"))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether claim and volume refer to each other."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations
