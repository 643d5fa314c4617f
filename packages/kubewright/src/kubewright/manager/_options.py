"""The options of a manager, as one value that does not change while the manager runs."""

from __future__ import annotations

import math
from argparse import Namespace as Flags
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from kubewright._runtime.clock import Clock, SystemClock
from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Scope
from kubewright.cache._store import Namespaces
from kubewright.client._config import Config
from kubewright.client._transport import Transport
from kubewright.controllers._controller import Controller
from kubewright.controllers._fuse import DeleteFuse
from kubewright.machinery._suggestions import shown
from kubewright.machinery.errors import ConfigError
from kubewright.manager._certificates import Certificate, SelfSigned
from kubewright.manager._leader import LeaderElection
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from kubewright.policies import LocalPolicies, Policy
    from kubewright.webhooks import CertificateProvider, LocalWebhooks, Webhook

EVENTS_RULE: Final = PolicyRule(api_groups=["events.k8s.io"], resources=["events"], verbs=["create", "patch"])
"""What a manager needs to write Events."""


class ManagerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a `Manager` was created with; `Manager` documents each option.

    Raises ConfigError for options that contradict each other.
    """

    controllers: tuple[Controller[Any], ...] = ()
    name: str = ""
    config: Config | None = None
    transport: Transport | None = None
    namespaces: Namespaces = None
    scopes: Mapping[type[Object], Scope] = msgspec.field(default_factory=dict[type[Object], Scope])
    leader_election: LeaderElection | None = None
    health_address: str | None = None
    metrics_address: str | None = None
    metrics_secure: Certificate | SelfSigned | None = None
    webhooks: tuple[Webhook, ...] = ()
    webhook_port: int | None = None
    webhook_certificate: Certificate | CertificateProvider | None = None
    webhook_client_ca: Path | None = None
    webhook_registration: LocalWebhooks | None = None
    policies: tuple[Policy, ...] = ()
    policy_registration: LocalPolicies | None = None
    wait_for_kinds: bool = False
    delete_fuse: DeleteFuse | None = None
    allow_mass_deletion: bool = False
    tracer_provider: TracerProvider | None = None
    graceful_timeout: float = 30.0
    """In seconds."""
    flags: Flags = msgspec.field(default_factory=Flags)
    clock: Clock = msgspec.field(default_factory=SystemClock)
    is_program: bool = False
    """Whether `main` runs the manager."""

    def __post_init__(self) -> None:
        parts = {"config": Config, "leader_election": LeaderElection, "delete_fuse": DeleteFuse}
        for name, wanted in parts.items():
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, wanted):
                called = wanted.__name__
                raise ConfigError(f"Manager: {name} takes a {called}, got {shown(value)}: write {name}={called}(...)")
        if self.namespaces is not None and not (self.namespaces and all(self.namespaces)):
            fault = "an empty name" if "" in self.namespaces else "no name"
            raise ConfigError(
                f"Manager: namespaces={self.namespaces!r} has {fault}; leave namespaces out to work in all of them"
            )
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
        if self.policies:
            from kubewright.policies._declaration import check_policies

            check_policies(self.policies)
        if self.webhook_port is not None and not -1 <= self.webhook_port <= 65535:
            raise ConfigError(
                f"Manager: webhook_port={self.webhook_port}: write a port, 0 for any free port, or -1 for no server"
            )

    async def local_webhooks(self, config: Config | None) -> LocalWebhooks | None:
        """Return how an API server on this machine calls the webhooks: by default unless `main` runs the manager.

        `config` is that of the API server. Raises ConfigError if the API server cannot reach this process.
        """
        if not self.webhooks or self.webhook_port == -1:
            return None
        from kubewright.webhooks._local import LocalWebhooks, is_this_machine

        asked = self.webhook_registration
        if asked is None and self.webhook_port is not None:
            return None
        if (asked is not None and asked.url) or config is None:
            return asked
        if await is_this_machine(config.server):
            return asked or LocalWebhooks()
        if asked is not None:
            raise ConfigError(
                f"the API server {config.server} is not on this machine and cannot call webhooks on 127.0.0.1; give "
                f"LocalWebhooks(url=...) or --webhook-url an address of this process that it reaches, "
                f"https://host:port, or run without webhooks: --webhook-port=-1"
            )
        get_logger("kubewright.manager.webhooks").warning(
            "Webhooks not served", reason=f"the API server {config.server} is not on this machine"
        )
        return None

    async def local_policies(self, config: Config | None) -> LocalPolicies | None:
        """Return how the policies are registered while the manager runs: by default if the API server is on this
        machine, unless `main` runs the manager.
        """
        if not self.policies:
            return None
        from kubewright.policies import LocalPolicies
        from kubewright.webhooks._local import is_this_machine

        if self.policy_registration is not None:
            return self.policy_registration
        if self.is_program or config is None:
            return None
        if not await is_this_machine(config.server):
            get_logger("kubewright.manager").warning(
                "Policies not registered", reason=f"the API server {config.server} is not on this machine"
            )
            return None
        return LocalPolicies(config=self.webhook_registration.config if self.webhook_registration is not None else None)

    @property
    def cached_kinds(self) -> list[type[Object]]:
        """All kinds that the cache contains."""
        of_controllers = [kind for each in self.controllers for kind in each.cached_kinds]
        of_webhooks = [kind for each in self.webhooks for kind in each.cached]
        return list(dict.fromkeys([*of_controllers, *of_webhooks]))

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the rules of the manager's role: what controllers and webhooks declare, and Events."""
        declared = [rule for each in (*self.controllers, *self.webhooks) for rule in each.rbac_rules()]
        return [*declared, EVENTS_RULE, *self._certificate_rules()]

    def _certificate_rules(self) -> list[PolicyRule]:
        provider = self.webhook_certificate
        if not self.webhooks or provider is None or isinstance(provider, Certificate):
            return []
        return provider.rbac_rules(self.webhooks)

    def webhook_certificate_rules(self) -> list[PolicyRule]:
        """Return the rules of the role in the manager's namespace that the certificate of the webhooks needs."""
        provider = self.webhook_certificate
        if not self.webhooks or provider is None or isinstance(provider, Certificate):
            return []
        return provider.namespace_rules()


def checked(controllers: Sequence[Controller[Any]]) -> tuple[Controller[Any], ...]:
    """Return the controllers. Raises ConfigError if they are not a list, or one of them is not a controller."""
    given: object = controllers
    if isinstance(given, Controller):
        raise ConfigError(f"Manager takes a list of controllers: write Manager([{given.reconcile.__name__}])")
    if not isinstance(given, Collection) or isinstance(given, str):
        raise ConfigError(f"Manager takes a list of controllers, got {shown(given)}: write Manager([...])")
    for each in cast("Collection[object]", given):
        if not isinstance(each, Controller):
            raise ConfigError(
                f"Manager takes a list of controllers, and {shown(each)} is none: "
                "decorate the reconcile function with @controller(Kind)"
            )
    return tuple(controllers)


def default_name(controllers: Sequence[Controller[Any]]) -> str:
    """Return the name of a manager that was given none: the first controller's name and API group."""
    if not controllers:
        return "kubewright"
    first = controllers[0]
    return f"{first.name}.{first.kind.__api__.group}".rstrip(".")
