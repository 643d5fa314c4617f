"""The certificates of a bundle's webhooks: Secrets where OLM has them, made and renewed by each run.

Each run takes the next step of a rotation that is due; see `kubewright.webhooks._certificates`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kubewright.apis.core.v1 import Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client
from kubewright.webhooks._certificates import Certificates
from kubewright_cli.deployment.objects import Change, Outcome, called
from kubewright_cli.installation.render import OWNER


@dataclass(frozen=True, slots=True)
class WebhookCertificates:
    """The certificates of an installation, by the names of their Secrets."""

    found: Mapping[str, Certificates]
    changes: tuple[Change, ...] = ()

    @property
    def bundles(self) -> dict[str, bytes]:
        """The CAs to trust, in PEM."""
        return {name: each.bundle for name, each in self.found.items()}

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the certificates of the servers."""
        return {name: _digest(each.certificate) for name, each in self.found.items()}

    @property
    def trusted(self) -> dict[str, str]:
        """Digests of the CAs to trust."""
        return {name: _digest(each.bundle) for name, each in self.found.items()}

    @property
    def ends(self) -> datetime | None:
        """When the first of them ends; None if there are none."""
        return min((each.expirations["server"] for each in self.found.values()), default=None)


async def ensure_certificates(
    client: Client, secrets: Mapping[str, tuple[str, ...]], *, namespace: str, owner: str, trusted: Mapping[str, str]
) -> WebhookCertificates:
    """Make the certificates that do not exist, and take the step of a rotation that is due for the others.

    `secrets` has the hosts of each. `trusted` has digests of the CAs that the API server trusts. Raises ConfigError if
    `cryptography` is not installed.
    """
    found: dict[str, Certificates] = {}
    changes: list[Change] = []
    for name, hosts in secrets.items():
        before = await client.get_or_none(Secret, name, namespace=namespace)
        own = _next(before, hosts, client.clock.now(), trusted.get(name, ""))
        found[name] = own
        metadata = ObjectMeta(name=name, namespace=namespace, annotations={OWNER: owner})
        after = await client.apply(Secret(metadata=metadata, type="kubernetes.io/tls", data=own.data))
        is_same = before is not None and before.metadata.resource_version == after.metadata.resource_version
        outcome: Outcome = "created" if before is None else "unchanged" if is_same else "configured"
        changes.append(Change(called(Secret.__api__, name, namespace), outcome))
    return WebhookCertificates(found, tuple(changes))


def _next(secret: Secret | None, hosts: tuple[str, ...], now: datetime, trusted: str) -> Certificates:
    if secret is None:
        return Certificates.made(hosts, now)
    try:
        current = Certificates.read(secret.data)
    except ValueError:  # damaged, so new ones are needed in any case
        return Certificates.made(hosts, now)
    return current.advanced(hosts, now, trusted=_digest(current.bundle) == trusted)


def _digest(pem: bytes) -> str:
    return hashlib.sha256(pem).hexdigest()[:16]
