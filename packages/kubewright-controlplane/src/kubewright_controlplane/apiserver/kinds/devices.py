"""Strategies of resource.k8s.io: device claims, which nothing allocates here.

Follows k8s.io/kubernetes pkg/registry/resource and pkg/apis/resource/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds import devicespecs
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import RESET_BY_STATUS, Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "deviceclasses": DeviceClassStrategy(),
        "resourceclaims": ResourceClaimStrategy(),
        "resourceclaimtemplates": ResourceClaimTemplateStrategy(),
        "resourceslices": ResourceSliceStrategy(),
    }


class DeviceClassStrategy(Strategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        return devicespecs.class_errors(obj.get("spec") or {})


class ResourceSliceStrategy(Strategy):
    selectable_fields = ("spec.nodeName", "spec.driver")
    unselectable = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}"

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return devicespecs.slice_errors(obj.get("spec") or {})

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return devicespecs.slice_update_errors(obj.get("spec") or {}, old.get("spec") or {})

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        spec: JSONObject = obj.get("spec") or {}
        return {"spec.nodeName": spec.get("nodeName") or "", "spec.driver": spec.get("driver") or ""}


class ResourceClaimStrategy(PlainStrategy):
    metadata_without_status = RESET_BY_STATUS

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return devicespecs.claim_errors("spec", obj.get("spec") or {})

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec", obj.get("spec"), old.get("spec"))

    def default(self, obj: JSONObject) -> None:
        _default_counts(obj.get("spec") or {})


class ResourceClaimTemplateStrategy(PlainStrategy):
    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return devicespecs.claim_errors("spec.spec", (obj.get("spec") or {}).get("spec") or {})

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("spec", obj.get("spec"), old.get("spec"))

    def default(self, obj: JSONObject) -> None:
        _default_counts((obj.get("spec") or {}).get("spec") or {})


def _default_counts(claim: JSONObject) -> None:
    """Set the default count of an exact request: one device."""
    for request in _requests(claim):
        if request.get("allocationMode") == "ExactCount":
            request.setdefault("count", 1)


def _requests(claim: JSONObject) -> Iterator[JSONObject]:
    for request in (claim.get("devices") or {}).get("requests") or ():
        if "exactly" in request:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()
