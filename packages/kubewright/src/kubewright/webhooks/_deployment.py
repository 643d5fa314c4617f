"""The names of the objects by which an API server reaches the webhooks of a deployed manager."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubewright.webhooks._conversion import Conversion
from kubewright.webhooks._declaration import AdmissionWebhook
from kubewright.webhooks._names import (
    CERTIFICATE_SECRET,
    CONVERT_PATH,
    MUTATING_CONFIGURATION,
    SERVICE,
    VALIDATING_CONFIGURATION,
)
from kubewright.webhooks._webhooks import Webhook


class WebhookObjects(msgspec.Struct, frozen=True):
    """The names of objects, as manifests have them and `ManagedCertificate` expects them."""

    service: str
    secret: str
    """The Secret with the certificate."""
    mutating_configuration: str
    """Empty if no webhook is mutating."""
    validating_configuration: str
    """Empty if no webhook is validating."""
    definitions: tuple[str, ...]
    """The CustomResourceDefinitions whose objects are converted."""
    mutating: tuple[str, ...]
    """The names of the mutating webhooks, in the order of their configuration."""
    validating: tuple[str, ...]
    """The names of the validating webhooks, in the order of their configuration."""
    paths: tuple[str, ...]
    """The paths of all webhooks, `/convert` last."""


def webhook_objects(webhooks: Sequence[Webhook], *, prefix: str = "") -> WebhookObjects:
    """Return the names of the objects by which an API server reaches `webhooks`.

    prefix: the start of the names of the Service, the Secret and the configurations: the `namePrefix` of kustomize.
    """
    admission = sorted((each for each in webhooks if isinstance(each, AdmissionWebhook)), key=lambda each: each.name)
    mutating = tuple(each.name for each in admission if each.registration.mutating)
    validating = tuple(each.name for each in admission if not each.registration.mutating)
    apis = [each.hub.__api__ for each in webhooks if isinstance(each, Conversion)]
    return WebhookObjects(
        service=f"{prefix}{SERVICE}",
        secret=f"{prefix}{CERTIFICATE_SECRET}",
        mutating_configuration=f"{prefix}{MUTATING_CONFIGURATION}" if mutating else "",
        validating_configuration=f"{prefix}{VALIDATING_CONFIGURATION}" if validating else "",
        definitions=tuple(sorted(f"{each.plural}.{each.group}" for each in apis)),
        mutating=mutating,
        validating=validating,
        paths=(*(each.path for each in admission), *((CONVERT_PATH,) if apis else ())),
    )
