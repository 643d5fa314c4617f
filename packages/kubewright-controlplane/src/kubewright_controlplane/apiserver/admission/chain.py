"""The chain of plugins that each write goes through.

They are those of kube-apiserver that are on by default and that operators meet, in its order. Webhooks and
admission policies come later; until then their configurations are refused (`kinds.admissionregistration`).
"""

from __future__ import annotations

from collections.abc import Container

from kubewright_controlplane.apiserver.admission.limitranger import LimitRanger
from kubewright_controlplane.apiserver.admission.namespacelifecycle import NamespaceLifecycle
from kubewright_controlplane.apiserver.admission.pods import DefaultTolerationSeconds, Priority, RuntimeClass
from kubewright_controlplane.apiserver.admission.protection import StorageObjectInUseProtection
from kubewright_controlplane.apiserver.admission.resourcequota import ResourceQuota
from kubewright_controlplane.apiserver.admission.serviceaccount import ServiceAccount
from kubewright_controlplane.apiserver.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kubewright_controlplane.apiserver.registry.attributes import AdmissionPlugin
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def build_chain(resources: ResourceSet, disabled: Container[str]) -> list[AdmissionPlugin]:
    """The chain of a server, without the plugins that are `disabled`."""
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(resources),
        LimitRanger(resources),
        ServiceAccount(resources),
        Priority(resources),
        DefaultTolerationSeconds(),
        RuntimeClass(resources),
        DefaultStorageClass(resources),
        StorageObjectInUseProtection(resources),
        PersistentVolumeClaimResize(resources),
        ResourceQuota(resources),
    ]
    return [plugin for plugin in plugins if plugin.name not in disabled]
