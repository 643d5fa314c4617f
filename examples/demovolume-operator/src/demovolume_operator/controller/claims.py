"""The claim of a DemoVolume."""

from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements
from kubewright.machinery.quantity import Quantity

from demovolume_operator.api.v1.demovolume import DemoVolume

STORAGE: Final = "storage"


def claim_for(volume: DemoVolume) -> PersistentVolumeClaim:
    """Return the desired claim of a volume."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=volume.metadata.name, namespace=volume.metadata.namespace),
        spec=PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=VolumeResourceRequirements(requests={STORAGE: str(size_of(volume))}),
            storage_class_name=volume.spec.storage_class_name,
        ),
    )


def size_of(volume: DemoVolume) -> Quantity:
    return Quantity.parse(f"{volume.spec.size}Gi")


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.spec.resources.requests.get(STORAGE, "0") if claim.spec.resources else "0")


def capacity_of(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.status.capacity.get(STORAGE, "0"))


def not_owned_message(claim: PersistentVolumeClaim) -> str:
    """Return the message about a claim that has the name of a volume, but that the volume does not control."""
    owners = [
        f'is controlled by {each.kind} "{each.name}"' for each in claim.metadata.owner_references if each.controller
    ]
    return (
        f'PersistentVolumeClaim "{claim.metadata.name}" {"".join(owners) or "has no controlling owner"}, and was not created for this volume: '
        "delete the claim, or create the volume under another name"
    )
