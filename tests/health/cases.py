"""Objects whose health kubectl, kstatus and Kubewright judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from kubewright.machinery.json import JSONObject

Condition = tuple[str, str] | tuple[str, str, str]


@dataclass(frozen=True)
class Case:
    """An object, and its name in the table."""

    name: str
    document: JSONObject


def _object(api_version: str, kind: str, spec: JSONObject, status: JSONObject, generation: int = 2) -> JSONObject:
    metadata = {"name": "it", "namespace": "d", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def _conditions(*conditions: Condition) -> JSONObject:
    return {
        "conditions": [
            {"type": each[0], "status": each[1], "reason": each[2] if len(each) > 2 else "Because", "message": "m"}
            for each in conditions
        ]
    }


AVAILABLE: Final = _conditions(("Available", "True"), ("Progressing", "True", "NewReplicaSetAvailable"))


def _workloads() -> Iterator[tuple[str, JSONObject]]:
    """Yield workloads with all combinations of a few numbers."""
    for wanted, total, updated, available, observed in product((0, 1, 3), (0, 3, 4), (0, 2, 3), (0, 2, 3), (1, 2)):
        numbers = f"wanted {wanted}, total {total}, updated {updated}, available {available}, generation {observed}"
        status: JSONObject = {"observedGeneration": observed, "replicas": total, "updatedReplicas": updated}
        status |= {"availableReplicas": available, "readyReplicas": available}
        spec = {"replicas": wanted, "progressDeadlineSeconds": 600}
        yield f"Deployment: {numbers}", _object("apps/v1", "Deployment", spec, {**status, **AVAILABLE})
        for partition in (0, 1, 5):
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
            revisions = {"currentRevision": "a", "updateRevision": "b" if updated < total else "a"}
            yield (
                f"StatefulSet: partition {partition}, {numbers}",
                _object(
                    "apps/v1",
                    "StatefulSet",
                    {"replicas": wanted, "updateStrategy": rolling},
                    {**status, **revisions},
                ),
            )
    for wanted, updated, available, observed in product((0, 2), (0, 1, 2), (0, 1, 2), (1, 2)):
        numbers = f"wanted {wanted}, updated {updated}, available {available}, generation {observed}"
        status: JSONObject = {
            "observedGeneration": observed,
            "desiredNumberScheduled": wanted,
            "updatedNumberScheduled": updated,
        }
        status |= {"numberAvailable": available, "numberReady": available, "currentNumberScheduled": wanted}
        rolling = {"updateStrategy": {"type": "RollingUpdate"}}
        yield f"DaemonSet: {numbers}", _object("apps/v1", "DaemonSet", rolling, status)
    late = _conditions(("Progressing", "False", "ProgressDeadlineExceeded"))
    yield "Deployment: too late", _object("apps/v1", "Deployment", {"replicas": 1}, {"observedGeneration": 2, **late})
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        rolling = {"replicas": 0, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
        yield f"{kind}: without a status", _object("apps/v1", kind, rolling, {})
    ready: JSONObject = {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    ready |= {"fullyLabeledReplicas": 1}
    yield "ReplicaSet: ready", _object("apps/v1", "ReplicaSet", {"replicas": 1}, ready)
    yield "ReplicaSet: not ready", _object("apps/v1", "ReplicaSet", {"replicas": 2}, ready)
    yield "ReplicaSet: too many", _object("apps/v1", "ReplicaSet", {"replicas": 1}, {**ready, "replicas": 2})
    failure = _conditions(("ReplicaFailure", "True"))
    yield "ReplicaSet: failure", _object("apps/v1", "ReplicaSet", {"replicas": 1}, {**ready, **failure})


def _pods() -> Iterator[tuple[str, JSONObject]]:
    def pod(**status: Any) -> JSONObject:
        return _object("v1", "Pod", {}, status)

    def waiting(reason: str) -> JSONObject:
        return {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]}

    yield "Pod: new", pod()
    yield "Pod: pending", pod(phase="Pending")
    yield "Pod: succeeded", pod(phase="Succeeded")
    yield "Pod: failed", pod(phase="Failed")
    yield "Pod: ready", pod(phase="Running", **_conditions(("Ready", "True")))
    yield "Pod: not ready", pod(phase="Running", **_conditions(("Ready", "False")))
    yield "Pod: resized", pod(phase="Running", observedGeneration=1, **_conditions(("Ready", "True")))
    yield "Pod: crash loop", pod(phase="Running", **waiting("CrashLoopBackOff"))
    yield "Pod: image pull", pod(phase="Pending", **waiting("ImagePullBackOff"))
    yield "Pod: unschedulable", pod(phase="Pending", **_conditions(("PodScheduled", "False", "Unschedulable")))


def _crd(status: JSONObject) -> JSONObject:
    return _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, status)


def _others() -> Iterator[tuple[str, JSONObject]]:
    started = {"startTime": "2026-01-01T00:00:00Z"}
    yield "Job: new", _object("batch/v1", "Job", {}, {})
    yield "Job: runs", _object("batch/v1", "Job", {}, {**started, "active": 1})
    yield "Job: complete", _object("batch/v1", "Job", {}, {**started, **_conditions(("Complete", "True"))})
    yield "Job: failed", _object("batch/v1", "Job", {}, {**started, **_conditions(("Failed", "True"))})
    yield "PersistentVolumeClaim: pending", _object("v1", "PersistentVolumeClaim", {}, {"phase": "Pending"})
    yield "PersistentVolumeClaim: bound", _object("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"})
    yield "PersistentVolumeClaim: lost", _object("v1", "PersistentVolumeClaim", {}, {"phase": "Lost"})
    yield "Service: cluster IP", _object("v1", "Service", {"clusterIP": "10.0.0.1"}, {})
    yield "Service: external name", _object("v1", "Service", {"type": "ExternalName"}, {})
    balanced = {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}
    yield "Service: load balancer without an address", _object("v1", "Service", balanced, {})
    address = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    yield "Service: load balancer", _object("v1", "Service", balanced, address)
    yield "ConfigMap", _object("v1", "ConfigMap", {}, {})
    yield "PodDisruptionBudget: old", _object("policy/v1", "PodDisruptionBudget", {}, {"observedGeneration": 1})
    yield "PodDisruptionBudget", _object("policy/v1", "PodDisruptionBudget", {}, {"observedGeneration": 2})
    yield "CRD: new", _crd({})
    yield "CRD: installing", _crd(_conditions(("Established", "False", "Installing")))
    yield "CRD: not established", _crd(_conditions(("Established", "False", "NotAccepted")))
    yield "CRD: names taken", _crd(_conditions(("NamesAccepted", "False")))
    yield "CRD: established", _crd(_conditions(("NamesAccepted", "True"), ("Established", "True")))


def _custom() -> Iterator[tuple[str, JSONObject]]:
    sets: Sequence[Sequence[Condition]] = (
        (),
        *[[(type, status)] for type in ("Ready", "Reconciling", "Stalled") for status in ("True", "False", "Unknown")],
        *[[(type, "False")] for type in ("Available", "Succeeded", "Healthy", "Synced", "Progressing", "Interesting")],
        [("Degraded", "True")],
        [("Failed", "True")],
        [("Ready", "True"), ("Reconciling", "True")],
        [("Ready", "True"), ("Stalled", "True")],
        [("Ready", "False"), ("Available", "True")],
        [("Ready", "True"), ("Synced", "False")],
    )
    for conditions in sets:
        for observed in (None, 1, 2, 3):
            status = _conditions(*conditions) | ({} if observed is None else {"observedGeneration": observed})
            named = " and ".join(f"{type} {value}" for type, value, *_ in conditions) or "no conditions"
            yield f"Widget: {named}, generation {observed}", _object("example.com/v1", "Widget", {}, status)
    deleted = _object("example.com/v1", "Widget", {}, {})
    deleted["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
    yield "Widget: deleted", deleted


def cases() -> list[Case]:
    """Return the table."""
    return [Case(name, document) for part in (_workloads, _pods, _others, _custom) for name, document in part()]
