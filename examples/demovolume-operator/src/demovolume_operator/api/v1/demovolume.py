"""The API of DemoVolume, version v1."""

from typing import Annotated

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64, Quantity

READY = "Ready"


class DemoVolumeSpec(
    Model,
    markers=[
        m.XValidation(
            "has(self.storageClassName) == has(oldSelf.storageClassName) && "
            "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            message="a volume stays in its storage class: make another volume",
            field_path=".storageClassName",
        )
    ],
):
    """The desired state of a DemoVolume."""

    name: Annotated[str, m.MinLength(1)]
    """A display name for the volume."""
    size: Annotated[
        int,
        m.Minimum(1),
        m.Maximum(1024 * 1024),
        m.XValidation(
            "self >= oldSelf",
            message="a volume cannot shrink: make a smaller one, and copy what is in this one",
            reason="FieldValueForbidden",
        ),
    ]
    """The size in GiB. A volume can grow if its storage class allows expansion. It cannot shrink."""
    storage_class_name: Annotated[str, m.MinLength(1), m.MaxLength(253)] | None = None
    """The StorageClass of the volume; the default class of the cluster if not set."""


class DemoVolumeStatus(Model):
    """The observed state of a DemoVolume."""

    name: str = ""
    """A copy of spec.name."""
    observed_generation: Int64 = 0
    """The generation of the spec that this status describes."""
    claim_phase: str = ""
    """The phase of the PersistentVolumeClaim: Pending, Bound, Lost, or Terminating while it is being deleted."""
    capacity: Quantity | None = None
    """The size of the storage that is bound to the claim."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready reports whether storage of the desired size is available, and if not, why."""


class DemoVolume(
    CustomResource,
    group="demo.civo.com",
    version="v1",
    columns=[
        PrintColumn("Size", ".spec.size", type="integer"),
        PrintColumn("Claim", ".status.claimPhase"),
        PrintColumn("Capacity", ".status.capacity"),
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
    ],
):
    """DemoVolume is a volume, stored in a PersistentVolumeClaim of the same name."""

    spec: DemoVolumeSpec
    status: DemoVolumeStatus = field(default_factory=DemoVolumeStatus)
