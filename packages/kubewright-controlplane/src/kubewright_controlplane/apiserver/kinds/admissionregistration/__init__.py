"""Strategies of admissionregistration.k8s.io: webhook configurations, and policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright_controlplane.apiserver.kinds.admissionregistration.webhooks import (
    MutatingConfigurationStrategy,
    ValidatingConfigurationStrategy,
)
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UnsupportedKindStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy

_UNSUPPORTED: Final = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        **{plural: UnsupportedKindStrategy() for plural in _UNSUPPORTED},
        "mutatingwebhookconfigurations": MutatingConfigurationStrategy(),
        "validatingwebhookconfigurations": ValidatingConfigurationStrategy(),
    }
