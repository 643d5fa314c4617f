"""Strategies of certificates.k8s.io: CertificateSigningRequests, and their approval.

Follows k8s.io/kubernetes pkg/registry/certificates and pkg/apis/certificates/validation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.x509 import load_pem_x509_csr

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.fields import FieldError, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy, Subresource, View

_DECISIONS: Final = ("Approved", "Denied")


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"certificatesigningrequests": SigningRequestStrategy(server.options.clock)}


class SigningRequestStrategy(PlainStrategy):
    selectable_fields = ("spec.signerName",)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {"approval": Approval(clock=self._clock)}

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        """Record the user that sends the request as its requester, whatever the object says."""
        user = attributes.user.to_dict()
        spec = obj.setdefault("spec", {})
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        obj["spec"] = {**spec, **user}
        obj["status"] = {}

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj["spec"] = old["spec"]

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Approval has its own subresource; here it does not change."""
        kept = [each for each in _conditions(old) if each.get("type") in _DECISIONS]
        others = [each for each in _conditions(obj) if each.get("type") not in _DECISIONS]
        _date(kept + others, self._clock)
        if kept or others:
            obj.setdefault("status", {})["conditions"] = kept + others

    def validate(self, obj: JSONObject) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors: list[FieldError] = []
        try:
            load_pem_x509_csr(b64decode(spec.get("request") or ""))
        except ValueError:
            why = "PEM block type must be CERTIFICATE REQUEST"
            errors.append(invalid("spec.request", spec.get("request") or "", why))
        if not spec.get("usages"):
            errors.append(required("spec.usages"))
        signer = spec.get("signerName") or ""
        if not signer:
            errors.append(required("spec.signerName"))
        elif "/" not in signer:
            why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            errors.append(invalid("spec.signerName", signer, why))
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            errors.append(
                invalid(
                    "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
                )
            )
        return errors

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"spec.signerName": (obj.get("spec") or {}).get("signerName") or ""}


@dataclass(frozen=True, kw_only=True)
class Approval(View):
    """The approval subresource: sets metadata and conditions, and nothing else."""

    clock: Clock

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        conditions = _conditions(view)
        _date(conditions, self.clock)
        return {
            **old,
            "metadata": view["metadata"],
            "status": {**(old.get("status") or {}), "conditions": conditions},
        }

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        kinds = [each.get("type") for each in _conditions(obj)]
        errors: list[FieldError] = []
        if all(each in kinds for each in _DECISIONS):
            errors.append(invalid("status.conditions", kinds, "Approved and Denied conditions are mutually exclusive"))
        for index, condition in enumerate(_conditions(obj)):
            path = f"status.conditions[{index}]"
            if not condition.get("type"):
                errors.append(required(f"{path}.type"))
            if condition.get("type") in _DECISIONS and condition.get("status") != "True":
                errors.append(not_supported(f"{path}.status", condition.get("status") or "", ("True",)))
        before = [each for each in _conditions(old) if each.get("type") in _DECISIONS]
        if any(each.get("type") not in kinds for each in before):
            errors += checks.immutable("status.conditions", kinds, [each.get("type") for each in before])
        return errors


def _conditions(obj: JSONObject) -> list[JSONObject]:
    return list((obj.get("status") or {}).get("conditions") or ())


def _date(conditions: list[JSONObject], clock: Clock) -> None:
    now = time.format(clock.now())
    for condition in conditions:
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        condition["lastTransitionTime"] = condition.get("lastTransitionTime") or now
