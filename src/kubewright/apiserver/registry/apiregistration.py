"""Strategies of apiregistration.k8s.io: aggregated API servers are not called, so no APIService is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubewright.apiserver.registry.refused import RefusedStrategy
from kubewright.apiserver.registry.strategy import Strategy

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer


def strategies(server: APIServer) -> Mapping[str, Strategy]:
    return {"apiservices": RefusedStrategy()}
