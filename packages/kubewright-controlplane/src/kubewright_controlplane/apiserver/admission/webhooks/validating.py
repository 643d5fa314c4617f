"""Validating webhooks: called in parallel about the final object.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/validating.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubewright_controlplane.apiserver.admission.matching import Candidate
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Webhook
from kubewright_controlplane.apiserver.registry.model import Attributes


class ValidatingCalls(Stage):
    """The calls of validating webhooks for one write."""

    def __init__(self, attributes: Attributes, candidates: Sequence[Candidate[Webhook]], caller: WebhookCaller) -> None:
        self._attributes = attributes
        self._candidates = candidates
        self._caller = caller

    async def validate(self) -> None:
        """Ask all webhooks that the write concerns. Raises the first error by their order, once all have answered."""
        found = [each async for each in self._caller.concerned(self._candidates, self._attributes)]
        asked = [self._caller.ask(webhook, write, mutating=False) for webhook, write in found]
        if len(asked) == 1:
            await asked[0]
            return
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
