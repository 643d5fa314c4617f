"""Strategies of storage.k8s.io. Follows k8s.io/kubernetes pkg/registry/storage and pkg/apis/storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core import claims, nodeselectors, volumesources
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import RESET_BY_STATUS, Attributes, Strategy

_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES: Final = ("Persistent", "Ephemeral")
_MAX_PARAMETERS: Final = 512
_MAX_BYTES: Final = 256 * 1024
_MAX_NODE_ID: Final = 256
_MAX_ERROR: Final = 1024
_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "csidrivers": DriverStrategy(),
        "csinodes": NodeStrategy(),
        "csistoragecapacities": CapacityStrategy(),
        "storageclasses": StorageClassStrategy(),
        "volumeattachments": AttachmentStrategy(),
        "volumeattributesclasses": AttributesClassStrategy(),
    }


class ObjectOnDeleteStrategy(PlainStrategy):
    """A kind whose delete answers with the object."""

    delete_answers_object = True


class ConditionalUpdateStrategy(ObjectOnDeleteStrategy):
    """A kind for which a PUT requires a resourceVersion."""

    allow_unconditional_update = False


class StorageClassStrategy(ObjectOnDeleteStrategy):
    def default(self, obj: JSONObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = _provisioner_errors("provisioner", obj.get("provisioner") or "")
        errors += _parameter_errors(obj.get("parameters") or {})
        policies, modes = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
        if obj["reclaimPolicy"] and obj["reclaimPolicy"] not in policies:
            errors.append(not_supported("reclaimPolicy", obj["reclaimPolicy"], policies))
        if obj["volumeBindingMode"] not in modes:
            errors.append(not_supported("volumeBindingMode", obj["volumeBindingMode"], modes))
        return errors + nodeselectors.topology_errors("allowedTopologies", obj.get("allowedTopologies") or [])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            errors += checks.immutable(field, obj.get(field), old.get(field))
        return errors


class DriverStrategy(ConditionalUpdateStrategy):
    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Count the changes of the spec. A new object has no generation."""
        if not checks.same(obj.get("spec"), old.get("spec")):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        spec: JSONObject = obj.get("spec") or {}
        if old is None and spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
            return [_TOKENS_IN_SECRETS]
        return []

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec: JSONObject = obj.get("spec") or {}
        policy, errors = spec.get("fsGroupPolicy"), list[FieldError]()
        if policy is not None and policy not in _GROUP_POLICIES:
            errors.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
        requests: JSONArray = spec.get("tokenRequests") or []
        errors += _token_errors(requests)
        errors += [
            not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
            for mode in spec.get("volumeLifecycleModes") or ()
            if mode not in _LIFECYCLES
        ]
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            why = "must be greater than or equal to 10 seconds"
            errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why))
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not requests:
            why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, why))
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        now, before = obj.get("spec") or {}, old.get("spec") or {}
        errors: list[FieldError] = []
        for field, shown in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            errors += checks.immutable(f"spec.{shown}", now.get(field), before.get(field))
        return errors


