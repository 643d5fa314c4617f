"""The API of EtcdBackupSchedule, version v1."""

from typing import Annotated, Literal

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import Int32, Int64, Time

from etcd_operator.api.v1.etcdbackup import ClaimName


class EtcdBackupScheduleSpec(Model):
    """When backups are taken, and how many are kept."""

    cluster: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of an EtcdCluster in the same namespace."""
    claim: ClaimName
    """The name of the PersistentVolumeClaim that the snapshots are written to."""
    schedule: Annotated[str, m.MinLength(1), m.MaxLength(256)] | None = None
    """The times in the format of a CronJob: `0 */6 * * *`, `@daily`."""
    every: Annotated[str, m.Pattern(r"^([0-9]+(s|m|h))+$"), m.MaxLength(32)] | None = None
    """An interval instead of a schedule: `6h`, `1h30m`."""
    time_zone: Annotated[str, m.MinLength(1), m.MaxLength(64)] = "Etc/UTC"
    """The time zone of `schedule`: `Europe/Berlin`."""
    concurrency_policy: Literal["Forbid", "Allow", "Replace"] = "Forbid"
    """What happens if a backup is due while another one runs. Forbid waits until it has ended, and takes one backup
    for all times that have passed. Replace deletes it."""
    keep: Annotated[Int32, m.Minimum(1)] = 7
    """How many successful backups stay. Older ones are deleted, with their files."""
    keep_failed: Annotated[Int32, m.Minimum(0)] = 3
    """How many failed backups stay, with the logs of their Pods."""
    suspend: bool = False
    """Whether no backups are taken for now. Later, one is taken for all times that have passed."""


class EtcdBackupScheduleStatus(Model):
    """The observed state of a schedule."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status describes."""
    last_schedule_time: Time | None = None
    """The time that the latest backup was due."""
    next_schedule_time: Time | None = None
    """The time that the next backup is due."""
    last_success_time: Time | None = None
    """When the latest successful backup was complete."""
    last_backup: str = ""
    """The name of the latest successful backup."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Ready: the schedule is valid, and its latest backup has not failed."""


class EtcdBackupSchedule(
    CustomResource,
    group="etcd.kubewright.dev",
    version="v1",
    columns=[
        PrintColumn("Cluster", ".spec.cluster"),
        PrintColumn("Schedule", ".spec.schedule"),
        PrintColumn("Every", ".spec.every"),
        PrintColumn("Suspend", ".spec.suspend", type="boolean"),
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrintColumn("Last Backup", ".status.lastBackup"),
        PrintColumn("Last Success", ".status.lastSuccessTime", type="date"),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
    ],
):
    """EtcdBackupSchedule takes backups of a cluster at given times, and deletes old ones."""

    spec: Annotated[
        EtcdBackupScheduleSpec,
        m.XValidation("has(self.schedule) != has(self.every)", message="set either schedule or every"),
    ]
    status: EtcdBackupScheduleStatus = field(default_factory=EtcdBackupScheduleStatus)
