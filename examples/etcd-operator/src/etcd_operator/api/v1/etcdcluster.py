"""The API of EtcdCluster, version v1."""

from typing import Annotated, Literal

from kubewright import Condition, CustomResource, Model, PrintColumn, field
from kubewright import markers as m
from kubewright.apis.core.v1 import Affinity, ResourceRequirements, Toleration, TopologySpreadConstraint
from kubewright.apis.meta.v1 import Int32, Int64, Quantity, Time
from kubewright.models import Scale

from etcd_operator.api.v1.etcdbackup import ClaimName

AVAILABLE = "Available"
READY = "Ready"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"

OWN_OPTIONS = (
    "name", "data-dir", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state",
    "initial-cluster-token", "listen-peer-urls", "listen-client-urls", "advertise-client-urls",
    "listen-metrics-urls", "cert-file", "key-file", "client-cert-auth", "trusted-ca-file", "peer-cert-file",
    "peer-key-file", "peer-client-cert-auth", "peer-trusted-ca-file", "peer-skip-client-san-verification",
    "force-new-cluster", "unsafe-no-fsync", "strict-reconfig-check", "quota-backend-bytes",
)  # fmt: skip
"""Options of etcd that the operator sets, or that can lose data."""


class Storage(Model):
    """The volume of each member."""

    size: Quantity = "1Gi"
    """The size of each claim. A larger size expands the claims, if their StorageClass allows it."""
    storage_class_name: Annotated[str, m.MinLength(1), m.MaxLength(253)] | None = None
    """The StorageClass of the claims; the default class of the cluster if not set."""


class TLS(Model):
    """Certificates, from an authority that the operator creates for this cluster."""

    enabled: bool = False
    """Whether clients and members use TLS, and prove who they are with certificates."""
    certificate_days: Annotated[Int32, m.Minimum(1), m.Maximum(3650)] = 365
    """How long a certificate is valid. It is replaced when two thirds of the time are over; etcd needs no restart."""
    authority_days: Annotated[Int32, m.Minimum(1), m.Maximum(36500)] = 3650
    """How long the authority is valid. It is replaced when two thirds of the time are over: members and clients trust
    the old and the new one meanwhile, and each member restarts twice."""
    rotate_authority: Annotated[str, m.MaxLength(63)] = ""
    """Any text, such as a date. A change replaces the authority now."""
    overlap_seconds: Annotated[Int32, m.Minimum(1)] = 86400
    """How long clients have to read their Secret again, before certificates of a new authority are used, and again
    before the old authority is no longer trusted."""


class PodTemplate(Model):
    """Settings of the Pods of all members. A change replaces one Pod after the other."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    affinity: Affinity | None = None
    """Without it, the scheduler prefers a node for each member."""
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    priority_class_name: str | None = None


class Maintenance(Model):
    """What the operator does to keep the database small and open for writes."""

    defragment_percent: Annotated[Int32, m.Minimum(0), m.Maximum(99)] = 50
    """Defragments a member when at least this share of its database is free, one member at a time, the leader last;
    0 turns it off."""
    defragment_min_bytes: Annotated[Int64, m.Minimum(0)] = 100 * 1024 * 1024
    """Leaves smaller databases alone."""
    compaction_revisions: Annotated[Int64, m.Minimum(0)] = 0
    """Keeps this many revisions, and compacts older ones; 0 leaves compaction to the clients."""
    replace_slow_after_seconds: Annotated[Int32, m.Minimum(0)] = 0
    """Replaces a member that has been slow for this long, compared with what the operator has learned of it; 0 only
    reports it, and moves leadership away from it."""


class Autoscaling(Model):
    """How a cluster follows the size of its data. The operator restarts one member after the other for each change."""

    max_quota_bytes: Annotated[Int64, m.Minimum(16 * 1024 * 1024)]
    """The largest quota. While a database uses more than 80 % of the quota, the quota doubles, and the memory of the
    members and their volumes grow with it."""
    shrink_after_seconds: Annotated[Int32, m.Minimum(1)] = 86400
    """How long the databases have to be smaller than 20 % of the quota before quota and memory are halved, at the least
    to those of the spec. Volumes never shrink."""


class QuorumRecovery(Model):
    """What the operator does when most members are lost for good."""

    enabled: bool = False
    """Whether the operator makes a new cluster from the data of the most advanced living member. Writes that only the
    lost members had are lost."""
    after_seconds: Annotated[Int32, m.Minimum(1)] = 900
    """How long the cluster has to be without a quorum before that."""
    backup_claim: ClaimName
    """The PersistentVolumeClaim for the snapshot that is taken first."""


class RestoreSource(Model):
    """Where a new cluster gets its data from."""

    backup: Annotated[str, m.MinLength(1), m.MaxLength(253)]
    """The name of an EtcdBackup in the same namespace that has succeeded."""


class EtcdClusterSpec(Model):
    """The desired state of an etcd cluster."""

    size: Annotated[Int32, m.Minimum(1), m.Maximum(9)] = 3
    """The number of members. An odd number tolerates the most failures for its size."""
    version: Annotated[str, m.Pattern(r"^3\.[0-9]+\.[0-9]+$"), m.MaxLength(16)]
    """The version of etcd, such as 3.6.16. A change upgrades or downgrades one member after the other, by at most one
    minor version."""
    image: Annotated[str, m.MinLength(1)] = "gcr.io/etcd-development/etcd"
    """The repository of the image. Its tag is `v` and the version."""
    storage: Storage = field(default_factory=Storage)
    """The volumes of the members."""
    tls: Annotated[TLS, m.XValidation("self.enabled == oldSelf.enabled", message="members have no common protocol")] = (
        field(default_factory=TLS)
    )
    """Whether, and with which certificates, members and clients use TLS."""
    quota_bytes: Annotated[Int64, m.Minimum(16 * 1024 * 1024)] = 2 * 1024 * 1024 * 1024
    """The size of the database at which etcd stops accepting writes."""
    autoscaling: Autoscaling | None = None
    """Lets quota, memory and volumes follow the data. Without it, they are those of the spec."""
    options: Annotated[
        dict[str, str],
        m.MaxProperties(64),
        m.XValidation(
            f"self.all(name, !(name in {list(OWN_OPTIONS)}))",
            message="the operator sets this option itself, or it can lose data",
        ),
    ] = {}
    """More options of etcd, without the dashes: `heartbeat-interval: "200"`."""
    pod_template: PodTemplate = field(default_factory=PodTemplate)
    """Settings of the members' Pods."""
    replace_after_seconds: Annotated[Int32, m.Minimum(1)] = 300
    """How long a member may be down before it is removed, with its volume, and another one takes its place. A new
    member has at least five minutes for its first start."""
    maintenance: Maintenance = field(default_factory=Maintenance)
    """What keeps the databases small and the members fast."""
    quorum_recovery: QuorumRecovery | None = None
    """What happens when a majority is lost for good. By default, the operator waits for a user."""
    restore_from: Annotated[RestoreSource, m.Immutable()] | None = None
    """The data of a new cluster. Without it, the cluster is empty."""


