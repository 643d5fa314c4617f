"""Strategies of flowcontrol.apiserver.k8s.io. The objects are stored and served, but requests are not queued.

Follows k8s.io/kubernetes pkg/registry/flowcontrol.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"flowschemas": Strategy(), "prioritylevelconfigurations": Strategy()}
