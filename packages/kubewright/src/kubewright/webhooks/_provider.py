"""Where the webhook server of a manager gets its certificate, if not from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from ssl import SSLContext
from typing import Protocol

import msgspec

from kubewright.client._client import Client
from kubewright.models._rbac import PolicyRule
from kubewright.webhooks._webhooks import Webhook


def _nothing() -> None: ...


def _not_known() -> Mapping[str, datetime]:
    return {}


class ServerCertificate(msgspec.Struct, frozen=True):
    """What a server proves its identity with."""

    context: SSLContext
    """The TLS context of the server. It may change its certificate while the server runs."""
    check: Callable[[], None] = _nothing
    """Raises ConfigError while API servers do not recognize the server. It is part of `/readyz`."""
    expirations: Callable[[], Mapping[str, datetime]] = _not_known
    """Returns when the certificates end: that of the `server`, and that of its `ca`. They become metrics."""


class CertificateProvider(Protocol):
    """Provides the certificate of the webhook server, as `ManagedCertificate` does."""

    def provide(
        self, client: Client, webhooks: Sequence[Webhook], namespace: str
    ) -> AbstractAsyncContextManager[ServerCertificate]:
        """Yield the certificate while a manager runs.

        It is entered before the webhook server starts and before the election, and left after the server has ended.
        `client` is that of the manager; its writes do not need the leader. `webhooks` are what the server serves, and
        `namespace` is that of the manager.
        """
        ...

    def rbac_rules(self, webhooks: Sequence[Webhook]) -> list[PolicyRule]:
        """Return the RBAC rules that it needs for cluster-scoped objects."""
        ...

    def namespace_rules(self) -> list[PolicyRule]:
        """Return the RBAC rules that it needs in the namespace of the manager."""
        ...
