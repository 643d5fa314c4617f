"""The admission plugins of a server: those that are on by default in kube-apiserver, in its order, and some others."""

from __future__ import annotations

from kubewright_controlplane.apiserver.admission import names
from kubewright_controlplane.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from kubewright_controlplane.apiserver.admission.ingressclass import DefaultIngressClass
from kubewright_controlplane.apiserver.admission.limitranger import LimitRanger
from kubewright_controlplane.apiserver.admission.namespacelifecycle import NamespaceLifecycle
from kubewright_controlplane.apiserver.admission.noderestriction import NodeRestriction
from kubewright_controlplane.apiserver.admission.nodes import TaintNodesByCondition
from kubewright_controlplane.apiserver.admission.plugin import AdmissionPlugin
from kubewright_controlplane.apiserver.admission.podresize import PodResizeValidator
from kubewright_controlplane.apiserver.admission.pods import (
    DefaultTolerationSeconds,
    PodTopologyLabels,
    Priority,
    RuntimeClass,
)
from kubewright_controlplane.apiserver.admission.podsecurity.plugin import PodSecurity
from kubewright_controlplane.apiserver.admission.protection import StorageObjectInUseProtection
from kubewright_controlplane.apiserver.admission.resourcequota import ResourceQuota
from kubewright_controlplane.apiserver.admission.serviceaccount import ServiceAccount
from kubewright_controlplane.apiserver.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def build_plugins(resources: ResourceSet, authorizer: Authorizer, options: ServerOptions) -> list[AdmissionPlugin]:
    """Return the plugins of a server in order: those that are on by default or enabled, and not disabled."""
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(resources),
        LimitRanger(resources),
        ServiceAccount(resources),
        NodeRestriction(resources, authorizer),
        TaintNodesByCondition(),
        PodSecurity(resources, options.pod_security),
        Priority(resources),
        DefaultTolerationSeconds(),
        RuntimeClass(resources),
        DefaultStorageClass(resources),
        StorageObjectInUseProtection(resources),
        PersistentVolumeClaimResize(resources),
        CertificateApproval(authorizer),
        CertificateSigning(authorizer),
        CertificateSubjectRestriction(),
        DefaultIngressClass(resources),
        PodTopologyLabels(resources),
        PodResizeValidator(resources),
        ResourceQuota(resources),
    ]
    enabled = (names.DEFAULT | options.enabled_admission) - options.disabled_admission
    return [plugin for plugin in plugins if plugin.name in enabled]
