"""Strategies of admissionregistration.k8s.io: webhook configurations, policies and their bindings.

`apiserver.admission` acts on the stored objects.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright_controlplane.apiserver.kinds.admissionregistration.bindings import (
    MutatingBindingStrategy,
    ValidatingBindingStrategy,
)
from kubewright_controlplane.apiserver.kinds.admissionregistration.policies import (
    MutatingPolicyStrategy,
    ValidatingPolicyStrategy,
)
from kubewright_controlplane.apiserver.kinds.admissionregistration.webhooks import (
    MutatingConfigurationStrategy,
    ValidatingConfigurationStrategy,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "mutatingadmissionpolicies": MutatingPolicyStrategy(server),
        "mutatingadmissionpolicybindings": MutatingBindingStrategy(server),
        "mutatingwebhookconfigurations": MutatingConfigurationStrategy(),
        "validatingadmissionpolicies": ValidatingPolicyStrategy(server),
        "validatingadmissionpolicybindings": ValidatingBindingStrategy(server),
        "validatingwebhookconfigurations": ValidatingConfigurationStrategy(),
    }
