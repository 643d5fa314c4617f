"""The API: what a DemoVolume is, in version v1."""

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
    """What a DemoVolume should be."""

    name: Annotated[str, m.MinLength(1)]
    """What people call the volume."""
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
    """How large it is, in GiB. It can grow, where its storage class allows that, and cannot shrink."""
    storage_class_name: Annotated[str, m.MinLength(1), m.MaxLength(253)] | None = None
    """The StorageClass of the volume; the cluster's default one when it is not given."""


class DemoVolumeStatus(Model):
    """What a DemoVolume is."""

    name: str = ""
    """A copy of spec.name."""
    observed_generation: Int64 = 0
    """The generation of the spec that this status is about."""
    claim_phase: str = ""
    """Of the PersistentVolumeClaim: Pending, Bound or Lost; Terminating while it is being deleted."""
    capacity: Quantity | None = None
    """How large the storage behind the claim is."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready says whether there is storage of the size that the spec asks for, and why not."""


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
    """A DemoVolume is storage: a PersistentVolumeClaim of its name, as large as it says."""

    spec: DemoVolumeSpec
    status: DemoVolumeStatus = field(default_factory=DemoVolumeStatus)
