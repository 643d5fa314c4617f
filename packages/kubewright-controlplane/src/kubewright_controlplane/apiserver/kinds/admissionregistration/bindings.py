"""Strategies of the bindings of admission policies.

Follows k8s.io/kubernetes pkg/registry/admissionregistration/validatingadmissionpolicybinding and
mutatingadmissionpolicybinding.
"""

from __future__ import annotations

from typing import ClassVar, Final

from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes
from kubewright_controlplane.apiserver.kinds.admissionregistration.criteria import default_match
from kubewright_controlplane.apiserver.kinds.admissionregistration.parameters import ParameterAccess
from kubewright_controlplane.apiserver.kinds.admissionregistration.policyerrors import (
    mutating_binding_errors,
    validating_binding_errors,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy

_GROUP: Final = "admissionregistration.k8s.io"


class _BindingStrategy(Strategy):
    """A binding of a policy: which requests it is for, and with which parameters."""

    allow_unconditional_update = False
    policies: ClassVar[str]

    def __init__(self, server: ServerParts) -> None:
        self._access = ParameterAccess(server)
        self._resources = server.resources

    def default(self, obj: JSONObject) -> None:
        match = (obj.get("spec") or {}).get("matchResources")
        if match is not None:
            default_match(match)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        self._authorize(obj, attributes)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        same = new_spec.get("policyName") == old_spec.get("policyName")
        if not same or not checks.same(new_spec.get("paramRef"), old_spec.get("paramRef")):
            self._authorize(obj, attributes)

    def _authorize(self, obj: JSONObject, attributes: Attributes) -> None:
        """Raise Invalid if the binding is valid, but its author cannot read its parameters."""
        reference = (obj.get("spec") or {}).get("paramRef")
        if reference is None or attributes.user.is_superuser or self.validate(obj):
            return
        verb = "get" if reference.get("name") else "list"
        why = self._reason_denied(obj["spec"]["policyName"], reference, attributes, verb)
        if why:
            raise self._access.denied(attributes, "spec.paramRef", why)

    def _reason_denied(self, policy: str, reference: JSONObject, attributes: Attributes, verb: str) -> str:
        stored = self._resources.registry(f"{self.policies}.{_GROUP}").read(policy)
        kind = (stored or {}).get("spec", {}).get("paramKind")
        found = self._access.resource(kind) if kind is not None else None
        group, version = ("*", "*") if kind is None else _split(kind)
        access = AccessAttributes(
            attributes.user, verb, group, version, found.plural if found is not None else "*",
            namespace=reference.get("namespace") or "", name=reference.get("name") or "",
        )  # fmt: skip
        if self._access.allows(access):
            return ""
        user = self._access.shown(attributes.user)
        lacks = f'user {user} does not have "{verb}" permission'
        if stored is None:
            why = f"unable to get policy {policy} to determine minimum required permissions"
            return f"{why} and {lacks} for all groups, versions and resources"
        if kind is not None and found is None:
            shown = f"&ParamKind{{APIVersion:{kind['apiVersion']},Kind:{kind['kind']},}}"
            why = f"unable to resolve paramKind {shown} to determine minimum required permissions"
            return f"{why} and {lacks} for all groups, versions and resources"
        return f"{lacks} on the object referenced by paramRef"


class ValidatingBindingStrategy(_BindingStrategy):
    """ValidatingAdmissionPolicyBindings."""

    policies = "validatingadmissionpolicies"

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return validating_binding_errors(obj)


class MutatingBindingStrategy(_BindingStrategy):
    """MutatingAdmissionPolicyBindings."""

    policies = "mutatingadmissionpolicies"

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return mutating_binding_errors(obj)


def _split(kind: JSONObject) -> tuple[str, str]:
    group_version = GroupVersion.parse(kind["apiVersion"])
    return group_version.group, group_version.version
