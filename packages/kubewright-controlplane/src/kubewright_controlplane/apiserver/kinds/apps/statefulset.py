"""StatefulSets. Follows k8s.io/kubernetes pkg/registry/apps/statefulset and pkg/apis/apps."""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.apps import workload
from kubewright_controlplane.apiserver.kinds.core import podwarnings
from kubewright_controlplane.apiserver.kinds.core.claims import claim_spec
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_COUNTS: Final = ("replicas", "availableReplicas")
_MAY_CHANGE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


_ALL_REVISIONS: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)


_UNAVAILABLE: Final = "maxUnavailable"
"""The field of a feature that is off by default. It is dropped unless the stored object has it."""


class StatefulSetStrategy(Strategy):
    def name_errors(self, name: str) -> list[str]:
        return names.dns1123_label(name)

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy: JSONObject = spec.setdefault("updateStrategy", {})
        if not strategy.get("type") or strategy.get("rollingUpdate") is not None:
            workload.default_rolling_update(strategy, partition=0)
        retention: JSONObject = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        workload.default_template(spec)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")
        if "status" in obj:
            obj["status"] = dict.fromkeys(_COUNTS, 0) | obj["status"]

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)
        _rolling_update(obj).pop(_UNAVAILABLE, None)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        super().prepare_for_update(obj, old, attributes)
        if _rolling_update(old).get(_UNAVAILABLE) is None:
            _rolling_update(obj).pop(_UNAVAILABLE, None)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj["spec"]
        policy = spec.get("podManagementPolicy")
        errors: list[FieldError] = []
        if policy not in ("OrderedReady", "Parallel"):
            errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
        errors += _strategy_errors(spec.get("updateStrategy") or {})
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            errors += claim_spec(f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec") or {})
        for field in ("replicas", "minReadySeconds"):
            errors += checks.non_negative(f"spec.{field}", spec.get(field))
        retention: JSONObject = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for field in ("whenDeleted", "whenScaled"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors += checks.one_of(path, retention.get(field), ("Retain", "Delete"))
        errors += checks.non_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
        if spec.get("serviceName"):
            errors += checks.named("spec.serviceName", spec["serviceName"], names.dns1123_label)
        errors += workload.selector_errors(spec.get("selector"), "statefulset")
        return errors + workload.selected_template_errors(_with_claims(spec), "StatefulSet", "")

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        changed = podwarnings.is_changed(obj, old)
        found = podwarnings.template_warnings("spec.template", obj["spec"]["template"]) if changed else []
        return [*found, _ALL_REVISIONS] if (obj["spec"].get("revisionHistoryLimit") or 0) < 0 else found

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        if checks.same(_fixed(obj["spec"]), _fixed(old["spec"])):
            return []
        listed = ", ".join(f"'{field}'" for field in _MAY_CHANGE[:-1])
        why = f"updates to statefulset spec for fields other than {listed} and '{_MAY_CHANGE[-1]}' are forbidden"
        return [forbidden("spec", why)]

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        counts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        status = obj.get("status") or {}
        return workload.status_errors(status, *counts) + workload.collision_errors(status, old.get("status") or {})


def _rolling_update(obj: JSONObject) -> JSONObject:
    found: JSONObject = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return found


def _strategy_errors(strategy: JSONObject) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    path = "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = {"Partition": rolling.get("partition"), "MaxUnavailable": rolling.get("maxUnavailable")}
        return [invalid(path, shown, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        return [invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    rolling = rolling or {}
    errors = checks.non_negative(f"{path}.partition", rolling.get("partition"))
    return errors + workload.int_or_percent(f"{path}.maxUnavailable", rolling.get("maxUnavailable"))


def _with_claims(spec: JSONObject) -> JSONObject:
    """Return the spec with the volumes that its claim templates add to its Pods, because mounts may name them."""
    claims = {(claim.get("metadata") or {}).get("name") or "" for claim in spec.get("volumeClaimTemplates") or ()}
    if not claims:
        return spec
    pod = spec["template"]["spec"]
    own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(claims)]
    return {**spec, "template": {**spec["template"], "spec": {**pod, "volumes": made + own}}}


def _fixed(spec: JSONObject) -> JSONObject:
    return {key: value for key, value in spec.items() if key not in _MAY_CHANGE}
