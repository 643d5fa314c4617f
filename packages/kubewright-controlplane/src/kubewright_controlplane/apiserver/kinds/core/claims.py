"""PersistentVolumes and PersistentVolumeClaims.

Follows k8s.io/kubernetes pkg/registry/core/{persistentvolume,persistentvolumeclaim} and pkg/apis/core/validation.
"""

from __future__ import annotations

from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import names, time
from kubewright.machinery.fields import FieldError, forbidden, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright.machinery.quantity import Quantity
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_NOT_A_SOURCE: Final = frozenset(
    {
        "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions",
        "volumeMode", "nodeAffinity", "volumeAttributesClassName",
    }
)  # fmt: skip


class PersistentVolumeClaimStrategy(PlainStrategy):
    delete_answers_object = True

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        spec.setdefault("resources", {})

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return claim_spec("spec", obj["spec"])

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        new_spec, old_spec = obj["spec"], old["spec"]
        now, before = _fixed(new_spec), _fixed(old_spec)
        bound = (old.get("status") or {}).get("phase") == "Bound"
        if not bound:
            now["size"], before["size"] = _size(new_spec), _size(old_spec)
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
        if status.get("phase") != before.get("phase") and _moved(status) == _moved(before):
            status["lastPhaseTransitionTime"] = time.format(self._clock.now())

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = _access_modes("spec", spec, claim=False)
        capacity = spec.get("capacity") or {}
        if not capacity:
            errors.append(required("spec.capacity"))
            errors.append(not_supported("spec.capacity", None, ("storage",)))
        elif "storage" not in capacity or len(capacity) > 1:
            errors.append(not_supported("spec.capacity", capacity, ("storage",)))
        for name, value in capacity.items():
            if Quantity.of(value) <= Quantity(0):
                errors.append(invalid(f"spec.capacity[{name}]", str(value), checks.NOT_POSITIVE))
        errors += checks.one_of("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], _RECLAIM)
        sources = [field for field in spec if field not in _NOT_A_SOURCE]
        if not sources:
            errors.append(required("spec", "must specify a volume type"))
        errors += [forbidden(f"spec.{each}", "may not specify more than 1 volume type") for each in sources[1:]]
        if spec.get("storageClassName"):
            errors += checks.named("spec.storageClassName", spec["storageClassName"], names.dns1123_subdomain)
        return errors + checks.one_of("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        now = {key: value for key, value in obj["spec"].items() if key not in _NOT_A_SOURCE}
        before = {key: value for key, value in old["spec"].items() if key not in _NOT_A_SOURCE}
        errors: list[FieldError] = []
        if not checks.same(now, before):
            why = "spec.persistentvolumesource is immutable after creation\n"
            errors.append(forbidden("spec.persistentvolumesource", why))
        return errors + checks.immutable(
            "spec.volumeMode", obj["spec"].get("volumeMode"), old["spec"].get("volumeMode")
        )


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
    if spec.get("volumeAttributesClassName"):
        at = f"{path}.volumeAttributesClassName"
        errors += checks.named(at, spec["volumeAttributesClassName"], names.dns1123_subdomain)
    if spec.get("volumeMode") is not None and spec["volumeMode"] not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    return errors


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


def _fixed(spec: JSONObject) -> JSONObject:
    return {key: value for key, value in spec.items() if key not in ("resources", "volumeAttributesClassName")}


def _size(spec: JSONObject) -> str:
    return str(_storage(spec))


def _storage(spec: JSONObject) -> Quantity:
    return Quantity.of(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))
