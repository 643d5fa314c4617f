"""The API: what a VolumeOperation is, in version v1."""

from typing import Annotated, Literal, TypeAlias

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64, Time

SUCCEEDED = "Succeeded"

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Failed"]


class VolumeOperationSpec(Model):
    """What is to be done, once."""

    volume: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of a DemoVolume in the same namespace."""
    type: Literal["Rebuild"]
    """Rebuild puts an empty volume in the place of the present one. What is in it is lost."""
    starting_deadline_seconds: Annotated[Int32, m.Minimum(1)] = 300
    """How long the operation may wait for its volume and its turn. One that did not begin in this time has failed: it
    would come when nobody expects it any more."""


class VolumeOperationStatus(Model):
    """How far it is."""

    phase: Phase | None = None
    """Pending until it begins, Running until it is done, then Succeeded or Failed for ever."""
    observed_generation: Int64 = 0
    """The generation of the spec that this status is about."""
    volume_uid: str = field(default="", name="volumeUID")
    """The very volume that the operation is carried out on; recorded when it begins."""
    replaced_claim_uid: str = field(default="", name="replacedClaimUID")
    """The very PersistentVolumeClaim that is to go; recorded before it is deleted, so that no other ever is."""
    new_claim_uid: str = field(default="", name="newClaimUID")
    """The one in its place."""
    start_time: Time | None = None
    completion_time: Time | None = None
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Succeeded is True or False when it is over, Unknown before, and says why or what is waited for."""


class VolumeOperation(
    CustomResource,
    group="demo.civo.com",
    version="v1",
    columns=[
        PrintColumn("Volume", ".spec.volume"),
        PrintColumn("Type", ".spec.type"),
        PrintColumn("Phase", ".status.phase"),
        PrintColumn("Reason", '.status.conditions[?(@.type=="Succeeded")].reason'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Message", '.status.conditions[?(@.type=="Succeeded")].message', priority=1),
    ],
):
    """A VolumeOperation is done to a DemoVolume exactly once. What it was and how it ended stays to be read."""

    spec: Annotated[
        VolumeOperationSpec,
        m.XValidation("self == oldSelf", message="an operation is carried out once, as it was made: make another one"),
    ]
    status: VolumeOperationStatus = field(default_factory=VolumeOperationStatus)
