"""Strategies of certificates.k8s.io: CertificateSigningRequests, and their approval.

Follows k8s.io/kubernetes pkg/registry/certificates and pkg/apis/certificates/validation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.x509 import load_pem_x509_csr

from kubewright._runtime.clock import Clock
from kubewright.machinery import names, time
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required, too_long
from kubewright.machinery.json import JSONObject, quoted
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy, Subresource, View

_DECISIONS: Final = ("Approved", "Denied")
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
_LONGEST_DOMAIN: Final = 253
_LONGEST_SIGNER: Final = 253 + 1 + 253 + 63 + 1
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip


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
        errors += _usage_errors(spec.get("usages") or []) + _signer_errors(spec.get("signerName") or "")
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


def _usage_errors(usages: list[str]) -> list[FieldError]:
    errors = [] if usages else [required("spec.usages")]
    errors += [
        not_supported(f"spec.usages[{index}]", usage, _USAGES)
        for index, usage in enumerate(usages)
        if usage not in _USAGES
    ]
    return errors + [duplicate(f"spec.usages[{index}]", usages[index]) for index in sorted(checks.repeated(usages))]


def _signer_errors(signer: str) -> list[FieldError]:
    path = "spec.signerName"
    if not signer:
        return [required(path)]
    if signer == _LEGACY_SIGNER:
        return [invalid(path, signer, "the legacy signerName is not allowed via this API version")]
    domain, _, name = signer.partition("/")
    if signer.count("/") != 1:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, signer, why)]
    errors = [too_long(path, _LONGEST_DOMAIN)] if len(domain) > _LONGEST_DOMAIN else []
    errors += _label_errors(path, domain, names.dns1123_label)
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += _label_errors(path, name, names.dns1123_subdomain)
    return [*errors, too_long(path, _LONGEST_SIGNER)] if len(signer) > _LONGEST_SIGNER else errors


def _label_errors(path: str, value: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """Return the errors of the first wrong label of a dotted name."""
    for label in value.split("."):
        if found := rule(label):
            return [invalid(path, value, f"validating label {quoted(label)}: {each}") for each in found]
    return []


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
