"""One call of one webhook about one write: from its conditions to what its answer or its failure means."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable
from itertools import islice
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import BadRequest
from kubewright_controlplane.apiserver.admission.matching import Candidate
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Webhook
from kubewright_controlplane.apiserver.admission.webhooks.review import (
    Answer,
    WebhookFailed,
    decode_answer,
    encode_review,
)
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer
from kubewright_controlplane.apiserver.endpoints.worker import Steps
from kubewright_controlplane.apiserver.registry.conversions import settle
from kubewright_controlplane.apiserver.registry.failures import internal_error
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.webhooks.client import CallFailed, InvalidClientConfig, WebhookClients

_log = get_logger(__name__)

_MOST_ANNOTATIONS: Final = 100
"""Audit annotations of one answer that are logged."""
_MATCHED_AT_ONCE: Final = 64
"""The number of webhooks that are matched with a write before others are served."""


class WebhookCaller:
    """Decides whether a webhook concerns a write, and asks it."""

    def __init__(self, resources: ResourceSet, authorizer: Authorizer, clients: WebhookClients) -> None:
        self._resources = resources
        self._authorizer = authorizer
        self._clients = clients

    async def concerned(
        self, candidates: Iterable[Candidate[Webhook]], attributes: Attributes
    ) -> AsyncGenerator[tuple[Webhook, VersionedAttributes], None]:
        """Yield the webhooks that the write concerns, each with the write as it sees it at this moment.

        Raises NotFound for a namespace that does not exist, and Forbidden for match conditions without a value.
        """
        for number, candidate in enumerate(candidates, 1):
            write = await self._seen_by(candidate, attributes)
            if write is not None:
                yield candidate.item, write
            if number % _MATCHED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _seen_by(self, candidate: Candidate[Webhook], attributes: Attributes) -> VersionedAttributes | None:
        """Return the write as the webhook sees it; None if the webhook does not concern it."""
        version = candidate.match(attributes, self._resources)
        if version is None:
            return None
        write, conditions = VersionedAttributes(attributes, version), candidate.item.conditions
        matches = not conditions or await settle(lambda: conditions.match(write, self._authorizer))
        return write if matches else None

    async def ask(self, webhook: Webhook, write: VersionedAttributes, *, mutating: bool) -> Answer | None:
        """Return the answer of a webhook that allows the write; None if it failed and its failures are ignored.

        Its warnings are passed on. Raises the error of a denial, InternalError for a failure that is not ignored, and
        BadRequest for a dry run that the webhook does not support.
        """
        if write.attributes.dry_run and not webhook.supports_dry_run:
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        try:
            answer = await self._call(webhook, write, mutating=mutating)
        except WebhookFailed as error:
            text = f'failed calling webhook "{webhook.name}": {error}'
            if webhook.ignores_failures:
                _log.warning("Webhook failed, ignored", webhook=webhook.name, error=str(error))
                return None
            raise internal_error(text) from error
        for key, value in islice(answer.audit_annotations.items(), _MOST_ANNOTATIONS):
            _log.info("Audit annotation recorded", key=f"{webhook.name}/{key}", value=value)
        write.attributes.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise answer.denial(webhook)
        return answer

    async def _call(self, webhook: Webhook, write: VersionedAttributes, *, mutating: bool) -> Answer:
        version, uid = webhook.review_version, str(uuid.uuid4())
        if not version:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise WebhookFailed(f"could not create admission objects: {why}")
        review = await settle(lambda: encode_review(version, uid, write))
        try:
            body = await self._clients.call(webhook.client_config, webhook.timeout, review)
        except InvalidClientConfig as error:
            raise WebhookFailed(str(error)) from error
        except CallFailed as error:
            raise WebhookFailed(f"failed to call webhook: {error}") from error
        size = max(len(body), len(review))
        steps = self.steps(webhook, size)
        return await steps.run(lambda: decode_answer(version, uid, body, size, mutating=mutating))

    def steps(self, webhook: Webhook, size: int) -> Steps:
        """Return how steps run whose cost depends on the bytes of a webhook's answer, or of its review."""
        return self._clients.steps(webhook.name, size)
