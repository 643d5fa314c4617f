"""The operator's own metrics. etcd serves its metrics itself, on port 2381 of each Pod."""

from collections.abc import Iterable
from typing import Final

from kubewright import Condition, Manager
from kubewright.controllers import Request
from kubewright.models import Object
from prometheus_client import Counter, Gauge

from etcd_operator.api.v1.etcdcluster import EtcdCluster

_CLUSTER: Final = ["namespace", "cluster"]
MEMBERS: Final = Gauge("etcd_operator_members_wanted", "spec.size of a cluster.", _CLUSTER, registry=None)
READY: Final = Gauge("etcd_operator_members_ready", "Healthy voting members.", _CLUSTER, registry=None)
QUORUM: Final = Gauge("etcd_operator_quorum", "1 while a majority answers.", _CLUSTER, registry=None)
DATABASE: Final = Gauge(
    "etcd_operator_database_bytes", "Size of the largest database of a cluster.", _CLUSTER, registry=None
)
QUOTA: Final = Gauge("etcd_operator_quota_bytes", "spec.quotaBytes of a cluster.", _CLUSTER, registry=None)
CHANGES: Final = Counter(
    "etcd_operator_changes_total",
    "Changes to a cluster, by the reason of their Event.",
    [*_CLUSTER, "reason"],
    registry=None,
)
RESPONSES: Final = Gauge(
    "etcd_operator_member_response_seconds", "Time of a member's latest answer.", [*_CLUSTER, "member"], registry=None
)
BACKUP: Final = Gauge(
    "etcd_operator_last_backup_timestamp_seconds", "End of the latest successful backup.", _CLUSTER, registry=None
)
HEALTH: Final = Gauge(
    "etcd_operator_ready",
    "1 while the condition Ready of an object is True, else 0.",
    ["namespace", "kind", "name"],
    registry=None,
)
ALL: Final = (HEALTH, MEMBERS, READY, QUORUM, DATABASE, QUOTA, CHANGES, RESPONSES, BACKUP)


def register(manager: Manager) -> None:
    for each in ALL:
        manager.metrics.registry.register(each)


def report(cluster: EtcdCluster, *, has_quorum: bool) -> None:
    """Set the metrics of a cluster."""
    report_ready(cluster, cluster.status.conditions)
    names = (cluster.metadata.namespace, cluster.metadata.name)
    MEMBERS.labels(*names).set(cluster.spec.size)
    READY.labels(*names).set(cluster.status.ready)
    QUORUM.labels(*names).set(has_quorum)
    QUOTA.labels(*names).set(cluster.quota_bytes)
    DATABASE.labels(*names).set(max((each.database_bytes for each in cluster.status.members), default=0))


def report_ready(obj: Object, conditions: Iterable[Condition]) -> None:
    """Set the health of an object from its condition Ready."""
    ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
    HEALTH.labels(obj.metadata.namespace, obj.kind, obj.metadata.name).set(ready)


def forget(kind: type[Object], request: Request) -> None:
    """Remove the metrics of an object that is deleted."""
    namespace = request.namespace or ""
    HEALTH.remove_by_labels({"namespace": namespace, "kind": kind.__name__, "name": request.name})
    if kind is EtcdCluster:
        for each in ALL[1:]:
            each.remove_by_labels({"namespace": namespace, "cluster": request.name})
