"""Admission policies without a server: checks of the documents, and what they say about a write.

    faults = policy_faults(policy, definitions=[crd])
    evaluation = evaluate(policy, [binding], Write("CREATE", GroupVersionResource("", "v1", "pods"), pod))

policy_faults, binding_faults  what is wrong with a policy or a binding, in the API server's words and beyond
condition_faults               the same for the match conditions of a webhook
evaluate, Write, Evaluation    what a policy says about a write

Policies, bindings and CustomResourceDefinitions are documents of `admissionregistration.k8s.io/v1` and
`apiextensions.k8s.io/v1`, as in files.
"""

from __future__ import annotations

from kubewright_controlplane.policies.checks import (
    PolicyFault,
    binding_faults,
    condition_faults,
    policy_faults,
)
from kubewright_controlplane.policies.evaluation import Evaluation, Write, evaluate

__all__ = [
    "Evaluation",
    "PolicyFault",
    "Write",
    "binding_faults",
    "condition_faults",
    "evaluate",
    "policy_faults",
]
