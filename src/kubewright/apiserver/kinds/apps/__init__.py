"""Strategies of apps: Deployments, ReplicaSets, StatefulSets, DaemonSets, ControllerRevisions."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.apiserver.kinds.apps.daemonset import DaemonSetStrategy
from kubewright.apiserver.kinds.apps.deployment import DeploymentStrategy
from kubewright.apiserver.kinds.apps.replicaset import ReplicaSetStrategy
from kubewright.apiserver.kinds.apps.revision import ControllerRevisionStrategy
from kubewright.apiserver.kinds.apps.statefulset import StatefulSetStrategy
from kubewright.apiserver.parts import ServerParts
from kubewright.apiserver.registry.strategy import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "controllerrevisions": ControllerRevisionStrategy(),
        "daemonsets": DaemonSetStrategy(),
        "deployments": DeploymentStrategy(),
        "replicasets": ReplicaSetStrategy(),
        "statefulsets": StatefulSetStrategy(),
    }
