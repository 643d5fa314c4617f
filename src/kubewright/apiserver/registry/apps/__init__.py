"""Strategies of apps: Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.apiserver.parts import ServerParts
from kubewright.apiserver.registry.apps.daemonset import DaemonSetStrategy
from kubewright.apiserver.registry.apps.deployment import DeploymentStrategy
from kubewright.apiserver.registry.apps.replicaset import ReplicaSetStrategy
from kubewright.apiserver.registry.apps.revision import ControllerRevisionStrategy
from kubewright.apiserver.registry.apps.statefulset import StatefulSetStrategy
from kubewright.apiserver.registry.strategy import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "controllerrevisions": ControllerRevisionStrategy(),
        "daemonsets": DaemonSetStrategy(),
        "deployments": DeploymentStrategy(),
        "replicasets": ReplicaSetStrategy(),
        "statefulsets": StatefulSetStrategy(),
    }
