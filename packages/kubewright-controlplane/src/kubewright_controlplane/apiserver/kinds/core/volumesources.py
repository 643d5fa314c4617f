"""Sources that volumes of Pods and PersistentVolumes share: validation.

Follows k8s.io/kubernetes pkg/apis/core/validation.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks

_MAX_DRIVER: Final = 63
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9-.]+:[^,;*&$|\s]+\Z"),
    "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
}
_MAX_LUN: Final = 255
_SECRETS: Final = (
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef",
)  # fmt: skip


def driver_errors(path: str, driver: str) -> list[FieldError]:
    """Return the errors of the name of a CSI driver."""
    if not driver:
        return [required(path)]
    errors = [too_long(path, _MAX_DRIVER)] if len(driver.encode()) > _MAX_DRIVER else []
    return errors + [invalid(path, driver, why) for why in names.dns1123_subdomain(driver.lower())]


def expiration_errors(path: str, seconds: int) -> list[FieldError]:
    """Return the errors of the life of a projected token."""
    if seconds < 600:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > 1 << 32:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def host_path(path: str, source: JSONObject) -> list[FieldError]:
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors = without_backsteps(f"{path}.path", source["path"])
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return errors


def local(path: str, source: JSONObject) -> list[FieldError]:
    return without_backsteps(f"{path}.path", source["path"]) if source.get("path") else [required(f"{path}.path")]


def without_backsteps(path: str, value: str) -> list[FieldError]:
    """Return an error if a path of the Node leads to a parent folder."""
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending_path(path: str, value: str) -> list[FieldError]:
    """Return the errors of a relative path, which must not lead out of its folder."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + without_backsteps(path, value)


def nfs(path: str, source: JSONObject) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    if source.get("path") and not source["path"].startswith("/"):
        errors.append(invalid(f"{path}.path", source["path"], "must be an absolute path"))
    return errors


def iscsi(path: str, source: JSONObject) -> list[FieldError]:
    errors = [] if source.get("targetPortal") else [required(f"{path}.targetPortal")]
    iqn = source.get("iqn") or ""
    errors += _initiator_errors(f"{path}.iqn", iqn) if iqn else [required(f"{path}.iqn")]
    errors += checks.between(f"{path}.lun", source.get("lun"), 0, _MAX_LUN)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if source.get("initiatorName") is not None:
        errors += _initiator_errors(f"{path}.initiatorname", source["initiatorName"])
    return errors


def fibre_channel(path: str, source: JSONObject) -> list[FieldError]:
    targets, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    errors: list[FieldError] = []
    if not targets and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        why = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", targets, why))
    if targets and lun is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    return errors + (checks.between(f"{path}.lun", lun, 0, _MAX_LUN) if targets else [])


def csi_of_pod(path: str, source: JSONObject) -> list[FieldError]:
    errors = driver_errors(f"{path}.driver", source.get("driver") or "")
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return errors
    if not secret.get("name"):
        return [*errors, required(f"{path}.nodePublishSecretRef.name")]
    return errors + checks.named(f"{path}.name", secret["name"], names.dns1123_subdomain)


def csi_of_volume(path: str, source: JSONObject) -> list[FieldError]:
    errors = driver_errors(f"{path}.driver", source.get("driver") or "")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in _SECRETS:
        if source.get(field) is not None:
            errors += _secret_errors(f"{path}.{field}", source[field])
    return errors


def _secret_errors(path: str, secret: JSONObject) -> list[FieldError]:
    errors = checks.required_name(f"{path}.name", secret.get("name"), names.dns1123_subdomain)
    return errors + checks.required_name(f"{path}.namespace", secret.get("namespace"), names.dns1123_label)


def _initiator_errors(path: str, name: str) -> list[FieldError]:
    pattern = _INITIATORS.get(name[:3])
    if pattern is None:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.search(name) else [invalid(path, name, "must be valid format")]
