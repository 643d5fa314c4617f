"""The health of objects: whether an object of any kind has reached what its spec asks for.

    health = health_of(await client.get(Deployment, "web", namespace="shop"))
    if not health.is_ready:
        print(health.message)                   # 1 of 3 replicas are available

Guarantees
    Deployments, StatefulSets and DaemonSets are judged as by `kubectl rollout status`.
    A status that describes another generation of the object is never taken for the current one.
    The answer depends on the object alone: nothing is read.
    What is ready here is Current for kstatus. The reverse is not true: a Job that runs, a Pod that failed and a load
    balancer without an address are Current for kstatus, and not ready here.
Other built-in kinds
    Each kind with something to wait for has a rule: Pods, Jobs, ReplicaSets, claims, volumes, Services,
    CustomResourceDefinitions, Namespaces and so on. Others, such as ConfigMaps and Roles, are ready once they exist.
Any other kind
    `status.observedGeneration` and the conditions decide. Those in `GOOD` must be true, and those in `BAD` must not be.
    An object without any of them is ready. A new object whose controller has not written a status yet is therefore
    ready, too: `reason_not_reconciled` finds that, or wait for a field of the status.

Follows kubectl's pkg/polymorphichelpers/rollout_status.go, and pkg/kstatus of sigs.k8s.io/cli-utils. Projects that
kubebuilder scaffolds have the conditions Available, Progressing and Degraded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from kubewright.client import document_of
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.models import Object

GOOD: Final = ("Ready", "Available", "Succeeded", "Complete", "Healthy", "Synced")
"""Conditions that must be true, for kinds without a rule of their own. The first that an object has says whether it is
ready."""
BAD: Final = ("Failed", "Degraded")
"""Conditions that must not be true, for kinds without a rule of their own."""
_PATIENCE: Final = timedelta(minutes=1)
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class HealthState(StrEnum):
    """How far an object is."""

    READY = "Ready"
    """It is what its spec asks for."""
    PROGRESSING = "Progressing"
    """It is not ready yet."""
    STALLED = "Stalled"
    """Its controller does not expect progress, but continues to try."""
    FAILED = "Failed"
    """It can never become ready. Only a new object can."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of an object, and what it still waits for."""

    state: HealthState
    message: str = ""
    """What is missing or what failed, as a phrase; empty for a ready object."""

    @property
    def is_ready(self) -> bool:
        """Whether the object is ready."""
        return self.state is HealthState.READY


_READY: Final = Health(HealthState.READY)

_Judge: TypeAlias = Callable[[JSONObject], Health]


def health_of(obj: Object | JSONObject) -> Health:
    """Return the health of an object as it was read. It may be of any kind: typed, `Unstructured`, or a document."""
    document = document_of(obj) if isinstance(obj, Object) else obj
    metadata = _at(document, "metadata")
    if metadata.get("deletionTimestamp"):
        held = ", ".join(metadata.get("finalizers") or ())
        return _progressing(f"it is being deleted{held and f'; finalizers: {held}'}")
    group, _, _ = document["apiVersion"].rpartition("/")
    judge = _JUDGES.get((group, document["kind"]), _by_conditions)
    return _generic(document) or judge(document)


def replicas_health(wanted: int, *, total: int, updated: int, available: int) -> Health:
    """Return the health of a rollout with these numbers of replicas, as `kubectl rollout status` judges it."""
    if updated < wanted:
        return _progressing(f"{updated} of {wanted} new replicas are created")
    old = total - updated
    if old > 0:
        return _progressing(f"{old} old {'replica is' if old == 1 else 'replicas are'} still running")
    return _progressing(f"{available} of {updated} replicas are available") if available < updated else _READY


# ---- conditions of any kind


def conditions_of(document: JSONObject) -> list[JSONObject]:
    """Return the conditions in the status of a document."""
    found = _status(document).get("conditions")
    return [each for each in found if is_object(each)] if is_array(found) else []


def find_condition(document: JSONObject, type: str) -> JSONObject | None:
    """Return the condition of a type, of whatever generation; None if there is none."""
    return next((each for each in conditions_of(document) if each.get("type") == type), None)


