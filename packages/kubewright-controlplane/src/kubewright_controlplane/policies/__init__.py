"""Admission policies without a server: checks of the documents, and what they say about a write.

    faults = policy_faults(policy, definitions=[crd])
    evaluation = evaluate(policy, [binding], Write("CREATE", GroupVersionResource("", "v1", "pods"), pod))

policy_faults, binding_faults  what is wrong with a policy or a binding, in the API server's words and beyond
condition_faults               the same for the match conditions of a webhook
evaluate, Write, Evaluation    what a policy says about a write of a user (UserInfo)

Policies, bindings and CustomResourceDefinitions are documents of `admissionregistration.k8s.io/v1` and
`apiextensions.k8s.io/v1`, as in files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.user import UserInfo as UserInfo
    from kubewright_controlplane.policies.checks import PolicyFault as PolicyFault
    from kubewright_controlplane.policies.checks import binding_faults as binding_faults
    from kubewright_controlplane.policies.checks import condition_faults as condition_faults
    from kubewright_controlplane.policies.checks import policy_faults as policy_faults
    from kubewright_controlplane.policies.evaluation import Evaluation as Evaluation
    from kubewright_controlplane.policies.evaluation import Write as Write
    from kubewright_controlplane.policies.evaluation import evaluate as evaluate

_HOMES: Final = {
    "Evaluation": "policies.evaluation",
    "PolicyFault": "policies.checks",
    "UserInfo": "apiserver.user",
    "Write": "policies.evaluation",
    "binding_faults": "policies.checks",
    "condition_faults": "policies.checks",
    "evaluate": "policies.evaluation",
    "policy_faults": "policies.checks",
}
"""Imported on first use: a check loads no API server."""

__all__ = [
    "Evaluation",
    "PolicyFault",
    "UserInfo",
    "Write",
    "binding_faults",
    "condition_faults",
    "evaluate",
    "policy_faults",
]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"kubewright_controlplane.{_HOMES[name]}"), name)
