"""Strategies of admissionregistration.k8s.io: none of its kinds is acted on yet, so none is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kubewright.apiserver.registry.refused import RefusedStrategy
from kubewright.apiserver.registry.strategy import Strategy

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

_REFUSED: Final = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)


def strategies(server: APIServer) -> Mapping[str, Strategy]:
    return {plural: RefusedStrategy() for plural in _REFUSED}
