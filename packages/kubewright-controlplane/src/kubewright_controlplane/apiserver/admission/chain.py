"""The chain of admission plugins that each write passes through.

The plugins are those of kube-apiserver that are on by default and matter to operators, in its order. Reviewers are
configured by objects, and a request may have to wait for them: policies and webhooks.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from kubewright_controlplane.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from kubewright_controlplane.apiserver.admission.limitranger import LimitRanger
from kubewright_controlplane.apiserver.admission.namespacelifecycle import NamespaceLifecycle
from kubewright_controlplane.apiserver.admission.nodes import TaintNodesByCondition
from kubewright_controlplane.apiserver.admission.plugin import AdmissionPlugin, Plugin
from kubewright_controlplane.apiserver.admission.pods import DefaultTolerationSeconds, Priority, RuntimeClass
from kubewright_controlplane.apiserver.admission.protection import StorageObjectInUseProtection
from kubewright_controlplane.apiserver.admission.resourcequota import ResourceQuota
from kubewright_controlplane.apiserver.admission.review import Reviewer, StagedReview
from kubewright_controlplane.apiserver.admission.serviceaccount import ServiceAccount
from kubewright_controlplane.apiserver.admission.storageclass import DefaultStorageClass, PersistentVolumeClaimResize
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.model import Attributes, Review
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


class Chain:
    """Plugins in order. Starts empty, because plugins need the ResourceSet, which needs the chain."""

    def __init__(self) -> None:
        self._mutating = _ByResource()
        self._validating = _ByResource()
        self._reviewers: list[Reviewer] = []

    def use(self, plugins: Sequence[AdmissionPlugin]) -> None:
        """Let writes pass through these plugins, in order. Each is called only for methods that it overrides."""
        self._mutating = _ByResource(each for each in plugins if type(each).admit is not Plugin.admit)
        self._validating = _ByResource(each for each in plugins if type(each).validate is not Plugin.validate)

    def add_reviewers(self, reviewers: Iterable[Reviewer]) -> None:
        """Add reviewers at the end."""
        self._reviewers.extend(reviewers)

    def review(self, attributes: Attributes) -> Review | None:
        """Return the review by the webhooks and policies that may concern the write; None if there are none."""
        stages = [stage for each in self._reviewers if (stage := each.begin(attributes)) is not None]
        return StagedReview(self, attributes, stages) if stages else None

    def admit(self, attributes: Attributes) -> None:
        """Let each plugin change the object. Raises the error of the first plugin that rejects it."""
        for plugin in self._mutating.of(attributes):
            plugin.admit(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Let each plugin check the final object. Raises the error of the first plugin that rejects it."""
        for plugin in self._validating.of(attributes):
            plugin.validate(attributes)


class _ByResource:
    """Plugins in order, for the resources whose writes they see."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        plugins = list(plugins)
        self._general = [each for each in plugins if not each.only_for]
        self._special = {
            resource: [each for each in plugins if not each.only_for or resource in each.only_for]
            for resource in {name for each in plugins for name in each.only_for}
        }

    def of(self, attributes: Attributes) -> Sequence[AdmissionPlugin]:
        """Return the plugins that see a write."""
        return self._special.get(attributes.resource.qualified, self._general)


def default_plugins(resources: ResourceSet, authorizer: Authorizer, disabled: Container[str]) -> list[AdmissionPlugin]:
    """Return the plugins of a server, without the `disabled` ones."""
    plugins: list[AdmissionPlugin] = [
        NamespaceLifecycle(resources),
        LimitRanger(resources),
        ServiceAccount(resources),
        TaintNodesByCondition(),
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
    return [plugin for plugin in plugins if plugin.name not in disabled]
