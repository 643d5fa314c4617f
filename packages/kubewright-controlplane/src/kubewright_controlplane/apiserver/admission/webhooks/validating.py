"""Validating webhooks: called in parallel about the final object.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/validating.
"""

from __future__ import annotations

import asyncio

from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Configurations
from kubewright_controlplane.apiserver.registry.model import Attributes


class ValidatingWebhooks:
    """Calls the webhooks of the stored ValidatingWebhookConfigurations."""

    def __init__(self, configurations: Configurations, caller: WebhookCaller) -> None:
        self._configurations = configurations
        self._caller = caller

    def may_concern(self, attributes: Attributes) -> bool:
        """Return whether a rule of any webhook matches the operation and the resource."""
        return bool(self._configurations.candidates.of(attributes))

    async def validate(self, attributes: Attributes) -> None:
        """Ask all webhooks that the write concerns. Raises the first error by their order, once all have answered."""
        found = [
            (candidate.item, self._caller.concerned(candidate, attributes))
            for candidate in self._configurations.candidates.of(attributes)
        ]
        asked = [
            self._caller.ask(webhook, write, mutating=False) for webhook, write in found if write is not None
        ]  # fmt: skip
        if len(asked) == 1:
            await asked[0]
            return
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
