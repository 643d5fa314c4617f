"""Strategies of admissionregistration.k8s.io. The server does not act on these kinds yet, so it rejects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UnsupportedKindStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy

_UNSUPPORTED: Final = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {plural: UnsupportedKindStrategy() for plural in _UNSUPPORTED}
