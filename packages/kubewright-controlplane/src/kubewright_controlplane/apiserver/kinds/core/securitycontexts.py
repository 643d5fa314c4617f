"""Security contexts of containers, and the profiles that Pods have too: validation.

Follows k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.fields import FieldError, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core.volumesources import descending_path
from kubewright_controlplane.apiserver.registry import checks

_MAX_INT32: Final = 2**31 - 1
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_LONGEST_PROFILE: Final = 4095


def validate(path: str, context: JSONObject, *, host_users: bool) -> list[FieldError]:
    """Return the errors of a container's security context."""
    errors: list[FieldError] = []
    for field in ("runAsUser", "runAsGroup"):
        errors += checks.between(f"{path}.{field}", context.get(field), 0, _MAX_INT32)
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        errors.append(not_supported(f"{path}.procMount", mount, _PROC_MOUNTS))
    elif mount == "Unmasked" and host_users:
        errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += seccomp(f"{path}.seccompProfile", context.get("seccompProfile"))
    errors += _escalation_errors(path, context)
    return errors + app_armor(f"{path}.appArmorProfile", context.get("appArmorProfile"))


def seccomp(path: str, profile: JSONObject | None) -> list[FieldError]:
    """Return the errors of a seccomp profile."""
    if profile is None:
        return []
    kind, local, at = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    errors = _kind_errors(path, kind, "seccompProfile")
    if kind == "Localhost":
        if local is None:
            return [*errors, required(at, "must be set when seccomp type is Localhost")]
        return errors + descending_path(at, local)
    if local is not None:
        errors.append(invalid(at, local, "can only be set when seccomp type is Localhost"))
    return errors


def app_armor(path: str, profile: JSONObject | None) -> list[FieldError]:
    """Return the errors of an AppArmor profile."""
    if profile is None:
        return []
    kind, local, at = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind not in _PROFILES:
        return _kind_errors(path, kind, "appArmorProfile")
    if kind != "Localhost":
        why = "can only be set when AppArmor type is Localhost"
        return [] if local is None else [invalid(at, local, why)]
    if not local:
        return [required(at, "must be set when AppArmor type is Localhost")]
    errors = [] if local == local.strip() else [invalid(at, local, "must not be padded with whitespace")]
    return [*errors, too_long(at, _LONGEST_PROFILE)] if len(local.encode()) > _LONGEST_PROFILE else errors


def _kind_errors(path: str, kind: str, field: str) -> list[FieldError]:
    if not kind:
        return [required(f"{path}.type", f"type is required when {field} is set")]
    return [] if kind in _PROFILES else [not_supported(f"{path}.type", kind, _PROFILES)]


def _escalation_errors(path: str, context: JSONObject) -> list[FieldError]:
    if context.get("allowPrivilegeEscalation") is not False:
        return []
    errors: list[FieldError] = []
    if context.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, why))
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(invalid(path, context, why))
    return errors
