"""The webhooks of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.http.message import Handler
from kubewright_controlplane.apiserver.admission.review import Reviewer
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.client import WebhookClients
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Configurations
from kubewright_controlplane.apiserver.admission.webhooks.mutating import MutatingWebhooks
from kubewright_controlplane.apiserver.admission.webhooks.services import ServiceResolver
from kubewright_controlplane.apiserver.admission.webhooks.validating import ValidatingWebhooks
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_GROUP: Final = "admissionregistration.k8s.io"


class Webhooks:
    """The reviewers that call webhooks, and their connections."""

    def __init__(self, resources: ResourceSet, authorizer: Authorizer, handlers: Mapping[str, Handler]) -> None:
        """`handlers` are the webhooks that run in this process, by host name."""
        self._clients = WebhookClients(ServiceResolver(resources), handlers)
        caller = WebhookCaller(resources, authorizer, self._clients)
        mutating = Configurations(resources, f"mutatingwebhookconfigurations.{_GROUP}")
        validating = Configurations(resources, f"validatingwebhookconfigurations.{_GROUP}")
        self.mutating: Reviewer = MutatingWebhooks(mutating, caller)
        self.validating: Reviewer = ValidatingWebhooks(validating, caller)

    async def close(self) -> None:
        """Close all connections to webhooks."""
        await self._clients.close()
