"""Strategies of admissionregistration.k8s.io. `apiserver.admission` acts on the stored objects.

Follows k8s.io/kubernetes pkg/registry/admissionregistration and pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright_controlplane.apiserver.kinds.admissionregistration.bindings import (
    MutatingBindingStrategy,
    ValidatingBindingStrategy,
)
from kubewright_controlplane.apiserver.kinds.admissionregistration.policies import (
    MutatingPolicyStrategy,
    ValidatingPolicyStrategy,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UnsupportedKindStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy

_UNSUPPORTED: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "validatingadmissionpolicies": ValidatingPolicyStrategy(server),
        "validatingadmissionpolicybindings": ValidatingBindingStrategy(server),
        "mutatingadmissionpolicies": MutatingPolicyStrategy(server),
        "mutatingadmissionpolicybindings": MutatingBindingStrategy(server),
        **{plural: UnsupportedKindStrategy() for plural in _UNSUPPORTED},
    }
