"""Strategies of ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

Expressions are compiled when a policy is written, and each error is reported for its field.

Follows k8s.io/kubernetes pkg/registry/admissionregistration/validatingadmissionpolicy and mutatingadmissionpolicy.
"""

from __future__ import annotations

from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.admissionregistration.parameters import ParameterAccess
from kubewright_controlplane.apiserver.kinds.admissionregistration.policyerrors import (
    default_policy,
    mutating_policy_errors,
    validating_policy_errors,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import RESET_BY_STATUS, Attributes, Strategy


class _PolicyStrategy(Strategy):
    """A policy: what it matches, its parameters, conditions and variables."""

    allow_unconditional_update = False

    def __init__(self, server: ServerParts) -> None:
        self._access = ParameterAccess(server)

    def default(self, obj: JSONObject) -> None:
        default_policy(obj)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        self._authorize(obj, attributes)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        if not checks.same(obj["spec"].get("paramKind"), old["spec"].get("paramKind")):
            self._authorize(obj, attributes)

    def _authorize(self, obj: JSONObject, attributes: Attributes) -> None:
        """Raise Invalid if the policy is valid, but its author cannot read all objects of its `paramKind`."""
        kind = obj["spec"].get("paramKind")
        if kind is None or attributes.user.is_superuser or self.validate(obj):
            return
        why = self._access.reason_denied(kind, attributes.user)
        if why:
            raise self._access.denied(attributes, "spec.paramKind", why)


class ValidatingPolicyStrategy(_PolicyStrategy):
    """ValidatingAdmissionPolicies."""

    metadata_without_status = RESET_BY_STATUS

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return validating_policy_errors(obj)


class MutatingPolicyStrategy(_PolicyStrategy):
    """MutatingAdmissionPolicies."""

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return mutating_policy_errors(obj)
