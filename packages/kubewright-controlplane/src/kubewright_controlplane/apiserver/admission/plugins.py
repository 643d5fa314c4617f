"""The admission plugins of a server: those that are on by default in kube-apiserver, in its order, and some others."""

from __future__ import annotations

from kubewright_controlplane.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from kubewright_controlplane.apiserver.admission.limitranger import LimitRanger
from kubewright_controlplane.apiserver.admission.namespacelifecycle import NamespaceLifecycle
from kubewright_controlplane.apiserver.admission.nodes import TaintNodesByCondition
from kubewright_controlplane.apiserver.admission.plugin import AdmissionPlugin
from kubewright_controlplane.apiserver.admission.pods import DefaultTolerationSeconds, Priority, RuntimeClass
from kubewright_controlplane.apiserver.admission.podsecurity.plugin import PodSecurity
from kubewright_controlplane.apiserver.admission.protection import StorageObjectInUseProtection
from kubewright_controlplane.apiserver.admission.resourcequota import ResourceQuota
from kubewright_controlplane.apiserver.admission.serviceaccount import ServiceAccount
from kubewright_controlplane.apiserver.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def build_plugins(resources: ResourceSet, authorizer: Authorizer, options: ServerOptions) -> list[AdmissionPlugin]:
    """Return the plugins of a server in order, without those that its options disable."""
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(resources),
        LimitRanger(resources),
        ServiceAccount(resources),
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
        ResourceQuota(resources),
    ]
    return [plugin for plugin in plugins if plugin.name not in options.disabled_admission]
