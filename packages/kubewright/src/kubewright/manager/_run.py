"""One run of a manager: its connections, caches, tasks, and the order in which they come and go.

The order is that of the nested blocks in `Run.execute`; what is entered last is left first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache, Scope
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.controllers._controller import Controller
from kubewright.controllers._loop import ControlLoop
from kubewright.controllers._rbac import READ
from kubewright.controllers._tracing import Tracing
from kubewright.machinery.errors import ConfigError
from kubewright.manager._gate import METRICS_AUTH_RULES, Gate
from kubewright.manager._leader import LEASE_RULE, Fence, LeaderElection, LeaderElector, identity
from kubewright.manager._preflight import described, missing_kinds, missing_permissions, not_served
from kubewright.manager._serving import Scrapes, serving
from kubewright.manager._supervisor import StoppedEarly, Supervisor, end
from kubewright.models import Object

if TYPE_CHECKING:
    from kubewright.manager._events import EventWriter
    from kubewright.manager._manager import Manager

_SYNC_TIMEOUT: Final = 120.0
"""Seconds for the caches to be complete, as in controller-runtime."""


class Run:
    """A manager from its start to its stop."""

    def __init__(self, manager: Manager) -> None:
        self.client: CachedClient | None = None
        """There once the connection is."""
        self.tasks = Supervisor()
        self._manager = manager
        self._holder = identity()
        self._log = get_logger("kubewright.manager")
        self._kinds = list(dict.fromkeys(kind for each in manager.controllers for kind in each.cached_kinds))
        self._late: list[type[Object]] = []
        """Kinds that were not served at the start, and are waited for."""

    async def execute(self, on_ready: Callable[[], None]) -> None:
        """Run until a stop is asked for of `tasks`; `on_ready` is called when the caches are complete.

        Raises what it could not start for, and what a task failed with.
        """
        try:
            async with self._probes(), self._connected() as (client, writer, elector), self._metrics(client):
                await self.tasks.or_stop(self._check(client, elector))
                events = self._events(client)
                async with self._caching(writer, events) as loops, self._beside([events.run()], needs_leader=False):
                    on_ready()
                    async with self._leading(elector, events), self._beside([], needs_leader=True):
                        await self._work(loops)
        except StoppedEarly:
            pass
        if self.tasks.failure is not None:
            raise self.tasks.failure
        self._log.info("Stopped")

    def hindrances(self) -> list[str]:
        """For each kind that is still waited for: which, and why."""
        if self.client is None:
            return []
        informers = [self.client.cache.informer(kind) for kind in self._late]
        return [each.reason_not_synced for each in informers if not each.synced]

    @asynccontextmanager
    async def _probes(self) -> AsyncGenerator[None, None]:
        manager = self._manager
        async with serving(manager.probes.handle, manager.health_address, "health_address") as manager.health_port:
            yield

    @asynccontextmanager
    async def _metrics(self, client: Client) -> AsyncGenerator[None, None]:
        manager, scrapes = self._manager, Scrapes(self._manager.metrics)
        handler, secure = scrapes.handle, manager.metrics_secure
        context: Callable[[], SSLContext] | None = None
        if secure:
            from kubewright.manager._certificates import server_context

            handler = Gate(client, scrapes.handle, manager.clock).handle
            certificate = None if secure is True else secure
            context = partial(server_context, certificate, manager.metrics.certificate_read)
        async with serving(handler, manager.metrics_address, "metrics_address", context) as manager.metrics_port:
            yield

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Client, Client, LeaderElector | None], None]:
        """A client, one that writes only while this process leads, and the elector when there is an election."""
        config = self._manager.config or Config.load()
        if isinstance(config, Config):
            transport: Transport = HTTPTransport(config, observer=self._manager.metrics.request)
            namespace = config.namespace
        else:
            transport, namespace = config, "default"
        if self._manager.tracer_provider is not None:
            from kubewright.client._transport import Propagating

            transport = Propagating(transport)
        client = self._client_of(transport)
        try:
            if not self._manager.leader_election:
                yield client, client, None
                return
            settings = self._election(namespace)
            elector = LeaderElector(client, settings, self._holder, clock=self._manager.clock)
            yield client, self._client_of(Fence(transport, lambda: elector.leading)), elector
        finally:
            await client.close()

    def _client_of(self, transport: Transport) -> Client:
        name = self._manager.name
        return Client(transport=transport, user_agent=name, field_manager=name, clock=self._manager.clock)

    def _events(self, client: Client) -> EventWriter:
        from kubewright.manager._events import EventWriter  # all of core/v1 comes with it

        return EventWriter(client, self._manager.name, self._holder, count=self._manager.metrics.event)

    def _election(self, namespace: str) -> LeaderElection:
        wanted = self._manager.leader_election
        settings = wanted if isinstance(wanted, LeaderElection) else LeaderElection()
        return replace(settings, name=settings.name or self._manager.name, namespace=settings.namespace or namespace)

    async def _check(self, client: Client, elector: LeaderElector | None) -> None:
        """What can be told before the start: one line for kinds that are not served, one for rules that are missing."""
        manager = self._manager
        self._late = await missing_kinds(client, self._kinds, manager.namespace)
        if self._late and not manager.wait_for_kinds:
            raise ConfigError(not_served(self._late))
        if self._late:
            self._log.warning("Waiting for kinds", kinds=", ".join(kind.__api__.plural for kind in self._late))
        missing = await missing_permissions(client, manager.rbac_rules(), manager.namespace)
        needed = [each for each in missing if each.verb in READ]
        if elector is not None:
            namespace = elector.lease.metadata.namespace
            needed += await missing_permissions(client, [LEASE_RULE], namespace)
        if manager.metrics_secure:
            missing += await missing_permissions(client, METRICS_AUTH_RULES, None)
        if needed:
            raise ConfigError(described(list(dict.fromkeys([*missing, *needed]))))
        if missing:
            self._log.error("Rights are missing", error=described(missing))

    @asynccontextmanager
    async def _caching(self, writer: Client, events: EventWriter) -> AsyncGenerator[list[ControlLoop[Any]], None]:
        """The loops of all controllers, listening to caches that are complete."""
        cache = Cache(writer, namespaces=self._manager.namespace, scopes=self._scopes())
        self.client = CachedClient(writer, cache)
        self._manager.metrics.cache = cache
        loops = [self._loop(each, self.client, cache, events) for each in self._manager.controllers]
        for loop in loops:
            loop.start()
        cache.start()
        try:
            await self.tasks.or_stop(cache.wait_synced(_SYNC_TIMEOUT, apart_from=self._late))
            self._log.info("Caches are complete", kinds=len(self._kinds))
            yield loops
        finally:
            await cache.stop()

    def _loop(
        self, controller: Controller[Any], client: CachedClient, cache: Cache, events: EventWriter
    ) -> ControlLoop[Any]:
        manager = self._manager
        counts = manager.metrics.controller(controller.name, controller.workers)
        fuse = None if manager.allow_mass_deletion else controller.delete_fuse or manager.delete_fuse
        provider = manager.tracer_provider
        loop = ControlLoop(
            controller,
            client,
            cache,
            events=events,
            observer=counts,
            delete_fuse=fuse,
            tracing=Tracing(provider, controller.name) if provider is not None else None,
            clock=manager.clock,
        )
        counts.queue = loop.queue
        return loop

    def _scopes(self) -> dict[type[Object], Scope]:
        """What is cached of each kind: as it was asked for, and what controllers need beyond it."""
        default = Scope(namespaces=self._manager.namespace)
        scopes = dict(self._manager.scopes)
        for controller in self._manager.controllers:
            own = scopes.get(controller.kind, default)
            scopes[controller.kind] = replace(own, indexers={**own.indexers, **controller.indexers})
            for kind in controller.owns:
                scopes[kind] = replace(scopes.get(kind, default), keep_managed_fields=True)
        return scopes

    @asynccontextmanager
    async def _leading(self, elector: LeaderElector | None, events: EventWriter) -> AsyncGenerator[None, None]:
        """The time in which this process leads; at once and for ever without an election."""
        if elector is None:
            yield
            return
        metrics = self._manager.metrics
        metrics.leading = False
        await self.tasks.or_stop(elector.acquire())
        metrics.leading = True
        events.normal(elector.lease, "LeaderElection", f"{elector.holder} became leader", action="Lead")
        holding = self.tasks.spawn(elector.hold())
        try:
            yield
        finally:
            await end([holding])
            events.normal(elector.lease, "LeaderElection", f"{elector.holder} stopped leading", action="Lead")
            await elector.release()
            metrics.leading = False

    @asynccontextmanager
    async def _beside(self, work: list[Coroutine[Any, Any, None]], *, needs_leader: bool) -> AsyncGenerator[None, None]:
        """`work`, and the runnables of that sort, running beside what happens within."""
        work += [runnable() for runnable, leader_only in self._manager.runnables if leader_only is needs_leader]
        tasks = [self.tasks.spawn(each) for each in work]
        try:
            yield
        finally:
            await end(tasks)

    async def _work(self, loops: Sequence[ControlLoop[Any]]) -> None:
        """Reconcile until the stop, and then let what runs finish: within its time, and while this process leads."""
        self._log.info("Working", controllers=",".join(each.controller.name for each in loops))
        workers = [self.tasks.spawn(self._run_loop(loop)) for loop in loops]
        try:
            await self.tasks.stopping.wait()
            for loop in loops:
                loop.close()
            await self.tasks.finish(workers, self._manager.graceful_timeout.total_seconds())
            late = sum(not each.done() for each in workers)
            if late:
                self._log.warning("Reconciles cancelled at the stop", controllers=late)
        finally:
            for loop in loops:
                loop.close()
            await end(workers)

    async def _run_loop(self, loop: ControlLoop[Any]) -> None:
        """Run a loop, once the kinds that it waits for have come."""
        assert self.client is not None
        late = [kind for kind in loop.controller.cached_kinds if kind in self._late]
        for kind in late:
            try:
                await self.tasks.or_stop(self.client.cache.informer(kind).wait_synced())
            except StoppedEarly:
                return
            self._log.info("Kind has come", kind=kind.__api__.kind, controller=loop.controller.name)
        await loop.run()
