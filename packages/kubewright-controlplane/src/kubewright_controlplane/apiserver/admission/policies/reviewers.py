"""The reviewers that evaluate a server's policies."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kubewright_controlplane.apiserver.admission.policies.mutating import MutatingAdmissionPolicies
from kubewright_controlplane.apiserver.admission.policies.validating import ValidatingAdmissionPolicies
from kubewright_controlplane.apiserver.admission.review import Reviewer
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def policy_reviewers(
    resources: ResourceSet, authorizer: Authorizer, disabled: Container[str]
) -> tuple[Sequence[Reviewer], Sequence[Reviewer]]:
    """Return the mutating and the validating reviewer, without the `disabled` ones."""
    mutating = MutatingAdmissionPolicies.name not in disabled
    validating = ValidatingAdmissionPolicies.name not in disabled
    return (
        [MutatingAdmissionPolicies(resources, authorizer)] if mutating else [],
        [ValidatingAdmissionPolicies(resources, authorizer)] if validating else [],
    )
