"""The webhooks of a server."""

from __future__ import annotations

from typing import Final

from kubewright_controlplane.apiserver.admission.review import Reviewer
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Configurations
from kubewright_controlplane.apiserver.admission.webhooks.mutating import MutatingWebhooks
from kubewright_controlplane.apiserver.admission.webhooks.validating import ValidatingWebhooks
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients

_GROUP: Final = "admissionregistration.k8s.io"


class Webhooks:
    """The reviewers that call webhooks."""

    def __init__(self, resources: ResourceSet, authorizer: Authorizer, clients: WebhookClients) -> None:
        caller = WebhookCaller(resources, authorizer, clients)
        mutating = Configurations(resources, f"mutatingwebhookconfigurations.{_GROUP}")
        validating = Configurations(resources, f"validatingwebhookconfigurations.{_GROUP}")
        self.mutating: Reviewer = MutatingWebhooks(mutating, caller)
        self.validating: Reviewer = ValidatingWebhooks(validating, caller)
