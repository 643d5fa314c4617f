"""The API of EtcdBackup, version v1."""

from typing import Annotated, Literal, TypeAlias

from kubewright import CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int64, Time
from kubewright.plans import COLUMNS, PlansStatus

Phase: TypeAlias = Literal["Running", "Succeeded", "Failed"]


ClaimName: TypeAlias = Annotated[
    str,
    m.MinLength(1),
    m.MaxLength(253),
    m.XValidation(
        "!self.contains(':') && !self.contains('/')",
        message_expression="'\"' + self + '\" is not the name of a PersistentVolumeClaim: backups are written to a volume. "
        "For an object store (s3://, gs://, abfs://), use a claim whose StorageClass mounts the bucket'",
        message="backups are written to a volume: use the name of a PersistentVolumeClaim",
    ),
]
"""A destination of backups."""


class TaskStatus(PlansStatus):
    """The state of something that is done once: its plan."""

    @property
    def phase(self) -> Phase | None:
        """Whether it still runs, and how it ended; None before it begins."""
        if self.plan is None:
            return None
        return {"Complete": "Succeeded", "Failed": "Failed", "Canceled": "Failed"}.get(self.plan.state, "Running")  # type: ignore[return-value]

    @property
    def message(self) -> str:
        """Why it failed, or what it waits for."""
        return self.plan.message if self.plan is not None else ""


class EtcdBackupSpec(Model):
    """The backup to take, once."""

    cluster: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of an EtcdCluster in the same namespace."""
    claim: ClaimName
    """The name of the PersistentVolumeClaim that the snapshot is written to."""
    member: Annotated[str, m.MaxLength(253)] = ""
    """The member to ask, even without a quorum. By default the leader, which has all writes."""
    keep_file: bool = False
    """Whether the file stays when the EtcdBackup is deleted."""


class EtcdBackupStatus(TaskStatus):
    """The observed state of a backup."""

    file: str = ""
    """The path of the file in the volume of the claim."""
    bytes: Int64 = 0
    """The size of the snapshot."""
    sha256: str = ""
    """The hash of the snapshot. etcd sends it with the snapshot, and the backup succeeds only if both are equal."""
    revision: Int64 = 0
    """A revision that the backup contains: that of a linearizable read just before."""
    version: str = ""
    """The version of the member that made the snapshot."""
    completion_time: Time | None = None
    """When the snapshot was complete."""


class EtcdBackup(
    CustomResource,
    group="etcd.kubewright.dev",
    version="v1",
    columns=[
        PrintColumn("Cluster", ".spec.cluster"),
        *(each for each in COLUMNS if each.name in ("State", "Step", "Ready")),
        PrintColumn("Revision", ".status.revision", type="integer"),
        PrintColumn("Bytes", ".status.bytes", type="integer"),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Message", ".status.plan.message", priority=1),
    ],
):
    """EtcdBackup is a snapshot of an etcd cluster, verified and written to a volume."""

    spec: Annotated[
        EtcdBackupSpec, m.XValidation("self == oldSelf", message="a backup cannot be changed: create another one")
    ]
    status: EtcdBackupStatus = field(default_factory=EtcdBackupStatus)
