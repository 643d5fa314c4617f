"""The checks of the levels `baseline` and `restricted`, by version.

Follows k8s.io/pod-security-admission/policy, with its messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from kubewright.machinery.json import JSONObject, quoted
from kubewright_controlplane.apiserver.admission.podsecurity.levels import BASELINE, PRIVILEGED, LevelVersion


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a check does not allow a Pod: in short, and with the values."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Check: TypeAlias = Callable[[JSONObject, JSONObject], Violation | None]
"""Takes metadata and spec of a Pod or of a template."""


def violations(level: LevelVersion, metadata: JSONObject, spec: JSONObject) -> list[Violation]:
    """Return what a level does not allow in a Pod."""
    if level.level == PRIVILEGED:
        return []
    found = (check(metadata, spec) for check in _checks(level.level, min(level.minor, _NEWEST)))
    return [each for each in found if each is not None]


# Parts of a Pod


def _containers(spec: JSONObject) -> Iterator[JSONObject]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _context(part: JSONObject) -> JSONObject:
    """Return the security context of a Pod or a container."""
    return part.get("securityContext") or {}


def _setters(spec: JSONObject, is_bad: Callable[[JSONObject], bool]) -> list[str]:
    """Return the parts whose security context is bad: `pod`, and the containers together."""
    bad = [each["name"] for each in _containers(spec) if is_bad(_context(each))]
    return [*(["pod"] if is_bad(_context(spec)) else ()), *([_named("container", bad)] if bad else ())]


def _bad_containers(spec: JSONObject, is_bad: Callable[[JSONObject], bool]) -> list[str]:
    return [each["name"] for each in _containers(spec) if is_bad(each)]


def _is_windows(spec: JSONObject) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _has_user_namespace(spec: JSONObject) -> bool:
    return spec.get("hostUsers") is False


# Words


def _plural(word: str, items: Sequence[str]) -> str:
    return word if len(items) == 1 else f"{word}s"


def _listed(items: Iterable[str]) -> str:
    """Return items in quotes, without escapes."""
    return ", ".join(f'"{each}"' for each in items)


def _named(word: str, items: Sequence[str]) -> str:
    """Return `container "a"`, or `containers "a", "b"`."""
    return f"{_plural(word, items)} {_listed(items)}"


# Checks of the level baseline

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES: Final = ("RuntimeDefault", "Localhost")


def _apparmor(metadata: JSONObject, spec: JSONObject) -> Violation | None:
    values: set[str] = set()

    def is_bad(context: JSONObject) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in _PROFILES:
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, is_bad)
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    marked = sorted(
        f"{key}={quoted(value)}"
        for key, value in annotations.items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if marked:
        setters.append(_plural("annotation", marked))
    if not setters:
        return None
    listed = [*sorted(values), *marked]
    why = f"{' and '.join(setters)} must not set AppArmor profile type to {_listed(listed)}"
    return Violation(_plural("forbidden AppArmor profile", listed), why)


_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def _added_except(container: JSONObject, allowed: Container[str]) -> set[str]:
    """Return the capabilities that a container adds and that are not allowed."""
    added: Sequence[str] = (_context(container).get("capabilities") or {}).get("add") or ()
    return {each for each in added if each not in allowed}


def _default_capabilities(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    added = {each["name"]: _added_except(each, _CAPABILITIES) for each in _containers(spec)}
    bad = [name for name, capabilities in added.items() if capabilities]
    if not bad:
        return None
    listed = _listed(sorted(set().union(*added.values())))
    why = f"{_named('container', bad)} must not include {listed} in securityContext.capabilities.add"
    return Violation("non-default capabilities", why)


def _host_namespaces(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    shared = [f"{each}=true" for each in ("hostNetwork", "hostPID", "hostIPC") if spec.get(each)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    bad = [each["name"] for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return Violation("hostPath volumes", _named("volume", bad)) if bad else None


def _host_ports(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    ports: set[str] = set()

    def is_bad(container: JSONObject) -> bool:
        used = {str(each["hostPort"]) for each in container.get("ports") or () if each.get("hostPort")}
        ports.update(used)
        return bool(used)

    bad = _bad_containers(spec, is_bad)
    if not bad:
        return None
    listed = sorted(ports)
    return Violation(
        "hostPort", f"{_named('container', bad)} {_uses(bad)} {_plural('hostPort', listed)} {', '.join(listed)}"
    )


def _uses(items: Sequence[str]) -> str:
    return "uses" if len(items) == 1 else "use"


_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")


def _probe_hosts(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    hosts = {each["name"]: set(_hosts(each)) for each in _containers(spec)}
    bad = sorted(name for name, found in hosts.items() if found)
    if not bad:
        return None
    listed = sorted(set().union(*hosts.values()))
    why = f"{_named('container', bad)} {_uses(bad)} {_named('probe or lifecycle host', listed)}"
    return Violation("probe or lifecycle host", why)


def _hosts(container: JSONObject) -> Iterator[str]:
    """Yield the hosts that the probes and hooks of a container call."""
    lifecycle = container.get("lifecycle") or {}
    for handler in (*(container.get(each) for each in _PROBES), *(lifecycle.get(each) for each in _HOOKS)):
        for action in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(action) or {}).get("host")
            if host:
                yield host


def _privileged(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    bad = _bad_containers(spec, lambda container: _context(container).get("privileged") is True)
    why = f"{_named('container', bad)} must not set securityContext.privileged=true"
    return Violation("privileged", why) if bad else None


def _proc_mount(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    values: set[str] = set()

    def is_bad(container: JSONObject) -> bool:
        value = _context(container).get("procMount")
        if value in (None, "Default"):
            return False
        values.add(value)
        return True

    bad = _bad_containers(spec, is_bad)
    why = f"{_named('container', bad)} must not set securityContext.procMount to {_listed(sorted(values))}"
    return Violation("procMount", why) if bad else None


_SELINUX_TYPES: Final = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def _selinux(types: frozenset[str]) -> Check:
    """Return the check that allows these types."""

    def check(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
        bad_types: set[str] = set()
        bad_fields: set[str] = set()

        def is_bad(context: JSONObject) -> bool:
            options = context.get("seLinuxOptions") or {}
            kind, custom = options.get("type") or "", {each for each in ("user", "role") if options.get(each)}
            bad_types.update({kind} - types)
            bad_fields.update(custom)
            return kind not in types or bool(custom)

        setters = _setters(spec, is_bad)
        if not setters:
            return None
        data = [_named("type", sorted(bad_types))] if bad_types else []
        data += [f"{each} may not be set" for each in ("user", "role") if each in bad_fields]
        why = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", why)

    return check


_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(metadata: JSONObject, spec: JSONObject) -> Violation | None:
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    keys = {_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{each['name']}" for each in _containers(spec))}
    bad = sorted(
        f"{key}={quoted(value)}"
        for key, value in annotations.items()
        if key in keys and value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    return Violation("seccompProfile", f"forbidden {_plural('annotation', bad)} {', '.join(bad)}") if bad else None


def _seccomp_profile(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    values: set[str] = set()

    def is_bad(context: JSONObject) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in _PROFILES:
            return False
        values.add(profile.get("type") or "")
        return True

    setters = _setters(spec, is_bad)
    why = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {_listed(sorted(values))}"
    return Violation("seccompProfile", why) if setters else None


_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str]) -> Check:
    """Return the check that allows these sysctls."""

    def check(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
        names = [each.get("name") or "" for each in _context(spec).get("sysctls") or ()]
        bad = [each for each in names if each not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _host_process(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    setters = _setters(spec, lambda context: (context.get("windowsOptions") or {}).get("hostProcess") is True)
    why = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", why) if setters else None


# Checks of the level restricted


def _escalation(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    bad = _bad_containers(spec, lambda container: _context(container).get("allowPrivilegeEscalation") is not False)
    why = f"{_named('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", why) if bad else None


def _dropped_capabilities(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    kept = _bad_containers(
        spec, lambda each: "ALL" not in ((_context(each).get("capabilities") or {}).get("drop") or ())
    )
    added = {each["name"]: _added_except(each, ("NET_BIND_SERVICE",)) for each in _containers(spec)}
    adding = [name for name, capabilities in added.items() if capabilities]
    details: list[str] = []
    if kept:
        details.append(f'{_named("container", kept)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = _listed(sorted(set().union(*added.values())))
        details.append(f"{_named('container', adding)} must not include {listed} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


_ALLOWED_VOLUMES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_RESTRICTED_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def _volume_types(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in spec.get("volumes") or ():
        if all(volume.get(each) is None for each in _ALLOWED_VOLUMES):
            bad.append(volume["name"])
            types.add(next((each for each in _RESTRICTED_VOLUMES if volume.get(each) is not None), "unknown"))
    why = f"{_named('volume', bad)} {_uses(bad)} {_named('restricted volume type', sorted(types))}"
    return Violation("restricted volume types", why) if bad else None


def _non_root(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    reason = "runAsNonRoot != true"
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Violation(reason, f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    if _context(spec).get("runAsNonRoot") is True:
        return None
    bad = _bad_containers(spec, lambda container: _context(container).get("runAsNonRoot") is None)
    why = f"pod or {_named('container', bad)} must set securityContext.runAsNonRoot=true"
    return Violation(reason, why) if bad else None


def _non_root_user(_metadata: JSONObject, spec: JSONObject) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _seccomp_required(metadata: JSONObject, spec: JSONObject) -> Violation | None:
    found = _seccomp_profile(metadata, spec)
    if found is not None or _context(spec).get("seccompProfile") is not None:
        return found
    bad = _bad_containers(spec, lambda container: _context(container).get("seccompProfile") is None)
    field = "securityContext.seccompProfile.type"
    why = f'pod or {_named("container", bad)} must set {field} to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", why) if bad else None


# Versions


def _except_windows(check: Check) -> Check:
    return lambda metadata, spec: None if _is_windows(spec) else check(metadata, spec)


def _except_user_namespaces(check: Check) -> Check:
    return lambda metadata, spec: None if _has_user_namespace(spec) else check(metadata, spec)


_Versions: TypeAlias = Mapping[int, Check]
"""The check since each minor version."""

_BASELINE: Final[Mapping[str, _Versions]] = {
    "appArmorProfile": {0: _apparmor},
    "capabilities_baseline": {0: _default_capabilities},
    "hostNamespaces": {0: _host_namespaces},
    "hostPathVolumes": {0: _host_paths},
    "hostPorts": {0: _host_ports},
    "hostProbesAndHostLifecycle": {34: _probe_hosts},
    "privileged": {0: _privileged},
    "procMount": {0: _proc_mount, 35: _except_user_namespaces(_proc_mount)},
    "seLinuxOptions": {0: _selinux(_SELINUX_TYPES), 31: _selinux(_SELINUX_TYPES | {"container_engine_t"})},
    "seccompProfile_baseline": {0: _seccomp_annotations, 19: _seccomp_profile},
    "sysctls": {0: _sysctls(_SYSCTLS), 27: _sysctls(_SYSCTLS_27), 29: _sysctls(_SYSCTLS_29), 32: _sysctls(_SYSCTLS_32)},
    "windowsHostProcess": {0: _host_process},
}
"""In the order in which violations are listed."""
_RESTRICTED: Final[Mapping[str, _Versions]] = {
    "allowPrivilegeEscalation": {8: _escalation, 25: _except_windows(_escalation)},
    "capabilities_restricted": {22: _dropped_capabilities, 25: _except_windows(_dropped_capabilities)},
    "procMount_restricted": {35: _proc_mount},
    "restrictedVolumes": {0: _volume_types},
    "runAsNonRoot": {0: _non_root, 35: _except_user_namespaces(_non_root)},
    "runAsUser": {23: _non_root_user, 35: _except_user_namespaces(_non_root_user)},
    "seccompProfile_restricted": {19: _seccomp_required, 25: _except_windows(_seccomp_required)},
}
_REPLACED: Final = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""The checks of the level baseline that a check of the level restricted contains."""
_NEWEST: Final = max(minor for each in (_BASELINE, _RESTRICTED) for versions in each.values() for minor in versions)


@cache
def _checks(level: str, minor: int) -> Sequence[Check]:
    """Return the checks of a level as of a minor version."""
    baseline = _as_of(_BASELINE, minor)
    if level == BASELINE:
        return list(baseline.values())
    restricted = _as_of(_RESTRICTED, minor)
    replaced = {_REPLACED[name] for name in restricted if name in _REPLACED}
    return [*(check for name, check in baseline.items() if name not in replaced), *restricted.values()]


def _as_of(checks: Mapping[str, _Versions], minor: int) -> dict[str, Check]:
    found: dict[str, Any] = {}
    for name, versions in checks.items():
        since = sorted(versions)
        position = bisect_right(since, minor)
        if position:
            found[name] = versions[since[position - 1]]
    return found
