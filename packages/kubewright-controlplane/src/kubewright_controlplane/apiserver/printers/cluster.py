"""Rows of the smaller groups: access, admission, scheduling, storage and its migrations, coordination, flow control,
devices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.ages import human_duration
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    UNSET,
    age_of,
    at,
    condition,
    is_default_class,
    items,
    name,
    name_and_age,
    number,
    selector,
    text,
)
from kubewright_controlplane.apiserver.registry.model import Cells


def _binding(obj: JSONObject, now: datetime) -> list[object]:
    subjects = items(obj, "subjects")

    def of(kind: str) -> str:
        return ", ".join(text(each, "name") for each in subjects if each.get("kind") == kind)

    accounts = ", ".join(
        f"{text(each, 'namespace')}/{text(each, 'name')}" for each in subjects if each.get("kind") == "ServiceAccount"
    )
    role = f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"
    return [name(obj), role, age_of(obj, now), of("User"), of("Group"), accounts]


def _pod_disruption_budget(obj: JSONObject, now: datetime) -> list[object]:
    least, most = at(obj, "spec", "minAvailable"), at(obj, "spec", "maxUnavailable")
    return [
        name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        number(obj, "status", "disruptionsAllowed"),
        age_of(obj, now),
    ]


def _signing_request(obj: JSONObject, now: datetime) -> list[object]:
    types = {each.get("type") for each in items(obj, "status", "conditions")}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    state += ",Failed" if "Failed" in types else ""
    state += ",Issued" if at(obj, "status", "certificate") else ""
    seconds = at(obj, "spec", "expirationSeconds")
    return [
        name(obj),
        age_of(obj, now),
        text(obj, "spec", "signerName", default=NONE),
        text(obj, "spec", "username"),
        NONE if seconds is None else human_duration(seconds),
        state,
    ]


def _webhooks(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), len(items(obj, "webhooks")), age_of(obj, now)]


def _policy(part: str) -> Cells:
    def cells(obj: JSONObject, now: datetime) -> list[object]:
        kind = at(obj, "spec", "paramKind")
        shown = f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else UNSET
        return [name(obj), len(items(obj, "spec", part)), shown, age_of(obj, now)]

    return cells


def _policy_binding(obj: JSONObject, now: datetime) -> list[object]:
    reference = at(obj, "spec", "paramRef")
    shown = UNSET
    if reference and reference.get("name"):
        shown = f"{text(reference, 'namespace', default='*')}/{reference['name']}"
    elif reference and reference.get("selector"):
        shown = selector(reference["selector"])
    return [name(obj), text(obj, "spec", "policyName"), shown, age_of(obj, now)]


def _priority_class(obj: JSONObject, now: datetime) -> list[object]:
    value, default = number(obj, "value"), bool(at(obj, "globalDefault"))
    return [name(obj), value, default, age_of(obj, now), text(obj, "preemptionPolicy")]


def _lease(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), text(obj, "spec", "holderIdentity"), age_of(obj, now)]


def _runtime_class(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), text(obj, "handler"), age_of(obj, now)]


def _api_service(obj: JSONObject, now: datetime) -> list[object]:
    service = at(obj, "spec", "service")
    shown = f"{text(service, 'namespace')}/{text(service, 'name')}" if service else "Local"
    available = condition(obj, "Available")
    return [name(obj), shown, text(available, "status") if available else "", age_of(obj, now)]


def _storage_class(obj: JSONObject, now: datetime) -> list[object]:
    default = " (default)" if is_default_class(obj, "storageclass.kubernetes.io/is-default-class") else ""
    return [
        name(obj) + default,
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy", default="Delete"),
        text(obj, "volumeBindingMode", default="Immediate"),
        bool(at(obj, "allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _storage_version_migration(obj: JSONObject, now: datetime) -> list[object]:
    group, resource = text(obj, "spec", "resource", "group"), text(obj, "spec", "resource", "resource")
    states = [each.get("type") for each in items(obj, "status", "conditions") if each.get("status") == "True"]
    known = [each for each in states if each in ("Running", "Succeeded", "Failed")]
    return [name(obj), f"{resource}.{group}" if group else resource, known[-1] if known else "Unknown"]


def _volume_attachment(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        text(obj, "spec", "attacher"),
        text(obj, "spec", "source", "persistentVolumeName"),
        text(obj, "spec", "nodeName"),
        bool(at(obj, "status", "attached")),
        age_of(obj, now),
    ]


def _volume_attributes_class(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), text(obj, "driverName"), age_of(obj, now)]


def _csi_driver(obj: JSONObject, now: datetime) -> list[object]:
    requests = at(obj, "spec", "tokenRequests")
    return [
        name(obj),
        at(obj, "spec", "attachRequired") is not False,
        bool(at(obj, "spec", "podInfoOnMount")),
        bool(at(obj, "spec", "storageCapacity")),
        UNSET if requests is None else ",".join(text(each, "audience") for each in requests),
        bool(at(obj, "spec", "requiresRepublish")),
        ",".join(at(obj, "spec", "volumeLifecycleModes") or ()) or NONE,
        age_of(obj, now),
    ]


def _csi_node(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), len(items(obj, "spec", "drivers")), age_of(obj, now)]


def _flow_schema(obj: JSONObject, now: datetime) -> list[object]:
    dangling = condition(obj, "Dangling")
    return [
        name(obj),
        text(obj, "spec", "priorityLevelConfiguration", "name"),
        number(obj, "spec", "matchingPrecedence"),
        text(obj, "spec", "distinguisherMethod", "type", default=NONE),
        age_of(obj, now),
        text(dangling, "status") if dangling else "?",
    ]


def _priority_level(obj: JSONObject, now: datetime) -> list[object]:
    shares = at(obj, "spec", "limited", "nominalConcurrencyShares")
    queuing: JSONObject = at(obj, "spec", "limited", "limitResponse", "queuing") or {}
    return [
        name(obj),
        text(obj, "spec", "type"),
        NONE if shares is None else shares,
        *(queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit")),
        age_of(obj, now),
    ]


def _resource_claim(obj: JSONObject, now: datetime) -> list[object]:
    states: list[str] = []
    if at(obj, "metadata", "deletionTimestamp"):
        states.append("deleted")
    if at(obj, "status", "allocation") is None:
        states += [] if states else ["pending"]
    else:
        states.append("allocated")
        states += ["reserved"] if items(obj, "status", "reservedFor") else []
    return [name(obj), ",".join(states), age_of(obj, now)]


def _resource_slice(obj: JSONObject, now: datetime) -> list[object]:
    spec: JSONObject = at(obj, "spec") or {}
    return [name(obj), text(spec, "nodeName"), text(spec, "driver"), text(spec, "pool", "name"), age_of(obj, now)]


CELLS: Final[Mapping[str, Cells]] = {
    "apiservices": _api_service,
    "certificatesigningrequests": _signing_request,
    "clusterrolebindings": _binding,
    "csidrivers": _csi_driver,
    "csinodes": _csi_node,
    "deviceclasses": name_and_age,
    "flowschemas": _flow_schema,
    "leases": _lease,
    "mutatingadmissionpolicies": _policy("mutations"),
    "mutatingadmissionpolicybindings": _policy_binding,
    "mutatingwebhookconfigurations": _webhooks,
    "poddisruptionbudgets": _pod_disruption_budget,
    "priorityclasses": _priority_class,
    "prioritylevelconfigurations": _priority_level,
    "resourceclaims": _resource_claim,
    "resourceclaimtemplates": name_and_age,
    "resourceslices": _resource_slice,
    "rolebindings": _binding,
    "runtimeclasses": _runtime_class,
    "storageclasses": _storage_class,
    "storageversionmigrations": _storage_version_migration,
    "validatingadmissionpolicies": _policy("validations"),
    "validatingadmissionpolicybindings": _policy_binding,
    "validatingwebhookconfigurations": _webhooks,
    "volumeattachments": _volume_attachment,
    "volumeattributesclasses": _volume_attributes_class,
}
