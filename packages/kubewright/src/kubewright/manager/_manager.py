"""Runs controllers as one process, from configuration to graceful stop.

Start
    1. The health and metrics servers.
    2. The webhook server, if any: the lists of the caches may need its conversions. Reviews wait for step 4.
    3. The checks: the API server serves the kinds, and this user has the declared permissions.
    4. The caches, then the lifespan's resources.
    5. Leader election, if any. Caches run before it, so that a standby is warm, and its webhooks answer.
    6. The controllers.
Stop
    Controllers take no more work, and reconciles that run finish within `graceful_timeout`. Then the Lease is released,
    reviews that run finish, and the resources, the caches and the other servers close, in this order.

A Manager has no process-wide state: one process can run several.

Follows controller-runtime's pkg/manager.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

from kubewright._runtime.clock import Clock, SystemClock
from kubewright._runtime.service import in_background
from kubewright.cache._cache import Scope
from kubewright.cache._client import CachedClient
from kubewright.cache._store import Namespaces
from kubewright.client._config import Config
from kubewright.client._transport import Transport
from kubewright.controllers._context import resource_of
from kubewright.controllers._controller import Controller
from kubewright.controllers._fuse import DeleteFuse
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.time import Seconds, seconds
from kubewright.manager._certificates import Certificate, SelfSigned
from kubewright.manager._leader import LEASE_RULE, LeaderElection
from kubewright.manager._metrics import Metrics
from kubewright.manager._options import EVENTS_RULE, ManagerOptions, checked, default_name
from kubewright.manager._run import Run, Runnables
from kubewright.manager._serving import METRICS_AUTH_RULES, METRICS_READER_RULES, Probes
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from kubewright.policies import LocalPolicies, Policy
    from kubewright.webhooks import CertificateProvider, LocalWebhooks, Webhook

R = TypeVar("R")

Runnable: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""A function that runs next to the controllers: called once, cancelled at the stop."""

Lifespan: TypeAlias = "Callable[[Manager], AbstractAsyncContextManager[object]]"
"""A function that opens shared resources: usually one with `@asynccontextmanager` that takes the manager."""


class ManagerChanges(TypedDict, total=False):
    """The arguments of `Manager.replace`; each means what it means to `Manager`."""

    controllers: Sequence[Controller[Any]]
    name: str
    config: Config | None
    transport: Transport | None
    namespaces: Namespaces
    scopes: Mapping[type[Object], Scope] | None
    lifespan: Lifespan | None
    leader_election: LeaderElection | None
    health_address: str | None
    metrics_address: str | None
    metrics_secure: Certificate | SelfSigned | None
    webhooks: Sequence[Webhook]
    webhook_port: int | None
    webhook_certificate: Certificate | CertificateProvider | None
    webhook_client_ca: Path | str | None
    webhook_registration: LocalWebhooks | None
    policies: Sequence[Policy]
    policy_registration: LocalPolicies | None
    wait_for_kinds: bool
    delete_fuse: DeleteFuse | None
    allow_mass_deletion: bool
    tracer_provider: TracerProvider | None
    graceful_timeout: Seconds
    parser: argparse.ArgumentParser | None
    flags: argparse.Namespace | None
    clock: Clock | None


