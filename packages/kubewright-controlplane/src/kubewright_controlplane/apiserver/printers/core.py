"""Rows of the core group, and of Events in `events.k8s.io`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.ages import age
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    UNSET,
    age_of,
    at,
    condition,
    containers,
    is_true,
    items,
    joined,
    labels,
    name,
    name_and_age,
    number,
    replicas,
    text,
)
from kubewright_controlplane.apiserver.printers.pods import pod
from kubewright_controlplane.apiserver.registry.model import Cells

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _config_map(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), len(at(obj, "data") or ()) + len(at(obj, "binaryData") or ()), age_of(obj, now)]


def _secret(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), text(obj, "type"), len(at(obj, "data") or ()), age_of(obj, now)]


def _namespace(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), text(obj, "status", "phase"), age_of(obj, now)]


def _service(obj: JSONObject, now: datetime) -> list[object]:
    ips = at(obj, "spec", "clusterIPs") or [NONE]
    ports = ",".join(_port(each) for each in items(obj, "spec", "ports"))
    return [
        name(obj),
        text(obj, "spec", "type"),
        ips[0],
        _external_ips(obj),
        ports or NONE,
        age_of(obj, now),
        labels(at(obj, "spec", "selector")),
    ]


def _port(port: JSONObject) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _external_ips(obj: JSONObject) -> str:
    external: list[str] = at(obj, "spec", "externalIPs") or []
    match at(obj, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            balanced = {
                text(each, "ip") or text(each, "hostname") for each in items(obj, "status", "loadBalancer", "ingress")
            }
            return ",".join([*sorted(balanced - {""}), *external]) or "<pending>"
        case "ExternalName":
            return text(obj, "spec", "externalName")
        case _:
            return "<unknown>"


def _endpoints(obj: JSONObject, now: datetime) -> list[object]:
    found: list[str] = []
    for subset in items(obj, "subsets"):
        ips = [text(each, "ip") for each in items(subset, "addresses")]
        ports = items(subset, "ports")
        found += [f"{_host(ip)}:{port['port']}" for port in ports for ip in ips] if ports else ips
    return [name(obj), joined(found), age_of(obj, now)]


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def _node(obj: JSONObject, now: datetime) -> list[object]:
    ready = condition(obj, "Ready")
    states = ["Unknown" if ready is None else "Ready" if is_true(obj, "Ready") else "NotReady"]
    if at(obj, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    info: JSONObject = at(obj, "status", "nodeInfo") or {}
    architecture = f" ({info['architecture']})" if info.get("architecture") else ""
    return [
        name(obj),
        ",".join(states),
        ",".join(_roles(at(obj, "metadata", "labels") or {})) or NONE,
        age_of(obj, now),
        text(info, "kubeletVersion"),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        text(info, "osImage", default="<unknown>"),
        text(info, "kernelVersion", default="<unknown>") + architecture,
        text(info, "containerRuntimeVersion", default="<unknown>"),
    ]


def _roles(found: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in found if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {found.get(_ROLE_LABEL, "")}) - {""})


def _address(obj: JSONObject, type: str) -> str:
    return next((text(each, "address") for each in items(obj, "status", "addresses") if each.get("type") == type), NONE)


def _event(obj: JSONObject, now: datetime) -> list[object]:
    occurred = at(obj, "eventTime")
    first = age(at(obj, "firstTimestamp") or occurred, now)
    last = age(at(obj, "lastTimestamp"), now) if at(obj, "lastTimestamp") else first
    count = number(obj, "count") or 1
    series = at(obj, "series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), number(series, "count")
    involved: JSONObject = at(obj, "involvedObject") or {}
    target = text(involved, "kind").lower() + (f"/{involved['name']}" if involved.get("name") else "")
    component = text(obj, "source", "component") or text(obj, "reportingComponent")
    host = text(obj, "source", "host") or text(obj, "reportingInstance")
    return [
        last,
        text(obj, "type"),
        text(obj, "reason"),
        target,
        text(involved, "fieldPath"),
        f"{component}, {host}" if host else component,
        text(obj, "message").strip(),
        first,
        count,
        name(obj),
    ]


def _replication_controller(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        *replicas(obj),
        age_of(obj, now),
        *containers(obj, "spec", "template", "spec"),
        labels(at(obj, "spec", "selector")),
    ]


def _pod_template(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), *containers(obj, "template", "spec"), labels(at(obj, "template", "metadata", "labels"))]


def _resource_quota(obj: JSONObject, now: datetime) -> list[object]:
    hard: dict[str, object] = at(obj, "status", "hard") or {}
    used: dict[str, object] = at(obj, "status", "used") or {}
    shown = {key: f"{key}: {used.get(key, 0)}/{hard[key]}" for key in sorted(hard)}
    limits = [value for key, value in shown.items() if key.startswith("limits.")]
    requests = [value for key, value in shown.items() if not key.startswith("limits.")]
    return [name(obj), ", ".join(requests), ", ".join(limits), age_of(obj, now)]


def _persistent_volume(obj: JSONObject, now: datetime) -> list[object]:
    claim = at(obj, "spec", "claimRef")
    return [
        name(obj),
        text(obj, "spec", "capacity", "storage", default="0"),
        _access_modes(at(obj, "spec", "accessModes")),
        text(obj, "spec", "persistentVolumeReclaimPolicy"),
        _phase(obj),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        at(obj, "metadata", "annotations", _CLASS_ANNOTATION) or text(obj, "spec", "storageClassName"),
        text(obj, "spec", "volumeAttributesClassName", default=UNSET),
        text(obj, "status", "reason"),
        age_of(obj, now),
        text(obj, "spec", "volumeMode", default=UNSET),
    ]


def _persistent_volume_claim(obj: JSONObject, now: datetime) -> list[object]:
    bound = bool(at(obj, "spec", "volumeName"))
    return [
        name(obj),
        _phase(obj),
        text(obj, "spec", "volumeName"),
        text(obj, "status", "capacity", "storage", default="0") if bound else "",
        _access_modes(at(obj, "status", "accessModes")) if bound else "",
        at(obj, "metadata", "annotations", _CLASS_ANNOTATION) or text(obj, "spec", "storageClassName"),
        text(obj, "spec", "volumeAttributesClassName", default=UNSET),
        age_of(obj, now),
        text(obj, "spec", "volumeMode", default=UNSET),
    ]


def _phase(obj: JSONObject) -> str:
    return "Terminating" if at(obj, "metadata", "deletionTimestamp") else text(obj, "status", "phase")


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _component_status(obj: JSONObject, now: datetime) -> list[object]:
    health = next((each for each in items(obj, "conditions") if each.get("type") == "Healthy"), None)
    if health is None:
        return [name(obj), "Unknown", "", ""]
    state = "Healthy" if health.get("status") == "True" else "Unhealthy"
    return [name(obj), state, text(health, "message"), text(health, "error")]


CELLS: Final[Mapping[str, Cells]] = {
    "componentstatuses": _component_status,
    "configmaps": _config_map,
    "endpoints": _endpoints,
    "events": _event,
    "namespaces": _namespace,
    "nodes": _node,
    "persistentvolumeclaims": _persistent_volume_claim,
    "persistentvolumes": _persistent_volume,
    "pods": pod,
    "podtemplates": _pod_template,
    "replicationcontrollers": _replication_controller,
    "resourcequotas": _resource_quota,
    "secrets": _secret,
    "serviceaccounts": name_and_age,
    "services": _service,
}
