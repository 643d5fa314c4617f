"""PersistentVolumes and PersistentVolumeClaims.

Follows k8s.io/kubernetes pkg/registry/core/{persistentvolume,persistentvolumeclaim} and pkg/apis/core/validation.
"""

from __future__ import annotations

import posixpath
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import names, time
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.core import nodeselectors, volumesources
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_DATA_SOURCES: Final = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))
_RESIZE_STATES: Final = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_NOT_A_SOURCE: Final = frozenset(
    {
        "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions",
        "volumeMode", "nodeAffinity", "volumeAttributesClassName",
    }
)  # fmt: skip

_SOURCES: Final = {
    "hostPath": volumesources.host_path,
    "nfs": volumesources.nfs,
    "iscsi": volumesources.iscsi,
    "fc": volumesources.fibre_channel,
    "local": volumesources.local,
    "csi": volumesources.csi_of_volume,
}
"""The sources of PersistentVolumes that are validated, in order of precedence."""


class PersistentVolumeClaimStrategy(PlainStrategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        spec.setdefault("resources", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"phase": "Pending"}
        _pair_data_sources(obj["spec"], {})

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        _pair_data_sources(obj["spec"], old["spec"])

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return claim_spec("spec", obj["spec"])

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _claim_status_errors(obj.get("status") or {})

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new_spec, old_spec = obj["spec"], old["spec"]
        bound = (old.get("status") or {}).get("phase") == "Bound"
        now, before = _fixed(new_spec, bound=bound), _fixed(old_spec, bound=bound)
        if not old_spec.get("volumeName"):
            before["volumeName"] = now.get("volumeName")
        if old_spec.get("storageClassName") is None:
            before["storageClassName"] = now.get("storageClassName")
        errors: list[FieldError] = []
        if not checks.same(now, before):
            why = (
                "spec is immutable after creation except resources.requests "
                "and volumeAttributesClassName for bound claims\n"
            )
            errors.append(forbidden("spec", why))
        if _storage(new_spec) < _storage(old_spec):
            capacity = ((obj.get("status") or {}).get("capacity") or {}).get("storage")
            if capacity is None or _storage(new_spec) <= Quantity.of(capacity):
                why = "field can not be less than status.capacity"
                errors.append(forbidden("spec.resources.requests.storage", why))
        return errors


class PersistentVolumeStrategy(PlainStrategy):
    delete_answers_object = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": time.format(self._clock.now())}

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        status.setdefault("phase", "Pending")
        if status.get("phase") != before.get("phase") and _moved(status) == _moved(before):
            status["lastPhaseTransitionTime"] = time.format(self._clock.now())

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return _volume_errors(obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        now = {key: value for key, value in obj["spec"].items() if key not in _NOT_A_SOURCE}
        before = {key: value for key, value in old["spec"].items() if key not in _NOT_A_SOURCE}
        errors: list[FieldError] = []
        if not checks.same(now, before):
            why = "spec.persistentvolumesource is immutable after creation\n"
            errors.append(forbidden("spec.persistentvolumesource", why))
        errors += checks.immutable("volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"))
        affinity, before = (each["spec"].get("nodeAffinity") for each in (obj, old))
        if before is not None and not checks.same(affinity, before):
            why = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", affinity, why))
        return errors


def _volume_errors(spec: JSONObject) -> list[FieldError]:
    errors = _access_modes("spec", spec, claim=False) + _capacity_errors(spec.get("capacity") or {})
    policy, volume_class = spec["persistentVolumeReclaimPolicy"], spec.get("volumeAttributesClassName")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    if affinity is not None and affinity.get("required") is None:
        errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
    elif affinity is not None:
        errors += nodeselectors.selector_errors("spec.nodeAffinity.required", affinity["required"])
    errors += _source_errors("spec", spec)
    if policy == "Recycle" and posixpath.normpath((spec.get("hostPath") or {}).get("path") or ".") in ("/", "//"):
        why = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", why))
    if spec.get("storageClassName"):
        errors += checks.named("spec.storageClassName", spec["storageClassName"], names.dns1123_subdomain)
    if spec["volumeMode"] not in _VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    return errors + (_attributes_class_errors(volume_class, spec) if volume_class is not None else [])


def _attributes_class_errors(name: str, spec: JSONObject) -> list[FieldError]:
    path = "spec.volumeAttributesClassName"
    errors = (
        checks.named(path, name, names.dns1123_subdomain) if name else [required(path, "an empty string is disallowed")]
    )
    if spec.get("csi") is None:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _capacity_errors(capacity: JSONObject) -> list[FieldError]:
    path, errors = "spec.capacity", list[FieldError]()
    if not capacity:
        errors.append(required(path))
        errors.append(not_supported(path, None, ("storage",)))
    elif "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported(path, capacity, ("storage",)))
    for name, value in capacity.items():
        if Quantity.of(value) <= Quantity(0):
            errors.append(invalid(f"{path}[{name}]", str(value), checks.NOT_POSITIVE))
    return errors


def _source_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the source of a PersistentVolume: there must be one."""
    found = sorted((field for field in spec if field not in _NOT_A_SOURCE), key=_source_order)
    if not found:
        return [required(path, "must specify a volume type")]
    first, *others = found
    check = _SOURCES.get(first)
    errors = check(f"{path}.{first}", spec[first]) if check is not None else []
    if first == "local" and spec.get("nodeAffinity") is None:
        errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return errors + [forbidden(f"{path}.{each}", "may not specify more than 1 volume type") for each in others]


def _source_order(source: str) -> int:
    return list(_SOURCES).index(source) if source in _SOURCES else len(_SOURCES)


def inline_volume_errors(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of the spec of a volume that is not a PersistentVolume, in a VolumeAttachment."""
    where, errors = "in the context of inline volumes", list[FieldError]()
    for field in ("claimRef", "capacity"):
        if spec.get(field):
            errors.append(forbidden(f"{path}.{field}", f"may not be specified {where}"))
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", f"has to be specified {where}"))
    errors += _access_modes(path, spec, claim=False)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {where}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(f"{path}.nodeAffinity", f"may not be specified {where}"))
    errors += _source_errors(path, spec)
    if spec.get("storageClassName"):
        errors.append(forbidden(f"{path}.storageClassName", f"may not be specified {where}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        errors.append(forbidden(f"{path}.volumeMode", f"may not specify volumeMode other than Filesystem {where}"))
    return errors


def claim_spec(path: str, spec: JSONObject) -> list[FieldError]:
    """Return the errors of a claim's spec, in a claim or in the template of a StatefulSet."""
    errors = _access_modes(path, spec, claim=True)
    errors += checks.label_selector(f"{path}.selector", spec.get("selector"))
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{path}.resources[storage]"
    if storage is None:
        errors.append(required(at))
    elif Quantity.of(storage) <= Quantity(0):
        errors.append(invalid(at, str(Quantity.of(storage)), checks.NOT_POSITIVE))
    if spec.get("storageClassName"):
        errors += checks.named(f"{path}.storageClassName", spec["storageClassName"], names.dns1123_subdomain)
    if spec.get("volumeMode") is not None and spec["volumeMode"] not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    errors += _data_source_errors(path, spec.get("dataSource"), spec.get("dataSourceRef"))
    if spec.get("volumeAttributesClassName"):
        at = f"{path}.volumeAttributesClassName"
        errors += checks.named(at, spec["volumeAttributesClassName"], names.dns1123_subdomain)
    return errors


def _pair_data_sources(spec: JSONObject, old: JSONObject) -> None:
    """Keep `dataSource` and `dataSourceRef` equal, since a client may know only one of them (KEP-1495).

    A source of a kind that the old field cannot name is dropped, and so is a reference to another namespace, which a
    cluster does not allow by default.
    """
    if (spec.get("dataSourceRef") or {}).get("namespace") and old.get("dataSourceRef") is None:
        spec.pop("dataSourceRef")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    has_source = old.get("dataSource") is not None or old.get("dataSourceRef") is not None
    if source is not None and reference is None and not (has_source or _is_classic(source)):
        del spec["dataSource"]
    elif source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _is_classic(source: JSONObject) -> bool:
    """Return whether the older of the two fields can name a source."""
    return (source.get("kind"), source.get("apiGroup") or "") in _DATA_SOURCES


def _data_source_errors(path: str, source: JSONObject | None, ref: JSONObject | None) -> list[FieldError]:
    errors: list[FieldError] = []
    if source is not None:
        errors += _reference_errors(f"{path}.dataSource", source)
    if ref is None:
        return errors
    errors += _reference_errors(f"{path}.dataSourceRef", ref)
    if ref.get("namespace"):
        errors += checks.named(f"{path}.dataSourceRef.namespace", ref["namespace"], names.dns1123_label)
        if source is not None:
            errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif source is not None and any(source.get(each) != ref.get(each) for each in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _reference_errors(path: str, reference: JSONObject) -> list[FieldError]:
    kind, group = reference.get("kind") or "", reference.get("apiGroup") or ""
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not reference.get(field)]
    if not group and kind != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, why))
    return errors + (checks.named(f"{path}.apiGroup", group, names.dns1123_subdomain) if group else [])


