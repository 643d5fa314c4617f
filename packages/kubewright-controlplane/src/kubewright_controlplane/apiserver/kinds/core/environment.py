"""Environment of a container: `env` and `envFrom`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.registry import checks

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_LABELS_OF_PODS: Final = frozenset(_FIELD_PATHS) | {
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
}
"""What field references of a Pod can name at all."""
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_BYTES: Final = {".memory": "memory", ".ephemeral-storage": "local ephemeral storage"}
_ONE_OF: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_HUGEPAGES: Final = ("requests.hugepages-", "limits.hugepages-")
_MORE_THAN_ONE: Final = "may not have more than one field specified at a time"


def validate(path: str, container: JSONObject) -> list[FieldError]:
    """Return the errors of a container's environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(container.get("env") or ()):
        at = f"{path}.env[{index}]"
        errors += checks.required_name(f"{at}.name", variable.get("name"), names.environment_name)
        if variable.get("valueFrom") is not None:
            errors += _value_from(f"{at}.valueFrom", variable)
    for index, source in enumerate(container.get("envFrom") or ()):
        errors += _from_source(f"{path}.envFrom", index, source)
    return errors


def _value_from(path: str, variable: JSONObject) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    given = [kind for kind in _SOURCES if source.get(kind) is not None]
    for kind in given:
        at, ref = f"{path}.{kind}", source[kind]
        if kind == "fieldRef":
            errors += field_ref(at, ref, _FIELD_PATHS)
        elif kind == "resourceFieldRef":
            errors += resource_ref(at, ref)
        elif kind in ("configMapKeyRef", "secretKeyRef"):
            errors += checks.named(f"{at}.name", ref.get("name") or "", names.dns1123_subdomain)
            errors += checks.required_name(f"{at}.key", ref.get("key"), names.config_key)
    if not given:
        errors.append(invalid(path, "", _ONE_OF))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors


def field_ref(path: str, ref: JSONObject, allowed: Sequence[str]) -> list[FieldError]:
    """Return the errors of a reference to a field of the Pod. `allowed` are sorted."""
    wanted = ref.get("fieldPath") or ""
    if not wanted:
        return [required(f"{path}.fieldPath")]
    version = ref.get("apiVersion", "v1")
    if not version:
        return [required(f"{path}.apiVersion")]
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{path}.fieldPath", wanted, detail)]
    base, bracket, subscript = wanted.partition("['")
    if bracket and subscript.endswith("']"):
        key = subscript.removesuffix("']")
        if base == "metadata.annotations":
            return checks.named(path, key.lower(), names.qualified_name)
        if base == "metadata.labels":
            return checks.named(path, key, names.qualified_name)
        detail = f"error converting fieldPath: field label does not support subscript: {wanted}"
        return [invalid(f"{path}.fieldPath", wanted, detail)]
    wanted = "spec.nodeName" if wanted == "spec.host" else wanted
    if wanted in allowed:
        return []
    if wanted in _LABELS_OF_PODS:
        return [not_supported(f"{path}.fieldPath", wanted, allowed)]
    return [invalid(f"{path}.fieldPath", wanted, f"error converting fieldPath: field label not supported: {wanted}")]


def resource_ref(path: str, ref: JSONObject, *, in_volume: bool = False) -> list[FieldError]:
    """Return the errors of a reference to the resources of a container, which a volume must name."""
    resource, errors = ref.get("resource") or "", list[FieldError]()
    if in_volume and not ref.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGEPAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    return errors + _divisor_errors(f"{path}.divisor", resource, Quantity.of(ref.get("divisor") or 0))


def _divisor_errors(path: str, resource: str, divisor: Quantity) -> list[FieldError]:
    of_cpu = resource in ("limits.cpu", "requests.cpu")
    of_bytes = resource in _RESOURCES or resource.startswith(_HUGEPAGES)
    allowed = _CPU_DIVISORS if of_cpu else _BYTE_DIVISORS
    if divisor == Quantity(0) or not of_bytes or str(divisor) in allowed:
        return []
    if of_cpu:
        return [invalid(path, resource, "only divisor's values 1m and 1 are supported with the cpu resource")]
    what = next((what for end, what in _BYTES.items() if resource.endswith(end)), "hugepages")
    listed = ", ".join(_BYTE_DIVISORS)
    return [invalid(path, resource, f"only divisor's values {listed} are supported with the {what} resource")]


def _from_source(path: str, index: int, source: JSONObject) -> list[FieldError]:
    at = f"{path}[{index}]"
    errors: list[FieldError] = []
    if source.get("prefix"):
        errors += checks.named(f"{at}.prefix", source["prefix"], names.environment_name)
    given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    for kind in given:
        errors += checks.required_name(f"{at}.{kind}.name", source[kind].get("name"), names.dns1123_subdomain)
    if not given:
        errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
    elif len(given) > 1:
        errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors
