"""Declares that a manager makes the certificate of its webhooks itself, without cert-manager."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from kubewright.client._client import Client
from kubewright.machinery.errors import ConfigError
from kubewright.models._rbac import PolicyRule
from kubewright.webhooks._deployment import WebhookObjects, webhook_objects
from kubewright.webhooks._provider import ServerCertificate
from kubewright.webhooks._webhooks import Webhook

_BY_NAME = ["get", "list", "watch"]


class ManagedCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that the manager makes itself, renews, and makes API servers trust.

        Manager(webhooks=[check], webhook_certificate=ManagedCertificate(prefix="shop-"))

    The CA and the certificate are in a Secret, which all replicas share. Its type is kubernetes.io/tls. The CA is
    written into `caBundle` of the manager's own configurations and CRDs, and written again if it is changed. Both are
    renewed 90 days before they end, in steps during which no request fails. A replica is ready when API servers trust
    its certificate.

    Needs `pip install 'kubewright[tls]'`, and the rules of `Manager.rbac_rules` and
    `Manager.webhook_certificate_rules`.

    Follows open-policy-agent/cert-controller.
    """

    prefix: str = ""
    """The start of the names of the Service, the Secret and the configurations; see `webhook_objects`."""
    namespace: str = ""
    """The namespace of the Service and the Secret. Default: that of the manager."""
    hosts: Sequence[str] = ()
    """Names and IP addresses of the server, in addition to those of the Service."""

    def __post_init__(self) -> None:
        if isinstance(self.hosts, str):
            raise ConfigError(f'ManagedCertificate: hosts={self.hosts!r}: write a list: ["{self.hosts}"]')

    def objects(self, webhooks: Sequence[Webhook]) -> WebhookObjects:
        """Return the names of the objects that it expects."""
        return webhook_objects(webhooks, prefix=self.prefix)

    def provide(
        self, client: Client, webhooks: Sequence[Webhook], namespace: str
    ) -> AbstractAsyncContextManager[ServerCertificate]:
        """Yield the certificate, and keep it and what API servers trust up to date.

        Raises ConfigError if the Secret belongs to another program, cannot be read, or may not be read or written.
        """
        return self._provided(client, webhooks, self.namespace or namespace)

    def rbac_rules(self, webhooks: Sequence[Webhook]) -> list[PolicyRule]:
        """Return the rules for the configurations and CRDs of these webhooks, by name."""
        found = self.objects(webhooks)
        admission, definitions = "admissionregistration.k8s.io", "apiextensions.k8s.io"
        named = [
            (admission, "mutatingwebhookconfigurations", [found.mutating_configuration]),
            (admission, "validatingwebhookconfigurations", [found.validating_configuration]),
            (definitions, "customresourcedefinitions", list(found.definitions)),
        ]
        return [
            PolicyRule(api_groups=[group], resources=[resource], resource_names=names, verbs=[*_BY_NAME, "patch"])
            for group, resource, names in named
            if any(names)
        ]

    def namespace_rules(self) -> list[PolicyRule]:
        """Return the rules for the Secret, by name; a Secret that is created has no name for RBAC yet."""
        secret = self.objects(()).secret
        return [
            PolicyRule(api_groups=[""], resources=["secrets"], verbs=["create"]),
            PolicyRule(api_groups=[""], resources=["secrets"], resource_names=[secret], verbs=[*_BY_NAME, "update"]),
        ]

    @asynccontextmanager
    async def _provided(
        self, client: Client, webhooks: Sequence[Webhook], namespace: str
    ) -> AsyncGenerator[ServerCertificate]:
        from kubewright.webhooks._keeper import CertificateKeeper  # loads built-in kinds

        keeper = CertificateKeeper(client, self.objects(webhooks), namespace, self.hosts)
        async with keeper.running() as certificate:
            yield certificate
