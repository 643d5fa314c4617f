"""Objects for tests of the control plane's decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubewright.apis.apps.v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import Node, Pod
from kubewright.machinery.time import format
from kubewright.models import codec

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {"app": "web"}
CONTAINERS = [{"name": "c", "image": "nginx:1"}]
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}


def ago(seconds: float) -> str:
    return format(NOW - timedelta(seconds=seconds))


def pod(name: str = "p", *, ready: float | None = None, deleting: bool = False, **fields: Any) -> Pod:
    """Return a pod; with `ready`, a running Pod that has been ready for so many seconds."""
    metadata: dict[str, Any] = {"name": name, "namespace": "d", "uid": name, "labels": LABELS, **fields.pop("meta", {})}
    status: dict[str, Any] = fields.pop("status", {"phase": "Pending"})
    if ready is not None:
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": ago(ready)}
        status = {"phase": "Running", "conditions": [condition]}
    if deleting:
        metadata["deletionTimestamp"] = ago(1)
    spec = {"containers": CONTAINERS, **fields}
    return codec.from_dict(Pod, {"metadata": metadata, "spec": spec, "status": status})


def node(name: str = "n", *, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    return codec.from_dict(Node, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})


def deployment(replicas: int = 10, *, annotations: dict[str, str] | None = None, **spec: Any) -> Deployment:
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    document = {
        "metadata": {"name": "web", "namespace": "d", "uid": "web", "annotations": annotations or {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            **spec,
        },
    }
    return codec.from_dict(Deployment, document)


def replica_set(
    name: str,
    size: int,
    *,
    available: int | None = None,
    desired: int = 10,
    most: int = 13,
    age: float = 0,
    **status: Any,
) -> ReplicaSet:
    annotations = {
        "deployment.kubernetes.io/desired-replicas": str(desired),
        "deployment.kubernetes.io/max-replicas": str(most),
    }
    document = {
        "metadata": {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": ago(age)},
        "spec": {"replicas": size, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
        "status": {"replicas": size, "availableReplicas": size if available is None else available, **status},
    }
    return codec.from_dict(ReplicaSet, document)


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    document = {
        "metadata": {"name": "web", "namespace": "d", "uid": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": TEMPLATE, **spec},
    }
    return codec.from_dict(StatefulSet, document)


def daemon_set(**spec: Any) -> DaemonSet:
    document = {
        "metadata": {"name": "web", "namespace": "d", "uid": "web"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, **spec},
    }
    return codec.from_dict(DaemonSet, document)


def job(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    template = {**TEMPLATE, "spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    document = {
        "metadata": {"name": "work", "namespace": "d", "uid": "work"},
        "spec": {"template": template, "completions": 1, "parallelism": 1, "backoffLimit": 6, **spec},
        "status": status or {},
    }
    return codec.from_dict(Job, document)
