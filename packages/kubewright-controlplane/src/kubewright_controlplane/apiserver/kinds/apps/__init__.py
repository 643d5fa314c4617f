"""Strategies of apps: Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright_controlplane.apiserver.kinds.apps.daemonset import DaemonSetStrategy
from kubewright_controlplane.apiserver.kinds.apps.deployment import DeploymentStrategy
from kubewright_controlplane.apiserver.kinds.apps.replicaset import ReplicaSetStrategy
from kubewright_controlplane.apiserver.kinds.apps.revision import ControllerRevisionStrategy
from kubewright_controlplane.apiserver.kinds.apps.statefulset import StatefulSetStrategy
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "controllerrevisions": ControllerRevisionStrategy(),
        "daemonsets": DaemonSetStrategy(),
        "deployments": DeploymentStrategy(),
        "replicasets": ReplicaSetStrategy(),
        "statefulsets": StatefulSetStrategy(),
    }
