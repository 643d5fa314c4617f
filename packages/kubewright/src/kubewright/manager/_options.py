"""The options of a manager, as one value that does not change while the manager runs."""

from __future__ import annotations

import math
from argparse import Namespace as Flags
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.cache._cache import Scope
from kubewright.cache._selection import Namespaces
from kubewright.client._config import Config
from kubewright.client._transport import Transport
from kubewright.controllers._controller import Controller
from kubewright.controllers._fuse import DeleteFuse
from kubewright.machinery.errors import ConfigError
from kubewright.manager._certificates import Certificate, SelfSigned
from kubewright.manager._leader import LeaderElection
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from kubewright.manager._certificates import CertificateProvider
    from kubewright.webhooks import Webhook

EVENTS_RULE: Final = PolicyRule(api_groups=["events.k8s.io"], resources=["events"], verbs=["create", "patch"])
"""What a manager needs to write Events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """What a `Manager` was created with; `Manager` documents each option.

    Raises ConfigError for options that contradict each other.
    """

    controllers: tuple[Controller[Any], ...] = ()
    name: str = ""
    config: Config | None = None
    transport: Transport | None = None
    namespaces: Namespaces = None
    scopes: Mapping[type[Object], Scope] = field(default_factory=dict[type[Object], Scope])
    leader_election: LeaderElection | None = None
    health_address: str | None = None
    metrics_address: str | None = None
    metrics_secure: Certificate | SelfSigned | None = None
    webhooks: tuple[Webhook, ...] = ()
    webhook_port: int | None = None
    webhook_certificate: Certificate | CertificateProvider | None = None
    wait_for_kinds: bool = False
    delete_fuse: DeleteFuse | None = None
    allow_mass_deletion: bool = False
    tracer_provider: TracerProvider | None = None
    graceful_timeout: float = 30.0
    """In seconds."""
    flags: Flags = field(default_factory=Flags)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if self.config is not None and self.transport is not None:
            raise ConfigError("Manager: config and transport are two ways to the API server; give one of them")
        if not 0 <= self.graceful_timeout < math.inf:
            raise ConfigError(f"Manager: graceful_timeout must not be negative, got {self.graceful_timeout:g} s")
        names = Counter(each.name for each in self.controllers)
        duplicates = ", ".join(name for name, count in names.items() if count > 1)
        if duplicates:
            raise ConfigError(
                f"two controllers are named {duplicates}: their metrics and logs could not be distinguished; give one "
                f"of them another name, @controller(..., name=...)"
            )

        if self.webhooks:
            from kubewright.webhooks._webhooks import check_webhooks

            check_webhooks(self.webhooks)
        if self.webhook_port is not None and not -1 <= self.webhook_port <= 65535:
            raise ConfigError(
                f"Manager: webhook_port={self.webhook_port}: write a port, 0 for any free port, or -1 for no server"
            )

    @property
    def serves_webhooks(self) -> bool:
        """Whether there is a webhook server."""
        return bool(self.webhooks) and self.webhook_port is not None and self.webhook_port >= 0

    @property
    def serves_conversions(self) -> bool:
        """Whether there is a webhook server that converts objects."""
        if not self.serves_webhooks:
            return False
        from kubewright.webhooks import Conversion

        return any(isinstance(each, Conversion) for each in self.webhooks)

    @property
    def cached_kinds(self) -> list[type[Object]]:
        """All kinds that the cache contains."""
        of_controllers = [kind for each in self.controllers for kind in each.cached_kinds]
        of_webhooks = [kind for each in self.webhooks for kind in each.cached]
        return list(dict.fromkeys([*of_controllers, *of_webhooks]))

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the rules of the manager's role: what controllers and webhooks declare, and Events."""
        return [rule for each in (*self.controllers, *self.webhooks) for rule in each.rbac_rules()] + [EVENTS_RULE]


def default_name(controllers: Sequence[Controller[Any]]) -> str:
    """Return the name of a manager that was given none: the first controller's name and API group."""
    if not controllers:
        return "kubewright"
    first = controllers[0]
    return f"{first.name}.{first.kind.__api__.group}".rstrip(".")