def ready_condition(document: JSONObject) -> str:
    """Return the type of the condition that says whether an object is ready; empty if it has none of `GOOD`."""
    found = {each.get("type") for each in conditions_of(document)}
    return next((each for each in GOOD if each in found), "")


def observed_generation(document: JSONObject, condition: JSONObject) -> int | None:
    """Return the generation that a condition describes; None if neither it nor the status says so.

    If both do, the older one counts, as for `kubectl wait`.
    """
    stated = (condition.get("observedGeneration"), _status(document).get("observedGeneration"))
    return min((each for each in stated if isinstance(each, int)), default=None)


def health_by_condition(document: JSONObject, type: str) -> Health:
    """Return what a condition that must be true reports. Without the condition, the object is not ready."""
    found = find_condition(document, type)
    if found is None:
        return _progressing(f"the status has no condition {type}" if type else "the status has no condition")
    if found.get("status") != "True":
        return _progressing(_reported(found))
    return _outdated(document, found) or _READY


def _outdated(document: JSONObject, condition: JSONObject) -> Health | None:
    """Return that a condition describes an older generation; None if it does not."""
    generation, observed = _generation(document), observed_generation(document, condition)
    if observed is None or observed >= generation:
        return None
    kind = condition.get("type")
    return _progressing(f"{kind} is of generation {observed}, the object has generation {generation}")


def reason_not_reconciled(obj: Object, declared: Container[str]) -> str:
    """Return the evidence that no controller has ever reconciled an object; empty if there is none.

    `declared` are the fields that the status has according to the kind's schema.
    """
    document = document_of(obj)
    status = _status(document)
    if "observedGeneration" in declared:
        missing = "" if isinstance(status.get("observedGeneration"), int) else "observedGeneration"
    else:
        missing = "conditions" if "conditions" in declared and not conditions_of(document) else ""
    return f"not reconciled yet: status.{missing} is not set" if missing else ""


def is_stuck(obj: Object, now: datetime) -> bool:
    """Return whether finalizers have blocked the deletion of an object for over a minute, or its condition Ready has
    been False for so long.
    """
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        return bool(meta.finalizers) and now - meta.deletion_timestamp > _PATIENCE
    ready = find_condition(document_of(obj), "Ready")
    if ready is None or ready.get("status") != "False":
        return False
    since = _transition(ready)
    return since is not None and now - since > _PATIENCE


def _transition(condition: JSONObject) -> datetime | None:
    """Return the last transition time of a condition; None if it has no valid one."""
    try:
        return msgspec.convert(condition.get("lastTransitionTime"), _Time)
    except msgspec.ValidationError:
        return None


def _progressing(message: str) -> Health:
    """Return the health of an object that is not ready yet."""
    return Health(HealthState.PROGRESSING, message)


def _stalled(message: str) -> Health:
    """Return the health of an object that makes no progress."""
    return Health(HealthState.STALLED, message)


def _failed(message: str) -> Health:
    """Return the health of an object that can never become ready."""
    return Health(HealthState.FAILED, message)


def _at(document: JSONObject, key: str) -> JSONObject:
    """Return the object at a key; an empty one if there is none."""
    found = document.get(key)
    return found if is_object(found) else {}


def _status(document: JSONObject) -> JSONObject:
    return _at(document, "status")


def _spec(document: JSONObject) -> JSONObject:
    return _at(document, "spec")


def _generation(document: JSONObject) -> int:
    found = _at(document, "metadata").get("generation")
    return found if isinstance(found, int) else 0


def _is_unobserved(document: JSONObject) -> bool:
    """Return whether the status of a kind that always has observedGeneration describes an older generation."""
    observed: int = _status(document).get("observedGeneration", 0)
    return observed < _generation(document)


def _unobserved(kind: str) -> Health:
    return _progressing(f"the {kind} has not been processed yet")


def _condition(document: JSONObject, type: str) -> JSONObject:
    """Return the condition of that type; an empty one if there is none, or if it is about an older generation."""
    generation, found = _generation(document), find_condition(document, type)
    if found is None or found.get("observedGeneration", generation) < generation:
        return {}
    return found


def _said(condition: JSONObject, otherwise: str) -> str:
    """Return the reason and the message of a condition."""
    parts = [part for part in (condition.get("reason"), condition.get("message")) if part]
    return ": ".join(parts) or otherwise


