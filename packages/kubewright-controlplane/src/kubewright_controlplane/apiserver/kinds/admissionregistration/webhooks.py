"""MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

Follows k8s.io/kubernetes pkg/apis/admissionregistration/{v1,validation} and k8s.io/apiserver pkg/util/webhook.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, duplicate, invalid, not_supported, required
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.admissionregistration.criteria import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    condition_errors,
    rule_errors,
)
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Strategy
from kubewright_controlplane.apiserver.webhooks.validation import client_config_errors, review_version_errors

_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_RESERVED_SUFFIX: Final = ".static.k8s.io"


class ValidatingConfigurationStrategy(Strategy):
    """A configuration whose webhooks accept or reject writes."""

    allow_unconditional_update = False

    def default(self, obj: JSONObject) -> None:
        for webhook in obj.get("webhooks") or ():
            self._default(webhook)

    def _default(self, webhook: JSONObject) -> None:
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{index}]", webhook.get("name") or ""
            errors += self._webhook_errors(path, webhook)
            versions = webhook.get("admissionReviewVersions") or []
            errors += review_version_errors(f"{path}.admissionReviewVersions", versions)
            if name and name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors

    def _webhook_errors(self, path: str, webhook: JSONObject) -> list[FieldError]:
        errors = _name_errors(f"{path}.name", webhook.get("name") or "")
        for index, rule in enumerate(webhook.get("rules") or ()):
            errors += rule_errors(f"{path}.rules[{index}]", rule)
        errors += checks.one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), FAILURE_POLICIES)
        errors += checks.one_of(f"{path}.matchPolicy", webhook.get("matchPolicy"), MATCH_POLICIES)
        errors += _side_effect_errors(f"{path}.sideEffects", webhook.get("sideEffects"))
        seconds = webhook.get("timeoutSeconds", 10)
        if not 1 <= seconds <= 30:
            why = "the timeout value must be between 1 and 30 seconds"
            errors.append(invalid(f"{path}.timeoutSeconds", seconds, why))
        for selector in ("namespaceSelector", "objectSelector"):
            errors += checks.label_selector(f"{path}.{selector}", webhook.get(selector))
        errors += self._own_errors(path, webhook)
        errors += client_config_errors(f"{path}.clientConfig", webhook.get("clientConfig") or {})
        return errors + condition_errors(f"{path}.matchConditions", webhook.get("matchConditions") or ())

    def _own_errors(self, path: str, webhook: JSONObject) -> list[FieldError]:
        return []

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        if not obj["metadata"]["name"].endswith(_RESERVED_SUFFIX):
            return []
        return [
            f'metadata.name: names ending with "{_RESERVED_SUFFIX}" are reserved for static manifest-based '
            "configurations and cannot be managed via the API"
        ]


class MutatingConfigurationStrategy(ValidatingConfigurationStrategy):
    """A configuration whose webhooks may also change the object."""

    def _default(self, webhook: JSONObject) -> None:
        super()._default(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")

    def _own_errors(self, path: str, webhook: JSONObject) -> list[FieldError]:
        return checks.one_of(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), REINVOCATION_POLICIES)


def _name_errors(path: str, name: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := names.dns1123_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _side_effect_errors(path: str, value: str | None) -> list[FieldError]:
    if value is None:
        return [required(path, f"must specify one of {', '.join(_SIDE_EFFECTS)}")]
    return [] if value in _SIDE_EFFECTS else [not_supported(path, value, _SIDE_EFFECTS)]
