"""The reviewers that call the webhooks of a server."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from kubewright_controlplane.apiserver.admission.matching import Candidate
from kubewright_controlplane.apiserver.admission.review import Reviewer, Stage
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Configurations, Webhook
from kubewright_controlplane.apiserver.admission.webhooks.mutating import MutatingCalls
from kubewright_controlplane.apiserver.admission.webhooks.validating import ValidatingCalls
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients

_GROUP: Final = "admissionregistration.k8s.io"


class Webhooks:
    """The reviewers that call the webhooks of the stored configurations, without the `disabled` ones."""

    def __init__(
        self, resources: ResourceSet, authorizer: Authorizer, clients: WebhookClients, disabled: Container[str]
    ) -> None:
        caller = WebhookCaller(resources, authorizer, clients)
        mutating = Configurations(resources, f"mutatingwebhookconfigurations.{_GROUP}")
        validating = Configurations(resources, f"validatingwebhookconfigurations.{_GROUP}")
        calls_mutating = "MutatingAdmissionWebhook" not in disabled
        calls_validating = "ValidatingAdmissionWebhook" not in disabled
        self.mutating: Sequence[Reviewer] = [_WebhookReviewer(mutating, caller, MutatingCalls)] * calls_mutating
        self.validating: Sequence[Reviewer] = [_WebhookReviewer(validating, caller, ValidatingCalls)] * calls_validating


class _WebhookReviewer:
    def __init__(
        self,
        configurations: Configurations,
        caller: WebhookCaller,
        calls: Callable[[Attributes, Sequence[Candidate[Webhook]], WebhookCaller], Stage],
    ) -> None:
        self._configurations = configurations
        self._caller = caller
        self._calls = calls

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return the calls for a write; None if no rule of any webhook matches it."""
        candidates = self._configurations.candidates.of(attributes)
        return self._calls(attributes, candidates, self._caller) if candidates else None
