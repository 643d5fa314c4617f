"""Strategies of the core group."""

from __future__ import annotations

from collections.abc import Mapping

from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core.allocation import Allocations
from kubewright_controlplane.apiserver.kinds.core.claims import PersistentVolumeClaimStrategy, PersistentVolumeStrategy
from kubewright_controlplane.apiserver.kinds.core.data import ConfigMapStrategy, SecretStrategy
from kubewright_controlplane.apiserver.kinds.core.endpoints import EndpointsStrategy
from kubewright_controlplane.apiserver.kinds.core.events import EventStrategy
from kubewright_controlplane.apiserver.kinds.core.limits import LimitRangeStrategy, ResourceQuotaStrategy
from kubewright_controlplane.apiserver.kinds.core.namespace import NamespaceStrategy
from kubewright_controlplane.apiserver.kinds.core.node import NodeStrategy
from kubewright_controlplane.apiserver.kinds.core.pod import PodStrategy
from kubewright_controlplane.apiserver.kinds.core.podsubresources import BindingStrategy
from kubewright_controlplane.apiserver.kinds.core.replication import PodTemplateStrategy, ReplicationControllerStrategy
from kubewright_controlplane.apiserver.kinds.core.service import ServiceStrategy
from kubewright_controlplane.apiserver.kinds.core.serviceaccount import ServiceAccountStrategy
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry.model import Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    resources, options = server.resources, server.options
    tokens = server.authentication.service_accounts
    allocations = Allocations(resources, options.service_cidr, options.node_ports)
    return {
        "bindings": BindingStrategy(resources),
        "componentstatuses": ComponentStatusStrategy(),
        "configmaps": ConfigMapStrategy(),
        "endpoints": EndpointsStrategy(),
        "events": EventStrategy(),
        "limitranges": LimitRangeStrategy(),
        "namespaces": NamespaceStrategy(),
        "nodes": NodeStrategy(resources, options.kubelet),
        "persistentvolumeclaims": PersistentVolumeClaimStrategy(),
        "persistentvolumes": PersistentVolumeStrategy(options.clock),
        "pods": PodStrategy(resources, options.kubelet),
        "podtemplates": PodTemplateStrategy(),
        "replicationcontrollers": ReplicationControllerStrategy(),
        "resourcequotas": ResourceQuotaStrategy(),
        "secrets": SecretStrategy(),
        "serviceaccounts": ServiceAccountStrategy(resources, tokens, options.clock),
        "services": ServiceStrategy(resources, allocations),
    }


class ComponentStatusStrategy(PlainStrategy):
    deprecation_warning = "v1 ComponentStatus is deprecated in v1.19+"
