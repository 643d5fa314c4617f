"""The chain of plugins that each write goes through.

They are those of kube-apiserver that are on by default and that operators meet, in its order. Webhooks and
admission policies come later; until then their configurations are refused (`kinds.admissionregistration`).
"""

from __future__ import annotations

from collections.abc import Container

from kubewright.apiserver.admission.limitranger import LimitRanger
from kubewright.apiserver.admission.namespacelifecycle import NamespaceLifecycle
from kubewright.apiserver.admission.pods import DefaultTolerationSeconds, Priority, RuntimeClass
from kubewright.apiserver.admission.protection import StorageObjectInUseProtection
from kubewright.apiserver.admission.resourcequota import ResourceQuota
from kubewright.apiserver.admission.serviceaccount import ServiceAccount
from kubewright.apiserver.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kubewright.apiserver.registry.attributes import AdmissionPlugin
from kubewright.apiserver.registry.resourceset import ResourceSet


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
