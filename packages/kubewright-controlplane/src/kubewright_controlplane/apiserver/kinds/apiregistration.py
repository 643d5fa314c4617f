"""Strategies of apiregistration.k8s.io. Aggregated API servers are not supported, so APIServices are rejected."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.generic import UnsupportedKindStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"apiservices": UnsupportedKindStrategy()}