def _reported(condition: JSONObject) -> str:
    """Return what a condition reports: `Ready is False (NoNode: none fits)`."""
    details = _said(condition, "")
    return f"{condition.get('type')} is {condition.get('status')}{details and f' ({details})'}"


def _generic(document: JSONObject) -> Health | None:
    """Return what kstatus checks for every kind first; None if that does not decide."""
    generation, observed = _generation(document), _status(document).get("observedGeneration")
    if generation and isinstance(observed, int) and observed != generation:
        return _progressing(f"generation {generation} is not reconciled yet; the status is of generation {observed}")
    for each in conditions_of(document):
        if each.get("status") == "True" and each.get("type") in ("Reconciling", "Stalled"):
            return (_stalled if each["type"] == "Stalled" else _progressing)(_reported(each))
    return None


# ---- workloads


def _deployment(document: JSONObject) -> Health:
    status = _status(document)
    if _is_unobserved(document):
        return _unobserved("Deployment")
    condition = _condition(document, "Progressing")
    if condition.get("reason") == "ProgressDeadlineExceeded":
        return _stalled(_said(condition, "the progress deadline is exceeded"))
    return replicas_health(
        _spec(document).get("replicas", 1),
        total=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        available=status.get("availableReplicas", 0),
    )


def _stateful_set(document: JSONObject) -> Health:
    spec, status = _spec(document), _status(document)
    if not status.get("observedGeneration") or _is_unobserved(document):
        return _unobserved("StatefulSet")
    wanted: int = spec.get("replicas", 1)
    ready: int = status.get("readyReplicas", 0)
    if ready < wanted:
        return _progressing(f"{ready} of {wanted} replicas are ready")
    strategy = _at(spec, "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return _READY
    updated: int = status.get("updatedReplicas", 0)
    if "rollingUpdate" in strategy:  # always, in objects that were read
        due = wanted - _at(strategy, "rollingUpdate").get("partition", 0)
        return _progressing(f"{updated} of {due} new replicas are updated") if updated < due else _READY
    if status.get("updateRevision") != status.get("currentRevision"):
        return _progressing(f"{updated} of {wanted} replicas are updated")
    return _READY


def _daemon_set(document: JSONObject) -> Health:
    status = _status(document)
    if _is_unobserved(document):
        return _unobserved("DaemonSet")
    wanted: int = status.get("desiredNumberScheduled", 0)
    updated: int = status.get("updatedNumberScheduled", 0)
    strategy = _at(_spec(document), "updateStrategy")
    if strategy.get("type") != "OnDelete" and updated < wanted:
        return _progressing(f"{updated} of {wanted} Pods are updated")
    available: int = status.get("numberAvailable", 0)
    return _progressing(f"{available} of {wanted} Pods are available") if available < wanted else _READY


def _replica_set(document: JSONObject) -> Health:
    if _is_unobserved(document):
        return _unobserved("ReplicaSet")
    failure = _condition(document, "ReplicaFailure")
    if failure.get("status") == "True":
        return _stalled(_said(failure, "replicas cannot be created"))
    wanted: int = _spec(document).get("replicas", 1)
    available: int = _status(document).get("availableReplicas", 0)
    if available < wanted:
        return _progressing(f"{available} of {wanted} replicas are available")
    surplus = _status(document).get("replicas", 0) - wanted
    return _progressing(f"{surplus} more replicas than wanted still run") if surplus > 0 else _READY


def _pod(document: JSONObject) -> Health:
    status = _status(document)
    match status.get("phase"):
        case "Succeeded":
            return _READY
        case "Failed":
            return _failed(_said(status, "the Pod failed"))
        case _:
            pass
    condition = _condition(document, "Ready")
    if condition.get("status") == "True":
        return _READY
    trouble = _waiting_container(status)
    if trouble:
        return _stalled(trouble)
    scheduled = _condition(document, "PodScheduled")
    if scheduled.get("status") == "False":
        return _progressing(_said(scheduled, "the Pod is not scheduled"))
    return _progressing(_said(condition, "the Pod is not ready"))


def _waiting_container(status: JSONObject) -> str:
    """Return the problem of a container that cannot run, such as CrashLoopBackOff; empty if there is none."""
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state: JSONObject = each.get("state") or {}
        waiting: JSONObject = state.get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"container {each.get('name', '')}: {_said(waiting, 'it waits')}"
    return ""


def _job(document: JSONObject) -> Health:
    for type in ("Failed", "FailureTarget"):
        condition = _condition(document, type)
        if condition.get("status") == "True":
            return _failed(_said(condition, "the Job failed"))
    if _condition(document, "Complete").get("status") == "True":
        return _READY
    if _condition(document, "Suspended").get("status") == "True":
        return _progressing("the Job is suspended")
    wanted: int = _spec(document).get("completions") or 1
    return _progressing(f"{_status(document).get('succeeded', 0)} of {wanted} completions")


def _disruption_budget(document: JSONObject) -> Health:
    return _unobserved("PodDisruptionBudget") if _is_unobserved(document) else _READY


# ---- network and storage


def _service(document: JSONObject) -> Health:
    spec = _spec(document)
    if spec.get("type") == "ExternalName":
        return _READY
    if not spec.get("clusterIP"):
        return _progressing("the Service has no cluster IP yet")
    if spec.get("type") != "LoadBalancer" or spec.get("externalIPs"):
        return _READY
    balancer: JSONObject = _status(document).get("loadBalancer") or {}
    return _READY if balancer.get("ingress") else _progressing("the load balancer has no address yet")


def _claim(document: JSONObject) -> Health:
    match _status(document).get("phase"):
        case "Bound":
            return _READY
        case "Lost":
            return _failed("the volume of the claim is lost")
        case _:
            return _progressing("the claim is not bound")


def _volume(document: JSONObject) -> Health:
    status = _status(document)
    match status.get("phase"):
        case "Available" | "Bound" | "Released":
            return _READY
        case "Failed":
            return _failed(_said(status, "the volume failed"))
        case _:
            return _progressing("the volume is not available yet")


# ---- the cluster


def _namespace(document: JSONObject) -> Health:
    return _READY if _status(document).get("phase") == "Active" else _progressing("the Namespace is not active")


def _definition(document: JSONObject) -> Health:
    accepted = _condition(document, "NamesAccepted")
    if accepted.get("status") == "False":
        return _stalled(_said(accepted, "the names are taken"))
    established = _condition(document, "Established")
    if established.get("status") == "True":
        return _READY
    if established.get("status") == "False" and established.get("reason") != "Installing":
        return _stalled(_said(established, "it cannot be established"))
    return _progressing("the CustomResourceDefinition is not established yet")


def _signing_request(document: JSONObject) -> Health:
    for type in ("Denied", "Failed"):
        condition = _condition(document, type)
        if condition.get("status") == "True":
            return _failed(_said(condition, type.lower()))
    return _READY if _status(document).get("certificate") else _progressing("the certificate is not issued yet")


def _with_condition(type: str, otherwise: str) -> _Judge:
    def judge(document: JSONObject) -> Health:
        condition = _condition(document, type)
        return _READY if condition.get("status") == "True" else _progressing(_said(condition, otherwise))

    return judge


def _by_conditions(document: JSONObject) -> Health:
    judged = [_judged(document, each) for each in conditions_of(document)]
    unready = [each for each in judged if not each.is_ready]
    return next((each for each in unready if each.state is HealthState.STALLED), unready[0]) if unready else _READY


def _judged(document: JSONObject, condition: JSONObject) -> Health:
    """Return what one condition says about an object of any kind."""
    type, is_true = condition.get("type"), condition.get("status") == "True"
    if type not in GOOD and type not in BAD:
        return _READY
    if outdated := _outdated(document, condition):
        return outdated
    if (type in GOOD) == is_true:
        return _READY
    return (_stalled if type == "Failed" else _progressing)(_reported(condition))


_JUDGES: Final[Mapping[tuple[str, str], _Judge]] = {
    ("", "Namespace"): _namespace,
    ("", "Node"): _with_condition("Ready", "the Node is not ready"),
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replica_set,
    ("", "Service"): _service,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _with_condition("Available", "the APIService is not available"),
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("certificates.k8s.io", "CertificateSigningRequest"): _signing_request,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
}
