"""The spec of a Pod, in Pods and in the templates of workloads: defaults and validation.

Parts that few operators use are not validated: Windows, resource claims, restart rules, and the sources of
retired volume plugins. Follows k8s.io/kubernetes pkg/apis/core/v1/defaults.go and pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.core import addresses, containers, placement, securitycontexts, volumes
from kubewright_controlplane.apiserver.registry import checks

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_DEFAULTS: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_LONGEST_SYSCTL: Final = 253
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{each}"
    for each in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni")
)
_MAX_INT32: Final = 2**31 - 1
_GROUP_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
}
_SYSTEMS: Final = ("linux", "windows")
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_LONGEST_SEARCH_LIST: Final = 2048


def default(spec: JSONObject) -> None:
    """Set the defaults, also of a missing spec. Idempotent."""
    for field, value in _DEFAULTS.items():
        spec.setdefault(field, value)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    spec.setdefault("securityContext", {})
    for volume in spec.get("volumes") or ():
        volumes.default(volume)
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            containers.default(container)


def validate_template(path: str, template: JSONObject | None) -> list[FieldError]:
    """Return the errors of a PodTemplateSpec in a workload."""
    if not template:
        return [required(path)]
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    errors = checks.labels(f"{path}.labels", metadata.get("labels"))
    for key in metadata.get("annotations") or ():
        errors += [invalid(f"{path}.annotations", key, text) for text in names.qualified_name(key.lower())]
    errors += validate(f"{path}.spec", spec)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate(path: str, spec: JSONObject, *, pod_name: str = "") -> list[FieldError]:
    """Return the errors of a PodSpec; `pod_name` is empty in a template."""
    errors, known_volumes = volumes.validate(f"{path}.volumes", spec.get("volumes") or [], pod_name)
    errors += containers.validate_all(path, spec, known_volumes)
    errors += _host_ports(path, spec, in_pod=bool(pod_name))
    errors += checks.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += checks.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    errors += checks.labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    errors += _security_context(f"{path}.securityContext", spec.get("securityContext") or {}, spec)
    errors += placement.affinity_errors(f"{path}.affinity", spec.get("affinity") or {})
    errors += _dns_config(f"{path}.dnsConfig", spec)
    errors += _gates(path, spec)
    errors += placement.spread_errors(f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints") or [])
    errors += _names(path, spec)
    errors += placement.toleration_errors(f"{path}.tolerations", spec.get("tolerations") or [])
    errors += _host_aliases(f"{path}.hostAliases", spec.get("hostAliases") or [])
    errors += _os(f"{path}.os", spec.get("os"))
    if spec.get("preemptionPolicy"):
        allowed = ("PreemptLowerPriority", "Never")
        errors += checks.one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], allowed)
    return errors


def _host_ports(path: str, spec: JSONObject, *, in_pod: bool) -> list[FieldError]:
    if not spec.get("hostNetwork"):
        return []
    errors: list[FieldError] = []
    for index, container in enumerate(spec.get("containers") or ()):
        for at, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (in_pod or host) and host != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{at}].hostPort"
                errors.append(invalid(where, host, "must match `containerPort` when `hostNetwork` is true"))
    return errors


def _security_context(path: str, context: JSONObject, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += checks.between(f"{path}.{field}", context.get(field), 0, _MAX_INT32)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += checks.between(f"{path}.supplementalGroups[{index}]", group, 0, _MAX_INT32)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    errors += _sysctls(f"{path}.sysctls", context.get("sysctls") or [], spec)
    for field, allowed in _GROUP_POLICIES.items():
        if context.get(field) is not None and context[field] not in allowed:
            errors.append(not_supported(f"{path}.{field}", context[field], allowed))
    errors += securitycontexts.seccomp(f"{path}.seccompProfile", context.get("seccompProfile"))
    return errors + securitycontexts.app_armor(f"{path}.appArmorProfile", context.get("appArmorProfile"))


def _dns_config(path: str, spec: JSONObject) -> list[FieldError]:
    config: JSONObject | None = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    return _dns_errors(path, config or {})


def _dns_errors(path: str, config: JSONObject) -> list[FieldError]:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    errors: list[FieldError] = []
    if len(servers) > _MAX_NAMESERVERS:
        why = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, why))
    for index, server in enumerate(servers):
        errors += addresses.ip_errors(f"{path}.nameservers[{index}]", server)
    if len(searches) > _MAX_SEARCHES:
        errors.append(invalid(f"{path}.searches", searches, f"must not have more than {_MAX_SEARCHES} search paths"))
    if len(" ".join(searches).encode()) > _LONGEST_SEARCH_LIST:
        why = f"must not have more than {_LONGEST_SEARCH_LIST} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, why))
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            errors += checks.named(f"{path}.searches[{index}]", name, names.dns1123_subdomain_with_underscore)
    options: JSONArray = config.get("options") or []
    return errors + [
        required(f"{path}.options[{index}]", "must not be empty")
        for index, option in enumerate(options)
        if not option.get("name")
    ]


def _os(path: str, system: JSONObject | None) -> list[FieldError]:
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [required(f"{path}.name")]
    return [] if name in _SYSTEMS else [not_supported(path, name, _SYSTEMS)]


def _sysctls(path: str, sysctls: list[JSONObject], spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at, name = f"{path}[{index}].name", sysctl.get("name") or ""
        if not name:
            errors.append(required(at))
        elif len(name) > _LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(at, name, detail))
        elif name in seen:
            errors.append(duplicate(at, name))
        for field, of_host in (("hostNetwork", _is_net_sysctl), ("hostIPC", _is_ipc_sysctl)):
            if spec.get(field) and of_host(name):
                errors.append(invalid(at, name, f"may not be specified when '{field}' is true"))
        seen.add(name)
    return errors


def _is_net_sysctl(name: str) -> bool:
    return name.replace("/", ".").startswith("net.")


def _is_ipc_sysctl(name: str) -> bool:
    normal = name.replace("/", ".")
    return normal in _IPC_SYSCTLS or normal.startswith("fs.mqueue.")


def _gates(path: str, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        at = f"{path}.readinessGates[{index}].conditionType"
        errors += checks.named(at, gate.get("conditionType") or "", names.qualified_name)
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        at, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        errors += checks.named(at, name, names.qualified_name)
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors


def _names(path: str, spec: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = {
        "serviceAccountName": names.dns1123_subdomain,
        "nodeName": names.dns1123_subdomain,
        "hostname": names.dns1123_label,
        "subdomain": names.dns1123_label,
        "priorityClassName": names.dns1123_subdomain,
        "runtimeClassName": names.dns1123_subdomain,
    }
    for field, rule in rules.items():
        if spec.get(field):
            errors += checks.named(f"{path}.{field}", spec[field], rule)
    return errors + checks.between(f"{path}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1, _MAX_INT32)


def _host_aliases(path: str, aliases: list[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        errors += addresses.ip_errors(f"{path}[{index}].ip", alias.get("ip") or "")
        for at, hostname in enumerate(alias.get("hostnames") or ()):
            errors += checks.named(f"{path}[{index}].hostnames[{at}]", hostname, names.dns1123_subdomain)
    return errors