class Manager:
    """Controllers, and what they need to run.

    `main` runs it as a program. Within another program or a test, it runs as long as a block lasts:

        async with Manager([reconcile], config=config) as manager:
            ...

    The block begins when the manager is ready. At its end the manager stops gracefully. A failure of the manager
    cancels the block and is raised from it.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]] = (),
        *,
        name: str = "",
        config: Config | None = None,
        transport: Transport | None = None,
        namespaces: Namespaces = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        lifespan: Lifespan | None = None,
        leader_election: LeaderElection | None = None,
        health_address: str | None = None,
        metrics_address: str | None = None,
        metrics_secure: Certificate | SelfSigned | None = None,
        webhooks: Sequence[Webhook] = (),
        webhook_port: int | None = None,
        webhook_certificate: Certificate | CertificateProvider | None = None,
        webhook_client_ca: Path | str | None = None,
        webhook_registration: LocalWebhooks | None = None,
        policies: Sequence[Policy] = (),
        policy_registration: LocalPolicies | None = None,
        wait_for_kinds: bool = False,
        delete_fuse: DeleteFuse | None = None,
        allow_mass_deletion: bool = False,
        tracer_provider: TracerProvider | None = None,
        graceful_timeout: Seconds = 30.0,
        parser: argparse.ArgumentParser | None = None,
        flags: argparse.Namespace | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create a manager; it does nothing until it runs.

        name: the field manager, and the name of the Lease. Default: name and group of the first controller.
        config: where the API server is. Default: as kubectl finds it, or the cluster that this process runs in.
        transport: instead of `config`, what requests are sent through. The manager closes it at the end.
        namespaces: work in this namespace or in these. Default: in all.
        scopes: which part of a kind is cached.
        lifespan: opens resources that reconciles share, such as an HTTP session, and closes them. `ctx.resource`
            returns what it yields. It is opened after the caches are complete and before the controllers work, and
            closed after they have stopped; `Manager.client` works in it. If it fails, so does the start.

                @asynccontextmanager
                async def lifespan(manager: Manager) -> AsyncIterator[httpx.AsyncClient]:
                    async with httpx.AsyncClient(base_url=manager.flags.dns_api) as http:
                        yield http
        leader_election: work only while this process holds a Lease. Default: no election.
        health_address, metrics_address: `host:port`. Port 0 picks a free port, and the address `"0"` turns the server
            off. Default: `:8081` for probes and `:8080` for metrics in a program that `main` runs, else no server.
        metrics_secure: serve metrics over HTTPS, to authorized users only, with this certificate or a self-signed one.
        webhooks: what `kubewright.webhooks` declares. Every replica serves them, whether it leads or not.
        webhook_port: the port of the webhook server, on all interfaces. 0 picks a free port, and -1 turns the server
            off. Default: 9443 in a program that `main` runs. Else, if the API server is on this machine, it is made to
            call the webhooks as with `LocalWebhooks()`; if it is not, there is no server.
        webhook_certificate: files, which are read again when they change; a `ManagedCertificate`, which the manager
            makes itself; or what provides a certificate otherwise.
        webhook_client_ca: a file with CAs in PEM. Only clients with a certificate of one of them may call the webhooks;
            the API server needs one then. It is not for `webhook_registration`. Default: any client may call them.
        webhook_registration: have the API server call this process by URL, with a certificate made in memory.
        policies: what `kubewright.policies` declares. They become manifests; a deployed manager does not use them.
        policy_registration: register the policies while this process runs. Default: as with `LocalPolicies()` if the
            API server is on this machine, except in a program that `main` runs.
        wait_for_kinds: controllers whose CustomResourceDefinitions are missing wait for them, and `/readyz` says so.
            Default: the start fails.
        delete_fuse: for each controller that has none of its own.
        allow_mass_deletion: no fuse counts deletes in this run, as with the flag `--allow-mass-deletion`.
        tracer_provider: OpenTelemetry's; each reconcile becomes spans.
        graceful_timeout: how long reconciles may run on after a stop, in seconds or as a timedelta. Then they are
            cancelled.
        parser: defines flags of your own, which `main` and `kubewright run` accept in addition to the standard ones.
        flags: values of the flags until the command line is parsed, for example in tests. Flags without a value here
            have the defaults of `parser`.
        clock: where reconciles read the time of day.

        Raises ConfigError for an argument of another type, if two controllers have the same name, or if options
        contradict each other.
        """
        controllers = checked(controllers)
        self._options = ManagerOptions(
            controllers=controllers,
            name=name or default_name(controllers),
            config=config,
            transport=transport,
            namespaces=namespaces,
            scopes=dict(scopes or {}),
            leader_election=leader_election,
            health_address=health_address,
            metrics_address=metrics_address,
            metrics_secure=metrics_secure,
            webhooks=tuple(webhooks),
            webhook_port=webhook_port,
            webhook_certificate=webhook_certificate,
            webhook_client_ca=Path(webhook_client_ca) if webhook_client_ca is not None else None,
            webhook_registration=webhook_registration,
            policies=tuple(policies),
            policy_registration=policy_registration,
            wait_for_kinds=wait_for_kinds,
            delete_fuse=delete_fuse,
            allow_mass_deletion=allow_mass_deletion,
            tracer_provider=tracer_provider,
            graceful_timeout=seconds(graceful_timeout, "Manager: graceful_timeout"),
            flags=flags or argparse.Namespace(),
            clock=clock or SystemClock(),
        )
        self._lifespan = lifespan
        self._parser = parser
        self._has_defaults: argparse.Namespace | None = None
        self._ready = asyncio.Event()
        self._run: Run | None = None
        self._block: AbstractAsyncContextManager[None] | None = None
        self._runnables: Runnables = []
        self.probes = Probes()
        """The checks of `/healthz` and `/readyz`; add your own."""
        self.probes.add_readyz("caches", self._check_caches)
        if webhooks:
            self.probes.add_readyz("webhooks", self._check_webhooks)
        self.metrics = Metrics(self._options.name)
        """What `/metrics` shows. Register metrics of your own in `metrics.registry`."""

    def replace(self, **changes: Unpack[ManagerChanges]) -> Manager:
        """Return a manager like this one with other options, for example to run it in a test.

        It has the same runnables, checks and metrics of your own. It counts the rest for itself.

            async with manager.replace(config=cluster.config, namespaces=[namespace]):
                ...
        """
        options = self._options
        same: ManagerChanges = {
            "controllers": options.controllers,
            "name": options.name,
            "config": options.config,
            "transport": options.transport,
            "namespaces": options.namespaces,
            "scopes": options.scopes,
            "lifespan": self._lifespan,
            "leader_election": options.leader_election,
            "health_address": options.health_address,
            "metrics_address": options.metrics_address,
            "metrics_secure": options.metrics_secure,
            "webhooks": options.webhooks,
            "webhook_port": options.webhook_port,
            "webhook_certificate": options.webhook_certificate,
            "webhook_client_ca": options.webhook_client_ca,
            "webhook_registration": options.webhook_registration,
            "policies": options.policies,
            "policy_registration": options.policy_registration,
            "wait_for_kinds": options.wait_for_kinds,
            "delete_fuse": options.delete_fuse,
            "allow_mass_deletion": options.allow_mass_deletion,
            "tracer_provider": options.tracer_provider,
            "graceful_timeout": options.graceful_timeout,
            "parser": self._parser,
            "flags": options.flags,
            "clock": options.clock,
        }
        if "config" in changes or "transport" in changes:
            same["config"] = same["transport"] = None
        copy = Manager(**(same | changes))
        copy._runnables = list(self._runnables)
        copy.probes.add_own_of(self.probes)
        copy.metrics.share_registry(self.metrics)
        return copy

    @property
    def config(self) -> Config | None:
        """Where the API server is, as given here or by flags; None for the default, and with a transport."""
        return self._options.config

    def configure(self, options: ManagerOptions) -> None:
        """Use other options from the next run on. `main` does this, because flags are options."""
        self._options = options

    @property
    def options(self) -> ManagerOptions:
        """What this manager was created with."""
        return self._options

    @property
    def name(self) -> str:
        """The field manager, and the name of the Lease."""
        return self._options.name

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers that this manager runs."""
        return self._options.controllers

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """The webhooks that this manager serves."""
        return self._options.webhooks

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that belong to this manager."""
        return self._options.policies

    @property
    def lifespan(self) -> Lifespan | None:
        """The function that opens the shared resources."""
        return self._lifespan

    @property
    def parser(self) -> argparse.ArgumentParser | None:
        """The parser of the program's own flags."""
        return self._parser

    @property
    def flags(self) -> argparse.Namespace:
        """Values of the program's own flags: those of the command line, or the option `flags`. Before the command line
        is parsed, other flags have the defaults of `parser`.
        """
        flags = self._options.flags
        if self._parser is not None and self._has_defaults is not flags:
            from kubewright.manager._program import add_defaults

            add_defaults(self._parser, flags)
            self._has_defaults = flags
        return flags

    @property
    def client(self) -> CachedClient:
        """A client that reads from the cache and writes to the API server. Raises ConfigError unless it runs."""
        if self._run is None or self._run.client is None:
            raise ConfigError("Manager.client exists while the Manager runs; use it in a reconcile or a runnable")
        return self._run.client

    @property
    def health_port(self) -> int:
        """The port of the health server; 0 when it does not run."""
        return self._run.health_port if self._run is not None else 0

    @property
    def metrics_port(self) -> int:
        """The port of the metrics server; 0 when it does not run."""
        return self._run.metrics_port if self._run is not None else 0

    @property
    def webhook_port(self) -> int:
        """The port of the webhook server; 0 when it does not run."""
        server = self._run.webhooks if self._run is not None else None
        return server.port if server is not None else 0

    def resource(self, kind: type[R]) -> R:
        """Return what the lifespan yielded, for runnables; reconciles use `ctx.resource`.

        Raises ConfigError if it is not a `kind`, or the manager does not run.
        """
        return resource_of(self._run.resource if self._run is not None else None, kind)

    def add(self, runnable: Runnable, *, needs_leader: bool = True) -> None:
        """Run `runnable` next to the controllers: while this process leads, or from the start (`needs_leader=False`).

        It may return. It is cancelled at the stop. If it raises, the manager stops and raises the same error.
        """
        self._runnables.append((runnable, needs_leader))

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the rules of the manager's role: what controllers and webhooks declare, Events, and the configurations
        of the webhooks if the manager makes their certificate.
        """
        return self._options.rbac_rules()

    def leader_election_rules(self) -> list[PolicyRule]:
        """Return the rules of the role in the Lease's namespace."""
        return [LEASE_RULE, EVENTS_RULE]

    def webhook_certificate_rules(self) -> list[PolicyRule]:
        """Return the rules of the role in the manager's namespace that the certificate of the webhooks needs."""
        return self._options.webhook_certificate_rules()

    def metrics_auth_rules(self) -> list[PolicyRule]:
        """Return the rules of the cluster role that secure metrics need in addition to the manager's."""
        return list(METRICS_AUTH_RULES)

    def metrics_reader_rules(self) -> list[PolicyRule]:
        """Return the rules of the cluster role that a scraper of secure metrics needs."""
        return list(METRICS_READER_RULES)

    def main(self, parser: argparse.ArgumentParser | None = None) -> None:
        """Run as a program: parse the flags, set up logs and signals, run, exit.

        `parser` defines flags of your own in addition to the standard ones; `flags` then has their values. If you give
        it to `Manager` instead, `kubewright run` knows them too.
        """
        from kubewright.manager._program import run_program

        run_program(self, parser=parser)

    async def run(self) -> None:
        """Run until `stop` is called or the task is cancelled.

        Raises ConfigError, ConnectionFailed or Unauthorized if it cannot start, LeadershipLost, and the error of a
        runnable or of the lifespan.
        """
        if self._run is not None:
            raise ConfigError(f"manager {self.name} runs already; use manager.replace() for a second one")
        self._ready.clear()
        lifespan = partial(self._lifespan, self) if self._lifespan is not None else None
        self._run = Run(self._options, self.probes, self.metrics, self._runnables, lifespan)
        try:
            await self._run.execute(self._ready.set)
        finally:
            self._run = None
            self._ready.set()  # `wait_ready` must not wait for a manager that has stopped

    def stop(self) -> None:
        """Ask for a graceful stop. `run` returns when it is done."""
        if self._run is not None:
            self._run.tasks.stopping.set()

    async def wait_ready(self) -> None:
        """Wait until the caches are complete, apart from kinds that are waited for. Then controllers work or stand by.

        Raises ConfigError if the manager stopped before it was ready; `run` raises the reason.
        """
        await self._ready.wait()
        if self._run is None:
            raise ConfigError(f"manager {self.name}: stopped before it was ready")

    async def __aenter__(self) -> Self:
        block = in_background(self, name=f"manager {self.name}")
        await block.__aenter__()
        self._block = block
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        block, self._block = self._block, None
        return await block.__aexit__(kind, error, traceback) if block is not None else None

    def _check_webhooks(self) -> None:
        if self._run is not None and self._run.webhooks is not None:
            self._run.webhooks.check()

    def _check_caches(self) -> None:
        if self._run is not None and self._run.webhooks is not None and self._run.webhooks.converts:
            return  # the API server can list the kinds of the caches only if this process is ready to convert
        if self._run is None or not self._ready.is_set():
            raise ConfigError("not complete yet")
        waiting = self._run.kinds_not_synced()
        if waiting:
            raise ConfigError(f"waiting for {'; '.join(waiting)}")
