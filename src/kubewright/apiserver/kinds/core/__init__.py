"""Strategies of the core group."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.apiserver.kinds.core.allocation import Allocations
from kubewright.apiserver.kinds.core.claims import PersistentVolumeClaimStrategy, PersistentVolumeStrategy
from kubewright.apiserver.kinds.core.data import ConfigMapStrategy, SecretStrategy
from kubewright.apiserver.kinds.core.endpoints import EndpointsStrategy
from kubewright.apiserver.kinds.core.events import EventStrategy
from kubewright.apiserver.kinds.core.limits import LimitRangeStrategy, ResourceQuotaStrategy
from kubewright.apiserver.kinds.core.namespace import NamespaceStrategy
from kubewright.apiserver.kinds.core.node import NodeStrategy
from kubewright.apiserver.kinds.core.pod import PodStrategy
from kubewright.apiserver.kinds.core.podsubresources import BindingStrategy
from kubewright.apiserver.kinds.core.replication import PodTemplateStrategy, ReplicationControllerStrategy
from kubewright.apiserver.kinds.core.service import ServiceStrategy
from kubewright.apiserver.kinds.core.serviceaccount import ServiceAccountStrategy
from kubewright.apiserver.parts import ServerParts
from kubewright.apiserver.registry.strategy import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    resources, options = server.resources, server.options
    tokens = server.authentication.service_accounts
    allocations = Allocations(resources, options.service_cidr, options.node_ports)
    return {
        "bindings": BindingStrategy(resources),
        "configmaps": ConfigMapStrategy(),
        "endpoints": EndpointsStrategy(),
        "events": EventStrategy(),
        "limitranges": LimitRangeStrategy(),
        "namespaces": NamespaceStrategy(),
        "nodes": NodeStrategy(),
        "persistentvolumeclaims": PersistentVolumeClaimStrategy(),
        "persistentvolumes": PersistentVolumeStrategy(options.clock),
        "pods": PodStrategy(resources, options.kubelet),
        "podtemplates": PodTemplateStrategy(),
        "replicationcontrollers": ReplicationControllerStrategy(),
        "resourcequotas": ResourceQuotaStrategy(),
        "secrets": SecretStrategy(),
        "serviceaccounts": ServiceAccountStrategy(resources, tokens, options.clock),
        "services": ServiceStrategy(allocations),
    }