class MemberStatus(Model):
    """What etcd says about a member."""

    name: str
    address: str = ""
    """The address at which the other members know it: that of its Service."""
    id: str = ""
    """The member's ID, in hexadecimal as etcd writes it."""
    version: str = ""
    healthy: bool = False
    learner: bool = False
    """Whether it only receives data yet, and does not vote."""
    leader: bool = False
    database_bytes: Int64 = 0
    in_use_bytes: Int64 = 0
    unhealthy_since: Time | None = None
    """Since when it did not answer."""
    usual_milliseconds: Int32 = 0
    """How long it usually takes to answer, once the operator has learned it."""
    slow_since: Time | None = None
    """Since when it takes much longer than usual."""


class Epoch(Model):
    """One life of the cluster's data. A restore begins the next one."""

    number: Int64 = 0
    backup: str = ""
    """The EtcdBackup that it began with; empty for a cluster that began empty."""
    restore: str = ""
    """The uid of the EtcdRestore that began it."""


class EtcdClusterStatus(Model):
    """The observed state of an etcd cluster."""

    observed_generation: Int64 = 0
    """The generation of the spec that this status describes."""
    cluster_id: str = field(default="", name="clusterID")
    """The cluster's ID, in hexadecimal. Once it is set, no second cluster is ever begun in this epoch."""
    epoch: Epoch = field(default_factory=Epoch)
    """The current life of the cluster's data."""
    version: str = ""
    """The lowest version of all members."""
    leader: str = ""
    """The name of the leader."""
    ready: Int32 = 0
    """The number of healthy voting members."""
    selector: str = ""
    """The labels of the members' Pods, for `kubectl scale`."""
    members: Annotated[list[MemberStatus], m.ListType("map"), m.ListMapKey("name")] = []
    """What etcd says about each member."""
    no_quorum_since: Time | None = None
    """Since when no majority has answered."""
    downgrade_minor: Int32 = 0
    """The minor version that etcd was asked to prepare its data for, in a downgrade."""
    compacted_revision: Int64 = 0
    """The revision of the operator's latest compaction."""
    quota_bytes: Int64 = 0
    """The quota that autoscaling has chosen."""
    idle_since: Time | None = None
    """Since when the databases have been small enough for a smaller quota."""
    rotation: Literal["", "Trusting", "Signing"] = ""
    """The step of a rotation of the authority. Trusting: members and clients get a new one to trust in addition to the old one.
    Signing: the new one signs, and the old one is still trusted."""
    endpoint: str = ""
    """The URL for clients in the cluster."""
    conditions: Annotated[list[Condition], m.ListType("map"), m.ListMapKey("type")] = []
    """Available: a quorum answers. Ready: all members are healthy and as wanted. Progressing: the operator changes
    something. Degraded: something needs attention."""


class EtcdCluster(
    CustomResource,
    group="etcd.kubewright.dev",
    version="v1",
    scale=Scale(replicas=".spec.size", status_replicas=".status.ready", selector=".status.selector"),
    columns=[
        PrintColumn("Size", ".spec.size", type="integer"),
        PrintColumn("Ready", ".status.ready", type="integer"),
        PrintColumn("Version", ".status.version"),
        PrintColumn("Leader", ".status.leader"),
        PrintColumn("Available", '.status.conditions[?(@.type=="Available")].status'),
        PrintColumn("Progressing", '.status.conditions[?(@.type=="Progressing")].reason'),
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("Message", '.status.conditions[?(@.type=="Progressing")].message', priority=1),
    ],
):
    """EtcdCluster is a cluster of etcd: its members, their volumes and certificates."""

    spec: EtcdClusterSpec
    status: EtcdClusterStatus = field(default_factory=EtcdClusterStatus)

    @property
    def quota_bytes(self) -> int:
        """The quota of now: that of the spec, or a larger one that autoscaling has chosen."""
        scaling = self.spec.autoscaling
        chosen = min(self.status.quota_bytes, scaling.max_quota_bytes) if scaling is not None else 0
        return max(self.spec.quota_bytes, chosen)
