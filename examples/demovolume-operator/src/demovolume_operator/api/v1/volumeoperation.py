"""The API of VolumeOperation, version v1."""

from typing import Annotated, Literal, TypeAlias

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64, Time

SUCCEEDED = "Succeeded"

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Failed"]


class VolumeOperationSpec(Model):
    """The operation to execute, once."""

    volume: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of a DemoVolume in the same namespace."""
    type: Literal["Rebuild"]
    """Rebuild replaces the volume's claim with an empty one. All data is lost."""
    starting_deadline_seconds: Annotated[Int32, m.Minimum(1)] = 300
    """How long the operation may wait for its volume and for earlier operations. An operation that has not started by
    then fails, so it never runs at an unexpected time."""


class VolumeOperationStatus(Model):
    """The observed state of a VolumeOperation."""

    phase: Phase | None = None
    """Pending until the operation starts, Running until it ends, then Succeeded or Failed. A final phase never changes."""
    observed_generation: Int64 = 0
    """The generation of the spec that this status describes."""
    volume_uid: str = field(default="", name="volumeUID")
    """The uid of the DemoVolume, recorded when the operation starts."""
    replaced_claim_uid: str = field(default="", name="replacedClaimUID")
    """The uid of the PersistentVolumeClaim to replace, recorded before it is deleted. No other claim is deleted."""
    new_claim_uid: str = field(default="", name="newClaimUID")
    """The uid of the new PersistentVolumeClaim."""
    start_time: Time | None = None
    """The time when the operation started."""
    completion_time: Time | None = None
    """The time when the operation ended."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Succeeded is Unknown until the operation ends, then True or False. Its message names what the operation waits for,
    or why it failed."""


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
    """VolumeOperation is an operation on a DemoVolume that is executed exactly once."""

    spec: Annotated[
        VolumeOperationSpec,
        m.XValidation("self == oldSelf", message="an operation cannot be changed: create another one"),
    ]
    status: VolumeOperationStatus = field(default_factory=VolumeOperationStatus)
