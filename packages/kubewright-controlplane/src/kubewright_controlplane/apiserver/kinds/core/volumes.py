"""Volumes of a Pod: defaults and validation of the sources in use today."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONArray, JSONObject, quoted
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import claims, environment, volumesources
from kubewright_controlplane.apiserver.kinds.core.images import pull_policy
from kubewright_controlplane.apiserver.registry import checks

_FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_MODE: Final = 0o777
_TEMPLATE_FIELDS: Final = ("annotations", "labels", "creationTimestamp")
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
        if pod_name:
            own += _errors_in_pod(at, name, volume, pod_name)
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


def _errors_in_pod(path: str, name: str, volume: JSONObject, pod_name: str) -> list[FieldError]:
    """Return the errors that a volume can only have in a Pod, but not in a template."""
    errors: list[FieldError] = []
    if volume.get("ephemeral") is not None and name:
        claim = f"{pod_name}-{name}"
        errors += [
            invalid(f"{path}.name", name, f"PVC name {quoted(claim)}: {why}") for why in names.dns1123_subdomain(claim)
        ]
    if volume.get("image") is not None and not volume["image"].get("reference"):
        errors.append(required(f"{path}.image.reference"))
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
    errors = volumesources.descending_path(path, value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def _mode(path: str, mode: int | None) -> list[FieldError]:
    return [invalid(path, mode, _FILE_MODE)] if mode is not None and not 0 <= mode <= _MAX_MODE else []


def _claim(path: str, source: JSONObject) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _ephemeral(path: str, source: JSONObject) -> list[FieldError]:
    template, at = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        return [required(at)]
    metadata: JSONObject = template.get("metadata") or {}
    errors = [
        invalid(f"{at}.metadata.annotations", key, why)
        for key in metadata.get("annotations") or ()
        for why in names.qualified_name(key.lower())
    ]
    errors += checks.labels(f"{at}.metadata.labels", metadata.get("labels"))
    errors += checks.only_these(f"{at}.metadata", metadata, _TEMPLATE_FIELDS, "cannot be set")
    return errors + claims.claim_spec(f"{at}.spec", template.get("spec") or {})


def _image(path: str, source: JSONObject) -> list[FieldError]:
    policy = source.get("pullPolicy")
    return [] if not policy or policy in _PULL else [not_supported(f"{path}.pullPolicy", policy, _PULL)]


def _projected(path: str, projection: JSONObject) -> list[FieldError]:
    errors = _mode(f"{path}.defaultMode", projection.get("defaultMode"))
    seen: set[str] = set()
    sources: JSONArray = projection.get("sources") or []
    for index, source in enumerate(sources):
        at = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if source.get(kind) is not None:
                errors += _projected_files(path, f"{at}.{kind}", source[kind], seen)
        files: JSONObject = source.get("downwardAPI") or {}
        for item in files.get("items") or ():
            errors += _downward_file(f"{at}.downwardAPI", item)
            errors += _repeated_path(path, item.get("path") or "", item.get("path") or "", seen)
        if source.get("serviceAccountToken") is not None:
            errors += _projected_token(path, f"{at}.serviceAccountToken", source["serviceAccountToken"])
        if sum(value is not None for value in source.values()) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _projected_files(path: str, at: str, source: JSONObject, seen: set[str]) -> list[FieldError]:
    name = source.get("name") or ""
    errors = ([] if name else [required(f"{at}.name")]) + _items(at, source)
    for item in source.get("items") or ():
        errors += _repeated_path(path, item.get("path") or "", name, seen)
    return errors


def _repeated_path(path: str, file: str, shown: str, seen: set[str]) -> list[FieldError]:
    """Return an error if another source has the same file, and add it to `seen`."""
    repeated = bool(file) and file in seen
    seen.add(file)
    return [invalid(path, shown, "conflicting duplicate paths")] if repeated else []


def _projected_token(path: str, at: str, token: JSONObject) -> list[FieldError]:
    errors = volumesources.expiration_errors(f"{at}.expirationSeconds", token.get("expirationSeconds") or 0)
    if not token.get("path"):
        return [*errors, required(f"{path}.path")]
    return errors + _unreserved_path(f"{path}.path", token["path"])


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
        errors += environment.resource_ref(at, resource, in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + _mode(f"{path}.mode", item.get("mode"))


_SOURCES: Final[dict[str, Callable[[str, JSONObject], list[FieldError]]]] = {
    "emptyDir": _empty_dir,
    "hostPath": volumesources.host_path,
    "nfs": volumesources.nfs,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": volumesources.csi_of_pod,
    "iscsi": volumesources.iscsi,
    "fc": volumesources.fibre_channel,
    "ephemeral": _ephemeral,
    "image": _image,
}
_ORDER: Final = {kind: place for place, kind in enumerate(_SOURCES)}
"""Return the errors of a volume with several sources. The first of them in this order counts."""
