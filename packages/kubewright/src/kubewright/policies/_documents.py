"""The documents of policies and their bindings, for an API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kubewright.apis.admissionregistration.v1 import (
    ApplyConfiguration as ApplyConfigurationDocument,
)
from kubewright.apis.admissionregistration.v1 import (
    AuditAnnotation,
    MatchCondition,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    NamedRuleWithOperations,
    ParamKind,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Variable,
)
from kubewright.apis.admissionregistration.v1 import JSONPatch as JSONPatchDocument
from kubewright.apis.admissionregistration.v1 import Mutation as MutationDocument
from kubewright.apis.admissionregistration.v1 import ParamRef as ParamRefDocument
from kubewright.apis.admissionregistration.v1 import Validation as ValidationDocument
from kubewright.machinery.errors import ConfigError
from kubewright.models._meta import LabelSelector, ObjectMeta
from kubewright.policies._binding import Binding, ParamRef
from kubewright.policies._declaration import MutatingPolicy, Policy, ValidatingPolicy, check_policies
from kubewright.policies._expressions import ApplyConfiguration, Mutation, Validation
from kubewright.policies._rule import Rule

PolicyDocument: TypeAlias = (
    ValidatingAdmissionPolicy
    | ValidatingAdmissionPolicyBinding
    | MutatingAdmissionPolicy
    | MutatingAdmissionPolicyBinding
)
"""A policy or a binding, as an API server keeps it."""


def policy_documents(policies: Iterable[Policy], *, prefix: str = "") -> list[PolicyDocument]:
    """Return the documents of policies: each policy, then its bindings.

    prefix: the start of the names of policies and bindings, which are unique in a cluster.

    Raises ConfigError for policies or bindings with the same name.
    """
    policies = list(policies)
    check_policies(policies)
    return [document for each in policies for document in _documents(each, prefix)]


def _documents(policy: Policy, prefix: str) -> list[PolicyDocument]:
    metadata = ObjectMeta(name=f"{prefix}{policy.name}")
    if isinstance(policy, ValidatingPolicy):
        validating = ValidatingAdmissionPolicy(metadata=metadata, spec=_validating(policy))
        return [validating, *(_validating_binding(each, policy, prefix) for each in policy.bindings)]
    if isinstance(policy, MutatingPolicy):
        mutating = MutatingAdmissionPolicy(metadata=metadata, spec=_mutating(policy))
        return [mutating, *(_mutating_binding(each, policy, prefix) for each in policy.bindings)]
    raise ConfigError(f"{policy!r} is neither a ValidatingPolicy nor a MutatingPolicy")


def _validating(policy: ValidatingPolicy) -> ValidatingAdmissionPolicySpec:
    annotations = [AuditAnnotation(key=key, value_expression=text) for key, text in policy.audit_annotations.items()]
    return ValidatingAdmissionPolicySpec(
        validations=[_validation(each) for each in policy.validations], audit_annotations=annotations, **_common(policy)
    )


def _mutating(policy: MutatingPolicy) -> MutatingAdmissionPolicySpec:
    return MutatingAdmissionPolicySpec(
        mutations=[_mutation(each) for each in policy.mutations],
        reinvocation_policy=policy.reinvocation_policy,
        **_common(policy),
    )


def _common(policy: Policy) -> dict[str, Any]:
    kind = policy.params.__api__ if policy.params is not None else None
    return {
        "failure_policy": policy.failure_policy,
        "match_conditions": [
            MatchCondition(name=name, expression=text) for name, text in _items(policy.match_conditions)
        ],
        "match_constraints": MatchResources(
            resource_rules=_rules(policy.rules),
            exclude_resource_rules=_rules(policy.exclude),
            match_policy=policy.match_policy if policy.match_policy != "Equivalent" else None,
            namespace_selector=policy.namespace_selector,
            object_selector=policy.object_selector,
        ),
        "param_kind": ParamKind(api_version=kind.api_version, kind=kind.kind) if kind is not None else None,
        "variables": [Variable(name=name, expression=text) for name, text in _items(policy.variables)],
    }


def _items(expressions: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, text.strip()) for name, text in expressions.items()]


def _rules(rules: Sequence[Rule]) -> list[NamedRuleWithOperations]:
    return [
        NamedRuleWithOperations(
            api_groups=list(each.groups),
            api_versions=list(each.versions),
            operations=list(each.operations),
            resources=list(each.resources),
            resource_names=list(each.names),
            scope=each.scope if each.scope != "*" else None,
        )
        for each in rules
    ]


def _validation(validation: Validation) -> ValidationDocument:
    return ValidationDocument(
        expression=validation.expression.strip(),
        message=validation.message or None,
        message_expression=validation.message_expression.strip() or None,
        reason=validation.reason if validation.reason != "Invalid" else None,
    )


def _mutation(mutation: Mutation) -> MutationDocument:
    expression = mutation.expression.strip()
    if isinstance(mutation, ApplyConfiguration):
        patch = ApplyConfigurationDocument(expression=expression)
        return MutationDocument(patch_type="ApplyConfiguration", apply_configuration=patch)
    return MutationDocument(patch_type="JSONPatch", json_patch=JSONPatchDocument(expression=expression))


def _validating_binding(binding: Binding, policy: Policy, prefix: str) -> ValidatingAdmissionPolicyBinding:
    spec = ValidatingAdmissionPolicyBindingSpec(
        validation_actions=list(binding.actions or ("Deny",)), **_bound(binding, policy, prefix)
    )
    return ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name=f"{prefix}{binding.name}"), spec=spec)


def _mutating_binding(binding: Binding, policy: Policy, prefix: str) -> MutatingAdmissionPolicyBinding:
    spec = MutatingAdmissionPolicyBindingSpec(**_bound(binding, policy, prefix))
    return MutatingAdmissionPolicyBinding(metadata=ObjectMeta(name=f"{prefix}{binding.name}"), spec=spec)


def _bound(binding: Binding, policy: Policy, prefix: str) -> dict[str, Any]:
    return {
        "policy_name": f"{prefix}{policy.name}",
        "param_ref": _reference(binding.params),
        "match_resources": _matches(binding),
    }


def _reference(reference: ParamRef | None) -> ParamRefDocument | None:
    if reference is None:
        return None
    return ParamRefDocument(
        name=reference.name or None,
        namespace=reference.namespace or None,
        selector=reference.selector,
        parameter_not_found_action=reference.parameter_not_found_action,
    )


def _matches(binding: Binding) -> MatchResources | None:
    """Return what a binding matches; None if that is all that its policy matches."""
    selectors: list[LabelSelector | None] = [binding.namespace_selector, binding.object_selector]
    if not binding.rules and not binding.exclude and selectors == [None, None]:
        return None
    return MatchResources(
        resource_rules=_rules(binding.rules),
        exclude_resource_rules=_rules(binding.exclude),
        match_policy=binding.match_policy if binding.match_policy != "Equivalent" else None,
        namespace_selector=binding.namespace_selector,
        object_selector=binding.object_selector,
    )
