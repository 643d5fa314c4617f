"""Strategies of admissionregistration.k8s.io: webhook configurations, policies and their bindings.

`apiserver.admission` acts on the stored objects. `policyerrors` checks policies without a server, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
    from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    from kubewright_controlplane.apiserver.kinds.admissionregistration import bindings, policies, webhooks

    return {
        "mutatingadmissionpolicies": policies.MutatingPolicyStrategy(server),
        "mutatingadmissionpolicybindings": bindings.MutatingBindingStrategy(server),
        "mutatingwebhookconfigurations": webhooks.MutatingConfigurationStrategy(),
        "validatingadmissionpolicies": policies.ValidatingPolicyStrategy(server),
        "validatingadmissionpolicybindings": bindings.ValidatingBindingStrategy(server),
        "validatingwebhookconfigurations": webhooks.ValidatingConfigurationStrategy(),
    }
