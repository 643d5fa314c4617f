"""Strategies of flowcontrol.apiserver.k8s.io: kept and served, but nothing is queued by them.

Follows k8s.io/kubernetes pkg/registry/flowcontrol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubewright.apiserver.registry.strategy import Strategy

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer


def strategies(server: APIServer) -> Mapping[str, Strategy]:
    return {"flowschemas": Strategy(), "prioritylevelconfigurations": Strategy()}
