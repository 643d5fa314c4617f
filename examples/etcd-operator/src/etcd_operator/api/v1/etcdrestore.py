"""The API of EtcdRestore, version v1."""

from typing import Annotated

from kubewright import CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.plans import COLUMNS

from etcd_operator.api.v1.etcdbackup import TaskStatus


class EtcdRestoreSpec(Model):
    """The restore to execute, once."""

    cluster: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of the EtcdCluster. All its members and their data are replaced."""
    backup: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of an EtcdBackup in the same namespace. The restore waits for it to succeed."""


class EtcdRestoreStatus(TaskStatus):
    """The observed state of a restore."""


class EtcdRestore(
    CustomResource,
    group="etcd.kubewright.dev",
    version="v1",
    columns=[
        PrintColumn("Cluster", ".spec.cluster"),
        PrintColumn("Backup", ".spec.backup"),
        *(each for each in COLUMNS if each.name in ("State", "Step", "Since", "Ready")),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Message", ".status.plan.message", priority=1),
    ],
):
    """EtcdRestore replaces the data of a cluster with that of a backup, exactly once.

    Revisions continue well above those of the backup, so that clients that watch notice that history was replaced.
    """

    spec: Annotated[
        EtcdRestoreSpec, m.XValidation("self == oldSelf", message="a restore cannot be changed: create another one")
    ]
    status: EtcdRestoreStatus = field(default_factory=EtcdRestoreStatus)
