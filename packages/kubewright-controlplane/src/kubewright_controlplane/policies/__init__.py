"""Admission policies without a server: checks of the documents, and what they say about a write.

    errors = policy_errors(policy, definitions=[crd])
    evaluation = evaluate(policy, [binding], Write("CREATE", GroupVersionResource("", "v1", "pods"), pod))

policy_errors, binding_errors  what is wrong with a policy or a binding, in the API server's words and beyond
condition_errors               the same for the match conditions of a webhook
evaluate, Write, Evaluation    what a policy says about a write of a user (UserInfo)

Policies, bindings and CustomResourceDefinitions are documents of `admissionregistration.k8s.io/v1` and
`apiextensions.k8s.io/v1`, as in files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.user import UserInfo as UserInfo
    from kubewright_controlplane.policies.checks import PolicyError as PolicyError
    from kubewright_controlplane.policies.checks import binding_errors as binding_errors
    from kubewright_controlplane.policies.checks import condition_errors as condition_errors
    from kubewright_controlplane.policies.checks import policy_errors as policy_errors
    from kubewright_controlplane.policies.evaluation import Evaluation as Evaluation
    from kubewright_controlplane.policies.evaluation import Write as Write
    from kubewright_controlplane.policies.evaluation import evaluate as evaluate

_HOMES: Final = {
    "Evaluation": "policies.evaluation",
    "PolicyError": "policies.checks",
    "UserInfo": "apiserver.user",
    "Write": "policies.evaluation",
    "binding_errors": "policies.checks",
    "condition_errors": "policies.checks",
    "evaluate": "policies.evaluation",
    "policy_errors": "policies.checks",
}
"""Imported on first use: a check loads no API server."""

__all__ = [
    "Evaluation",
    "PolicyError",
    "UserInfo",
    "Write",
    "binding_errors",
    "condition_errors",
    "evaluate",
    "policy_errors",
]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"kubewright_controlplane.{_HOMES[name]}"), name)
