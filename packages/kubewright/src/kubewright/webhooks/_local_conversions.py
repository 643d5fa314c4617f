"""Finds out whether an API server uses the conversion of a run; see `LocalWebhooks`.

An API server notices a changed CRD after a while. Until then it converts objects by changing their version alone, and
what is written meanwhile loses fields. So the run sends an object that its conversion refuses, as a dry run: a mutating
webhook for another version of the kind makes the API server convert it. Nothing answers at the webhook's URL.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from kubewright.apis.admissionregistration.v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    WebhookClientConfig,
)
from kubewright.client._client import Client
from kubewright.client._dynamic import Unstructured
from kubewright.machinery.errors import APIError, Forbidden
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright.models._meta import LabelSelector, ObjectMeta
from kubewright.webhooks._conversion import Conversion, ConversionError
from kubewright.webhooks._local_objects import (
    PROBE_LABEL,
    PROBE_PREFIX,
    answers_to,
    delete_own,
    of_run,
)

_CONVERTED: Final = "the conversion of this run is called"


class ProbedConversion(Conversion[Any]):
    """A conversion that refuses the probe of a run, and so shows that it is called."""

    def __init__(self, conversion: Conversion[Any], run: str) -> None:
        super().__init__(conversion.hub, *conversion.spokes)
        self._run = run.encode()

    def convert_document(self, data: bytes, version: str) -> JSONObject:
        """Convert an object as the conversion of the program does. Raises ConversionError for the probe."""
        if self._run in data:
            raise ConversionError(_CONVERTED)
        return super().convert_document(data, version)


def probe_name(prefix: str) -> str:
    """Return the name of the configuration that makes an API server convert the probe."""
    return f"{prefix}conversion-probe"


async def until_converted(client: Client, conversion: Conversion[Any], *, prefix: str, url: str, run: str) -> str:
    """Wait until the API server converts objects by this run. Returns why that is not known; empty if it is.

    prefix: the start of the configuration's name. url: where nothing answers.
    """
    served = [kind.__api__ for kind in conversion.kinds if kind.__served_as__.served]
    if len(served) < 2:
        return ""
    reviewed, sent = served[:2]
    name = probe_name(prefix)
    try:
        await client.apply(_configuration(name, reviewed, url, run))
        return await _probe(client, sent, run)
    except Forbidden as error:
        return str(error)
    finally:
        with suppress(APIError):
            await delete_own(client, MutatingWebhookConfiguration, name, run)


async def _probe(client: Client, sent: APIResource, run: str) -> str:
    metadata = ObjectMeta(generate_name=PROBE_PREFIX, labels={PROBE_LABEL: run})
    if sent.namespaced:
        metadata.namespace = "default"
    last = "it accepts the object that the conversion refuses"
    async for answer in answers_to(Unstructured.of(sent)(metadata=metadata), client):
        if isinstance(answer, APIError):
            last = str(answer)
            if _CONVERTED in last:
                return ""
    return last


def _configuration(name: str, reviewed: APIResource, url: str, run: str) -> MutatingWebhookConfiguration:
    rule = RuleWithOperations(
        operations=["CREATE"],
        api_groups=[reviewed.group],
        api_versions=[reviewed.version],
        resources=[reviewed.plural],
    )
    webhook = MutatingWebhook(
        name="conversion.local.kubewright.dev",
        admission_review_versions=["v1"],
        client_config=WebhookClientConfig(url=url),
        failure_policy="Fail",
        match_policy="Equivalent",
        object_selector=LabelSelector(match_labels={PROBE_LABEL: run}),
        rules=[rule],
        side_effects="None",
        timeout_seconds=1,
    )
    metadata = ObjectMeta(name=name, annotations=of_run(run))
    return MutatingWebhookConfiguration(metadata=metadata, webhooks=[webhook])