def _access_modes(path: str, spec: JSONObject, *, claim: bool) -> list[FieldError]:
    at, modes = f"{path}.accessModes", spec.get("accessModes") or []
    if not modes:
        return [required(at, "at least 1 access mode is required") if claim else required(at)]
    errors = [not_supported(at, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden(at, "may not use ReadWriteOncePod with other access modes"))
    return errors


def _moved(status: JSONObject) -> str:
    return status.get("lastPhaseTransitionTime") or ""


def _fixed(spec: JSONObject, *, bound: bool) -> JSONObject:
    """Return what may not change of a claim. The size and the class of attributes may, once it is bound."""
    resources: JSONObject = spec.get("resources") or {}
    sizes = {
        field: {name: str(Quantity.of(amount)) for name, amount in (resources.get(field) or {}).items()}
        for field in ("limits", "requests")
    }
    if bound:
        sizes["requests"].pop("storage", None)
    changing = ("resources", "volumeAttributesClassName") if bound else ("resources",)
    return {**{key: value for key, value in spec.items() if key not in changing}, **sizes}


def _claim_status_errors(status: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("capacity", "allocatedResources"):
        for name, amount in (status.get(field) or {}).items():
            at = f"status.{field}[{name}]"
            if Quantity.of(amount) < Quantity(0):
                errors.append(invalid(at, str(amount), "must be a valid resource quantity"))
    path = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        if "/" not in name and name != "storage":
            errors.append(not_supported(path, name, ("storage",)))
        if state not in _RESIZE_STATES:
            errors.append(not_supported(path, name, _RESIZE_STATES))
    return errors


def _storage(spec: JSONObject) -> Quantity:
    return Quantity.of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
