"""The claim of a DemoVolume: what it should be, and whose one is that is there."""

from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements
from kubewright.machinery.quantity import Quantity

from demovolume_operator.api.v1.demovolume import DemoVolume

STORAGE: Final = "storage"


def claim_for(volume: DemoVolume) -> PersistentVolumeClaim:
    """The claim that a volume should have."""
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


def asked_of(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.spec.resources.requests.get(STORAGE, "0") if claim.spec.resources else "0")


def capacity_of(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.of(claim.status.capacity.get(STORAGE, "0"))


def belongs_to(claim: PersistentVolumeClaim, volume: DemoVolume) -> bool:
    """Whether it is this very volume's: not that of somebody else, nor of an earlier volume of the name."""
    return any(each.controller and each.uid == volume.metadata.uid for each in claim.metadata.owner_references)


def why_left_alone(claim: PersistentVolumeClaim) -> str:
    """What is to be said of a claim that has a volume's name and is not the volume's."""
    owner = next(
        (f'{each.kind} "{each.name}"' for each in claim.metadata.owner_references if each.controller), "nobody"
    )
    return (
        f'PersistentVolumeClaim "{claim.metadata.name}" was not made for this volume (it belongs to {owner}) and is '
        "left alone: delete it, or give the volume another name"
    )
