"""One run of a manager: its connections, caches and tasks, and the order in which they start and stop.

The order is that of the nested blocks in `Run.execute`: the block that is entered last is left first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache, Scope, end_soon
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.controllers._controller import Controller
from kubewright.controllers._loop import ControlLoop
from kubewright.controllers._rbac import READ
from kubewright.controllers._tracing import Tracing
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.manager._certificates import Certificate
from kubewright.manager._events import EventWriter
from kubewright.manager._leader import LEASE_RULE, Fence, LeaderElector, identity
from kubewright.manager._metrics import Metrics
from kubewright.manager._options import ManagerOptions
from kubewright.manager._preflight import described, missing_kinds, missing_namespaces, missing_permissions, not_served
from kubewright.manager._serving import METRICS_AUTH_RULES, Gate, Probes, Scrapes, serving
from kubewright.manager._supervisor import StoppedEarly, Supervisor, end
from kubewright.manager._watchdog import watch_event_loop
from kubewright.models import Object

if TYPE_CHECKING:
    from kubewright.manager._webhooks import WebhookServer

Runnables: TypeAlias = list[tuple[Callable[[], Coroutine[Any, Any, None]], bool]]
"""Functions that run next to the controllers, each with whether it needs the leader."""
OpenResources: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]

_SYNC_TIMEOUT: Final = 120.0
"""Seconds for the caches to become complete, as in controller-runtime."""


class Run:
    """A manager from its start to its stop."""

    def __init__(
        self,
        options: ManagerOptions,
        probes: Probes,
        metrics: Metrics,
        runnables: Runnables,
        lifespan: OpenResources | None,
    ) -> None:
        self.client: CachedClient | None = None
        """None before the caches exist."""
        self.resource: object = None
        """What the lifespan yielded."""
        self.health_port = self.metrics_port = 0
        self.webhooks: WebhookServer | None = None
        """None unless there is a webhook server."""
        self.tasks = Supervisor()
        self._options = options
        self._probes = probes
        self._metrics = metrics
        self._runnables = runnables
        self._lifespan = lifespan
        self._identity = identity()
        self._config: Config | None = None
        """Where the API server is; None if requests go through a given transport."""
        self._log = get_logger("kubewright.manager")
        self._kinds = options.cached_kinds
        self._missing: list[type[Object]] = []
        """Kinds that were not served at the start, and are waited for."""

    async def execute(self, on_ready: Callable[[], None]) -> None:
        """Run until `tasks.stopping` is set. Calls `on_ready` when the caches are complete and the resources open.

        Raises the error that prevented the start, or the first error of a task.
        """
        try:
            async with (
                self._health(),
                self._connected() as (client, writer, elector, namespace),
                self._scraping(client),
                self._serving_webhooks(client, namespace),
            ):
                await self.tasks.or_stop(self._check(client, elector))
                events = self._events(client)
                async with (
                    self._caching(writer, events) as loops,
                    self._resources(loops),
                    self._reviewing(client),
                    self._registering_policies(client),
                    self._in_parallel([events.run()], needs_leader=False),
                ):
                    on_ready()
                    async with self._leading(elector, events), self._in_parallel([], needs_leader=True):
                        await self._work(loops)
        except StoppedEarly:
            pass
        if self.tasks.failure is not None:
            raise self.tasks.failure
        self._log.info("Manager stopped")

    def kinds_not_synced(self) -> list[str]:
        """Return, for each kind that is still waited for, its name and the reason."""
        if self.client is None:
            return []
        informers = [self.client.cache.informer(kind) for kind in self._missing]
        return [each.reason_not_synced for each in informers if not each.synced]

    @asynccontextmanager
    async def _health(self) -> AsyncGenerator[None]:
        async with serving(self._probes.handle, self._options.health_address, "health_address") as self.health_port:
            yield

    @asynccontextmanager
    async def _scraping(self, client: Client) -> AsyncGenerator[None]:
        handler, secure = Scrapes(self._metrics).handle, self._options.metrics_secure
        context: Callable[[], SSLContext] | None = None
        if secure is not None:
            from kubewright.manager._certificates import server_context

            handler = Gate(client, handler).handle
            files = secure if isinstance(secure, Certificate) else None
            context = partial(server_context, files, self._metrics.certificate_read)
        address = self._options.metrics_address
        async with serving(handler, address, "metrics_address", context) as self.metrics_port:
            yield

    @asynccontextmanager
    async def _serving_webhooks(self, client: Client, namespace: str) -> AsyncGenerator[None]:
        options = self._options
        local = await options.local_webhooks(self._config)
        if local is None and not (options.webhooks and options.webhook_port is not None and options.webhook_port >= 0):
            yield
            return
        from kubewright.manager._webhooks import WebhookServer

        self.webhooks = WebhookServer(options, self._metrics, local)
        async with self.webhooks.running(client, namespace):
            yield

    @asynccontextmanager
    async def _reviewing(self, client: Client) -> AsyncGenerator[None]:
        """Answer admission reviews while the block runs, also if another process leads."""
        if self.webhooks is None:
            yield
            return
        assert self.client is not None
        async with self.webhooks.reviewing(client, self.client.cache, self.resource):
            yield

    @asynccontextmanager
    async def _registering_policies(self, client: Client) -> AsyncGenerator[None]:
        """Have an API server on this machine evaluate the policies while the block runs."""
        local = await self._options.local_policies(self._config)
        if local is None:
            yield
            return
        from kubewright.policies._local_registration import LocalPolicyRegistration  # loads built-in kinds

        async with LocalPolicyRegistration(local, self._options.policies, self._options.name).registered(client):
            yield

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Client, Client, LeaderElector | None, str]]:
        """Yield a client, one that writes only while this process leads, the elector if there is an election, and the
        namespace of this process.
        """
        transport, namespace = self._transport()
        client = self._client_of(transport)
        try:
            election = self._options.leader_election
            if election is None:
                yield client, client, None, namespace
                return
            name, place = election.name or self._options.name, election.namespace or namespace
            settings = replace(election, name=name, namespace=place)
            elector = LeaderElector(client, settings, self._identity, clock=self._options.clock)
            fenced = self._client_of(Fence(transport, lambda: elector.leading))
            yield client, fenced, elector, namespace
        finally:
            await client.close()

    def _transport(self) -> tuple[Transport, str]:
        """Return the way to the API server, and the namespace of this process."""
        given = self._options.transport
        if given is not None:
            transport, namespace = given, "default"
        else:
            self._config = config = self._options.config or Config.load()
            transport, namespace = HTTPTransport(config, observer=self._metrics.request), config.namespace
        if self._options.tracer_provider is not None:
            from kubewright.client._transport import Propagating

            transport = Propagating(transport)
        return transport, namespace

    def _client_of(self, transport: Transport) -> Client:
        name = self._options.name
        return Client(transport=transport, user_agent=name, field_manager=name, clock=self._options.clock)

    def _events(self, client: Client) -> EventWriter:
        return EventWriter(client, self._options.name, self._identity, count=self._metrics.event)

    async def _check(self, client: Client, elector: LeaderElector | None) -> None:
        """Find what would fail later: one line for kinds that are not served, one for missing permissions."""
        options = self._options
        self._missing = await missing_kinds(client, self._kinds, options.namespaces)
        if self._missing and not options.wait_for_kinds:
            raise ConfigError(not_served(self._missing))
        if self._missing:
            self._log.warning("Kinds not served", waiting_for=", ".join(kind.__api__.plural for kind in self._missing))
        if absent := await missing_namespaces(client, options.namespaces):
            self._log.warning(
                "Namespaces not found",
                namespaces=",".join(absent),
                advice="Create them, or correct namespaces or --namespace. The manager works in them once they exist",
            )
        missing = await missing_permissions(client, options.rbac_rules(), options.namespaces)
        needed = [each for each in missing if each.verb in READ]
        if elector is not None:
            needed += await missing_permissions(client, [LEASE_RULE], elector.lease.metadata.namespace)
        if options.metrics_secure is not None:
            missing += await missing_permissions(client, METRICS_AUTH_RULES, None)
        if needed:
            raise ConfigError(described(list(dict.fromkeys([*missing, *needed]))))
        if missing:
            self._log.error("Permissions missing", error=described(missing))

    @asynccontextmanager
    async def _caching(self, writer: Client, events: EventWriter) -> AsyncGenerator[list[ControlLoop[Any]]]:
        """Yield the loops of all controllers, which listen to complete caches."""
        cache = Cache(writer, namespaces=self._options.namespaces, scopes=self._scopes())
        self.client = CachedClient(writer, cache)
        self._metrics.cache = cache
        loops = [self._loop(each, self.client, cache, events) for each in self._options.controllers]
        for loop in loops:
            loop.start()
        for kind in self._kinds:
            cache.informer(kind)
        cache.start()
        try:
            await self.tasks.or_stop(cache.wait_synced(_SYNC_TIMEOUT, apart_from=self._missing))
            self._log.info("Caches synced", kinds=len(self._kinds))
            yield loops
        finally:
            await cache.stop()

    def _loop(
        self, controller: Controller[Any], client: CachedClient, cache: Cache, events: EventWriter
    ) -> ControlLoop[Any]:
        options = self._options
        counts = self._metrics.controller(controller.name, controller.workers)
        provider = options.tracer_provider
        loop = ControlLoop(
            controller,
            client,
            cache,
            events=events,
            observer=counts,
            delete_fuse=None if options.allow_mass_deletion else controller.delete_fuse or options.delete_fuse,
            tracing=Tracing(provider, controller.name) if provider is not None else None,
            clock=options.clock,
        )
        counts.queue = loop.queue
        return loop

    def _scopes(self) -> dict[type[Object], Scope]:
        """Return the part of each kind that is cached: as configured, and what controllers need in addition."""
        default = Scope(namespaces=self._options.namespaces)
        scopes = dict(self._options.scopes)
        for controller in self._options.controllers:
            own = scopes.get(controller.kind, default)
            scopes[controller.kind] = replace(own, indexers={**own.indexers, **controller.indexers})
            for kind in controller.owns:
                scopes[kind] = replace(scopes.get(kind, default), keep_managed_fields=True)
        return scopes

    @asynccontextmanager
    async def _resources(self, loops: Sequence[ControlLoop[Any]]) -> AsyncGenerator[None]:
        """Keep the lifespan's resources open while the block runs.

        The lifespan enters and exits in one task, as libraries with cancel scopes require.
        """
        if self._lifespan is None:
            yield
            return
        opened, closing = asyncio.Event(), asyncio.Event()
        task = self.tasks.spawn(self._live(self._lifespan(), opened, closing))
        try:
            await self.tasks.or_stop(_first(opened, task))
            for loop in loops:
                loop.shared.resource = self.resource
            yield
        finally:
            if opened.is_set():
                closing.set()
            else:
                task.cancel()
            await asyncio.wait({task})
            self.resource = None

    async def _live(
        self, resources: AbstractAsyncContextManager[object], opened: asyncio.Event, closing: asyncio.Event
    ) -> None:
        try:
            async with resources as self.resource:
                opened.set()
                await closing.wait()
        except KubewrightError:
            raise
        except Exception as error:
            phase = "closing" if opened.is_set() else "opening"
            raise ConfigError(f"lifespan: {phase} the resources failed: {type(error).__name__}: {error}") from error

    @asynccontextmanager
    async def _leading(self, elector: LeaderElector | None, events: EventWriter) -> AsyncGenerator[None]:
        """Run the block while this process leads; without an election, always."""
        if elector is None:
            yield
            return
        self._metrics.leading = False
        await self.tasks.or_stop(elector.acquire())
        self._metrics.leading = True
        events.normal(elector.lease, "LeaderElection", f"{elector.holder} became leader", action="Lead")
        holding = self.tasks.spawn(elector.hold())
        try:
            yield
        finally:
            await end([holding])
            events.normal(elector.lease, "LeaderElection", f"{elector.holder} stopped leading", action="Lead")
            await elector.release()
            self._metrics.leading = False

    @asynccontextmanager
    async def _in_parallel(self, work: list[Coroutine[Any, Any, None]], *, needs_leader: bool) -> AsyncGenerator[None]:
        """Run `work`, and the runnables with this `needs_leader`, in parallel to the block."""
        work += [runnable() for runnable, leader_only in self._runnables if leader_only is needs_leader]
        tasks = [self.tasks.spawn(each) for each in work]
        try:
            yield
        finally:
            await end(tasks)

    async def _work(self, loops: Sequence[ControlLoop[Any]]) -> None:
        """Reconcile until the stop, then let running reconciles finish, within their time and while this leads."""
        self._log.info("Controllers started", controllers=",".join(each.controller.name for each in loops))
        workers = [self.tasks.spawn(self._run_loop(loop)) for loop in loops]
        try:
            with watch_event_loop(loops):
                await self.tasks.stopping.wait()
            for loop in loops:
                loop.close()
            assert self.client is not None
            end_soon(self.client.cache)
            await self.tasks.finish(workers, self._options.graceful_timeout)
            late = sum(not each.done() for each in workers)
            if late:
                self._log.warning("Reconciles cancelled at the stop", controllers=late)
        finally:
            for loop in loops:
                loop.close()
            await end(workers)

    async def _run_loop(self, loop: ControlLoop[Any]) -> None:
        """Run a loop, once the kinds that it waits for are served."""
        assert self.client is not None
        for kind in [kind for kind in loop.controller.cached_kinds if kind in self._missing]:
            try:
                await self.tasks.or_stop(self.client.cache.informer(kind).wait_synced())
            except StoppedEarly:
                return
            self._log.info("Kind is now served", kind=kind.__api__.kind, controller=loop.controller.name)
        await loop.run()


async def _first(opened: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait until `opened` is set. Raises the error of `task` if that ends before."""
    opening = asyncio.create_task(opened.wait())
    try:
        await asyncio.wait({opening, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        opening.cancel()