class NodeStrategy(ConditionalUpdateStrategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            at, name = f"spec.drivers[{index}]", driver.get("name") or ""
            errors += _node_driver_errors(at, driver)
            if name in seen:
                errors.append(duplicate(f"{at}.name", name))
            seen.add(name)
            errors += _topology_key_errors(at, driver.get("topologyKeys") or [])
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        now, before = (_drivers_by_name(each) for each in (obj, old))
        return [
            error
            for name in before.keys() & now.keys()
            for error in checks.immutable("spec.drivers", now[name], before[name])
        ]


class CapacityStrategy(ConditionalUpdateStrategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = checks.label_selector("nodeTopology", obj.get("nodeTopology"))
        errors += checks.named("storageClassName", obj.get("storageClassName") or "", names.dns1123_subdomain)
        if obj.get("capacity") is not None:
            errors += checks.quantity("capacity", obj["capacity"])
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        errors = checks.immutable("nodeTopology", obj.get("nodeTopology"), old.get("nodeTopology"))
        return errors + checks.immutable("storageClassName", obj.get("storageClassName"), old.get("storageClassName"))


class AttachmentStrategy(ConditionalUpdateStrategy):
    metadata_without_status = RESET_BY_STATUS

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec: JSONObject = obj.get("spec") or {}
        errors = volumesources.driver_errors("spec.attacher", spec.get("attacher") or "")
        errors += _attachment_source_errors(spec.get("source") or {})
        errors += checks.named("spec.nodeName", spec.get("nodeName") or "", names.dns1123_subdomain)
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if volume is not None:
            errors += checks.named("spec.source.persistentVolumeName", volume, names.dns1123_subdomain)
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec", obj.get("spec"), old.get("spec"))

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        status, errors = obj.get("status") or {}, list[FieldError]()
        metadata: dict[str, str] = status.get("attachmentMetadata") or {}
        if _size(metadata) > _MAX_BYTES:
            errors.append(too_long("status.attachmentMetadata", _MAX_BYTES))
        for field in ("attachError", "detachError"):
            error: JSONObject = status.get(field) or {}
            if len((error.get("message") or "").encode()) > _MAX_ERROR:
                errors.append(too_long(f"status.{field}.message", _MAX_BYTES))
            errors += checks.between(f"status.{field}.errorCode", error.get("errorCode"), 0, 2**31 - 1)
        return errors


class AttributesClassStrategy(ObjectOnDeleteStrategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors = _provisioner_errors("driverName", obj.get("driverName") or "")
        errors += _parameter_errors(obj.get("parameters") or {})
        if not obj.get("parameters"):
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        changed = (field for field in ("driverName", "parameters") if not checks.same(obj.get(field), old.get(field)))
        return [forbidden(field, f"updates to {field} are forbidden.") for field in changed]


def _provisioner_errors(path: str, name: str) -> list[FieldError]:
    return checks.named(path, name.lower(), names.qualified_name) if name else [required(path)]


def _parameter_errors(parameters: dict[str, str]) -> list[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long("parameters", _MAX_PARAMETERS)]
    errors = [invalid("parameters", "", "field can not be empty.")] if "" in parameters else []
    return [*errors, too_long("parameters", _MAX_BYTES)] if _size(parameters) > _MAX_BYTES else errors


def _size(texts: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


def _token_errors(requests: JSONArray) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(requests):
        at, audience = f"spec.tokenRequests[{index}]", request.get("audience") or ""
        if audience in seen:
            errors.append(duplicate(f"{at}.audience", audience))
            continue
        seen.add(audience)
        if request.get("expirationSeconds") is not None:
            errors += volumesources.expiration_errors(f"{at}.expirationSeconds", request["expirationSeconds"])
    return errors


def _node_driver_errors(path: str, driver: JSONObject) -> list[FieldError]:
    errors = volumesources.driver_errors(f"{path}.name", driver.get("name") or "")
    node = driver.get("nodeID") or ""
    if not node:
        errors.append(required(f"{path}.nodeID"))
    if len(node.encode()) > _MAX_NODE_ID:
        errors.append(invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID} characters or less"))
    return errors + checks.non_negative(f"{path}.allocatable.count", (driver.get("allocatable") or {}).get("count"))


def _topology_key_errors(path: str, keys: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(required(path))
        if key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
        errors += checks.named(path, key, names.qualified_name)
    return errors


def _drivers_by_name(obj: JSONObject) -> dict[str, JSONObject]:
    """Return the drivers of a CSINode, without what may change."""
    drivers: JSONArray = (obj.get("spec") or {}).get("drivers") or []
    return {
        each.get("name") or "": {key: value for key, value in each.items() if key != "allocatable"} for each in drivers
    }


def _attachment_source_errors(source: JSONObject) -> list[FieldError]:
    path, volume, inline = "spec.source", source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        return [required(path, _ONE_SOURCE)]
    if volume is not None and inline is not None:
        return [forbidden(path, _ONE_SOURCE)]
    if volume is not None:
        return (
            [] if volume else [required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]
        )
    return claims.inline_volume_errors(f"{path}.inlineVolumeSpec", inline or {})
