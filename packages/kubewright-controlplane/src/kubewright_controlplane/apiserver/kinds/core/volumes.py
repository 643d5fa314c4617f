"""Volumes of a Pod: defaults and validation of the sources in use today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import environment
from kubewright_controlplane.apiserver.kinds.core.images import pull_policy
from kubewright_controlplane.apiserver.registry import checks

_FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_MODE: Final = 0o777
_MAX_DRIVER: Final = 63
_PULL: Final = ("Always", "IfNotPresent", "Never")
_FIELD_PATHS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
"""The fields of the Pod that a file can hold."""


def default(volume: JSONObject) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")
    host_path = volume.get("hostPath")
    if host_path is not None:
        host_path.setdefault("type", "")


def validate(path: str, volumes: list[JSONObject], pod_name: str) -> tuple[list[FieldError], dict[str, JSONObject]]:
    """Return the errors of a Pod's volumes, and the valid volumes by name."""
    errors: list[FieldError] = []
    sound: dict[str, JSONObject] = {}
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if pod_name and volume.get("ephemeral")}
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name") or ""
        own = _source(at, volume)
        own += checks.required_name(f"{at}.name", name, names.dns1123_label)
        if name in sound:
            own.append(duplicate(f"{at}.name", name))
        if not own:
            sound[name] = volume
        errors += own
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, detail))
    return errors, sound


def descending_path(path: str, value: str) -> list[FieldError]:
    """Return the errors of a relative path, which must not lead out of its folder."""
    errors: list[FieldError] = []
    if value.startswith("/"):
        errors.append(invalid(path, value, "must be a relative path"))
    if ".." in value.split("/"):
        errors.append(invalid(path, value, "must not contain '..'"))
    return errors


def _source(path: str, volume: JSONObject) -> list[FieldError]:
    kinds = [key for key, value in volume.items() if key != "name" and value is not None]
    if not kinds:
        return [required(path, "must specify a volume type")]
    first = min(kinds, key=lambda kind: _ORDER.get(kind, len(_ORDER)))
    others = (kind for kind in kinds if kind != first)
    errors = [forbidden(f"{path}.{kind}", "may not specify more than 1 volume type") for kind in others]
    check = _SOURCES.get(first)
    if check is not None:
        errors += check(f"{path}.{first}", volume[first])
    return errors


def _empty_dir(path: str, source: JSONObject) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.of(limit) < Quantity(0):
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(path: str, source: JSONObject) -> list[FieldError]:
    if not source.get("path"):
        return [required(f"{path}.path")]
    errors: list[FieldError] = []
    if ".." in source["path"].split("/"):
        errors.append(invalid(f"{path}.path", source["path"], "must not contain '..'"))
    return errors


def _secret(path: str, source: JSONObject) -> list[FieldError]:
    return _files(path, source, "secretName")


def _config_map(path: str, source: JSONObject) -> list[FieldError]:
    return _files(path, source, "name")


def _files(path: str, source: JSONObject, name_field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get(name_field):
        errors.append(required(f"{path}.{name_field}"))
    errors += _mode(f"{path}.defaultMode", source.get("defaultMode"))
    return errors + _items(path, source)


def _items(path: str, source: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items") or ()):
        at, target = f"{path}.items[{index}]", item.get("path") or ""
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        if not target:
            errors.append(required(f"{at}.path"))
        errors += _unreserved_path(f"{at}.path", target)
        errors += _mode(f"{at}.mode", item.get("mode"))
    return errors


def _unreserved_path(path: str, value: str) -> list[FieldError]:
    errors = descending_path(path, value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def _mode(path: str, mode: int | None) -> list[FieldError]:
    return [invalid(path, mode, _FILE_MODE)] if mode is not None and not 0 <= mode <= _MAX_MODE else []


def _claim(path: str, source: JSONObject) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _ephemeral(path: str, source: JSONObject) -> list[FieldError]:
    return [] if source.get("volumeClaimTemplate") else [required(f"{path}.volumeClaimTemplate")]


def _nfs(path: str, source: JSONObject) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("server", "path") if not source.get(field)]
    if source.get("path") and not source["path"].startswith("/"):
        errors.append(invalid(f"{path}.path", source["path"], "must be an absolute path"))
    return errors


def _csi(path: str, source: JSONObject) -> list[FieldError]:
    driver, at = source.get("driver") or "", f"{path}.driver"
    if not driver:
        return [required(at)]
    errors = [too_long(at, _MAX_DRIVER)] if len(driver) > _MAX_DRIVER else []
    return errors + [invalid(at, driver, why) for why in names.dns1123_subdomain(driver.lower())]


def _image(path: str, source: JSONObject) -> list[FieldError]:
    policy = source.get("pullPolicy")
    return [] if not policy or policy in _PULL else [not_supported(f"{path}.pullPolicy", policy, _PULL)]


def _projected(path: str, projection: JSONObject) -> list[FieldError]:
    errors = _mode(f"{path}.defaultMode", projection.get("defaultMode"))
    for index, source in enumerate(projection.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        if len(source) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type"))
        for kind in ("secret", "configMap"):
            if kind in source:
                if not source[kind].get("name"):
                    errors.append(required(f"{at}.{kind}.name"))
                errors += _items(f"{at}.{kind}", source[kind])
        if source.get("downwardAPI") is not None:
            for item in source["downwardAPI"].get("items") or ():
                errors += _downward_file(f"{at}.downwardAPI", item)
        token = source.get("serviceAccountToken")
        if token is not None:
            errors += _token(f"{at}.serviceAccountToken", token)
            if not token.get("path"):
                errors.append(required(f"{path}.path"))
            else:
                errors += _unreserved_path(f"{path}.path", token["path"])
    return errors


def _downward(path: str, source: JSONObject) -> list[FieldError]:
    errors = _mode(f"{path}.defaultMode", source.get("defaultMode"))
    for item in source.get("items") or ():
        errors += _downward_file(path, item)
    return errors


def _downward_file(path: str, item: JSONObject) -> list[FieldError]:
    target = item.get("path") or ""
    errors = [] if target else [required(f"{path}.path")]
    errors += _unreserved_path(f"{path}.path", target)
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        errors += environment.field_ref(f"{path}.fieldRef", field, _FIELD_PATHS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource is not None:
        at = f"{path}.resourceFieldRef"
        named = bool(resource.get("containerName"))
        errors += environment.resource_ref(at, resource) if named else [required(f"{at}.containerName")]
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + _mode(f"{path}.mode", item.get("mode"))


def _token(path: str, token: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds") or 0
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    return errors


_SOURCES: Final[dict[str, Callable[[str, JSONObject], list[FieldError]]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "nfs": _nfs,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_ORDER: Final = {kind: place for place, kind in enumerate(_SOURCES)}
"""Return the errors of a volume with several sources. The first of them in this order counts."""
