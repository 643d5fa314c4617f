"""Runs controllers as one process: from configuration to graceful stop.

Order of the start: health and metrics servers; the check that kinds are served and what is declared is allowed;
caches; election; workers. Caches run before the election, so that a standby is warm. Order of the stop: nothing more
is taken, what runs finishes within `graceful_timeout`, the Lease is released, caches and servers close.

A Manager has no process-wide state: two of them live in one process.

Follows controller-runtime's pkg/manager.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubewright.cache.cache import Cache, Scope
from kubewright.cache.client import CachedClient
from kubewright.client.client import Client
from kubewright.client.config import Config
from kubewright.client.transport import HTTPTransport, Transport
from kubewright.controller.controller import Controller
from kubewright.controller.log import get_logger
from kubewright.controller.loop import ControlLoop
from kubewright.controller.rbac import READ
from kubewright.machinery.clock import Clock, SystemClock
from kubewright.machinery.errors import ConfigError, LeadershipLost
from kubewright.manager.health import Probes
from kubewright.manager.leader import Fence, LeaderElection, LeaderElector, identity
from kubewright.manager.metrics import Metrics
from kubewright.manager.preflight import check_kinds, described, missing_permissions
from kubewright.manager.serving import Scrapes, serving
from kubewright.models import Object
from kubewright.models.rbac import PolicyRule

if TYPE_CHECKING:
    from kubewright.manager.events import EventWriter

R = TypeVar("R")

Runnable = Callable[[], Coroutine[Any, Any, None]]

_SYNC_TIMEOUT: Final = 120.0
"""Seconds for the caches to be complete, as in controller-runtime."""

_EVENTS_RULE: Final = PolicyRule(api_groups=["events.k8s.io"], resources=["events"], verbs=["create", "patch"])
_LEASE_RULE: Final = PolicyRule(
    api_groups=["coordination.k8s.io"], resources=["leases"], verbs=["create", "get", "update"]
)


class Manager:
    """Controllers, and what they need to run.

    Its public attributes are options, and count when `run` begins.
    """

    def __init__(
        self,
        controllers: Sequence[Controller[Any]] = (),
        *,
        name: str = "",
        config: Config | Transport | None = None,
        namespace: str | None = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        leader_election: bool | LeaderElection = False,
        health_address: str = ":8081",
        metrics_address: str = ":8080",
        graceful_timeout: timedelta = timedelta(seconds=30),
        clock: Clock | None = None,
    ) -> None:
        """`name` is the field manager, and the name of the Lease; by default the first controller's name and group.

        `config`: where the API server is; found as kubectl finds it (or in the cluster) when not given.
        `namespace`: work in this one alone; `scopes`: what part of a kind is cached.
        Addresses are `host:port`; a port of 0 is one that is free, the address `"0"` turns the server off.
        `graceful_timeout`: for reconciles that run at the stop; after it they are cancelled.
        Raises ConfigError when two controllers have one name.
        """
        names = Counter(each.name for each in controllers)
        twice = [each for each, count in names.items() if count > 1]
        if twice:
            raise ConfigError(
                f"two controllers are named {', '.join(twice)}: their metrics and logs could not be told apart; give "
                f"one of them another name, @controller(..., name=...)"
            )
        self.controllers = tuple(controllers)
        self.name = name or _default_name(controllers)
        self.config = config
        self.namespace = namespace
        self.leader_election = leader_election
        self.health_address = health_address
        self.metrics_address = metrics_address
        self.graceful_timeout = graceful_timeout
        self.probes = Probes()
        self.probes.add_readyz("caches", self._caches_are_complete)
        self.metrics = Metrics(self.name)
        self._scopes = dict(scopes or {})
        self._clock: Clock = clock or SystemClock()
        self._log = get_logger("kubewright.manager")
        self._runnables: list[tuple[Runnable, bool]] = []
        self._holder = identity()
        self._stopping = asyncio.Event()
        self._halting = asyncio.Event()
        self._ready = asyncio.Event()
        self._failure: BaseException | None = None
        self._client: CachedClient | None = None
        self.health_port = 0
        """The port that the health server got; 0 when it does not run."""
        self.metrics_port = 0
        """The port that the metrics server got; 0 when it does not run."""

    @property
    def client(self) -> CachedClient:
        """Reads from the cache, writes to the server. There while the Manager runs."""
        if self._client is None:
            raise ConfigError("Manager.client is there while the Manager runs; use it in a reconcile or a runnable")
        return self._client

    def add(self, runnable: Runnable, *, needs_leader: bool = True) -> None:
        """Run `runnable` beside the controllers: with `needs_leader` while this process leads, else from the start.

        It may end. It is cancelled at the stop, and when it raises the Manager stops and raises that.
        """
        self._runnables.append((runnable, needs_leader))

    def rbac_rules(self) -> list[PolicyRule]:
        """What the controllers declare, and Events: the rules of the manager's role."""
        return [rule for each in self.controllers for rule in each.rbac_rules()] + [_EVENTS_RULE]

    def leader_election_rules(self) -> list[PolicyRule]:
        """The rules of the role in the Lease's namespace."""
        return [_LEASE_RULE, _EVENTS_RULE]

    def stop(self) -> None:
        """Ask for a graceful stop; `run` returns when it is done."""
        self._stopping.set()

    async def wait_ready(self) -> None:
        """Until the caches are complete. An elected process then works soon, the others stand by.

        Raises ConfigError when the Manager stopped before it got there; `run` raises why.
        """
        await self._ready.wait()
        if self._client is None:
            raise ConfigError(f"manager {self.name}: stopped before it was ready")

    def main(self) -> None:
        """Run as a program: flags as kubebuilder's managers have them, logs, signals, exit status."""
        from kubewright.manager.program import run_program

        run_program(self)

    async def run(self) -> None:
        """Run until `stop` is called or the task is cancelled.

        Raises ConfigError, ConnectionFailed or Unauthorized when it can't start, LeadershipLost, and what a runnable
        raised.
        """
        self._failure = None
        self._stopping.clear()
        self._halting.clear()
        self._ready.clear()
        try:
            async with self._servers(), self._connected() as (client, writer, elector):
                await self._or_stop(self._check(client))
                events = self._events(client)
                async with self._caching(writer, events) as loops, self._beside([events.run()], needs_leader=False):
                    self._ready.set()
                    async with self._leading(elector, events), self._beside([], needs_leader=True):
                        await self._work(loops)
        except _StoppedEarly:
            pass
        finally:
            self._client = None
            self._ready.set()
        if self._failure is not None:
            raise self._failure
        self._log.info("Stopped")

    @asynccontextmanager
    async def _servers(self) -> AsyncGenerator[None, None]:
        metrics = Scrapes(self.metrics)
        async with (
            serving(self.probes.handle, self.health_address, "health_address") as self.health_port,
            serving(metrics.handle, self.metrics_address, "metrics_address") as self.metrics_port,
        ):
            yield

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[tuple[Client, Client, LeaderElector | None], None]:
        """A client, one that writes only while this process leads, and the elector when there is an election."""
        config = self.config or Config.load()
        transport = HTTPTransport(config, observer=self.metrics.request) if isinstance(config, Config) else config
        client = self._client_of(transport)
        try:
            if not self.leader_election:
                yield client, client, None
                return
            settings = self._election(config.namespace if isinstance(config, Config) else "default")
            elector = LeaderElector(client, settings, self._holder, clock=self._clock)
            yield client, self._client_of(Fence(transport, lambda: elector.leading)), elector
        finally:
            await client.close()

    def _events(self, client: Client) -> EventWriter:
        from kubewright.manager.events import EventWriter  # all of core/v1 comes with it

        return EventWriter(client, self.name, self._holder, clock=self._clock)

    def _client_of(self, transport: Transport) -> Client:
        return Client(transport, user_agent=self.name, field_manager=self.name, clock=self._clock)

    def _election(self, namespace: str) -> LeaderElection:
        settings = LeaderElection() if self.leader_election is True else self.leader_election
        assert isinstance(settings, LeaderElection)
        return replace(settings, name=settings.name or self.name, namespace=settings.namespace or namespace)

    async def _check(self, client: Client) -> None:
        """What can be told before the start: one line for kinds that are not served, one for rules that are missing."""
        await check_kinds(client, self._kinds(), self.namespace)
        missing = await missing_permissions(client, self.rbac_rules(), self.namespace)
        if any(each.verb in READ for each in missing):
            raise ConfigError(described(missing))
        if missing:
            self._log.error(described(missing))

    def _caches_are_complete(self) -> None:
        if self._client is None or not self._ready.is_set():
            raise ConfigError("not complete yet")

    def _kinds(self) -> list[type[Object]]:
        return list(dict.fromkeys(kind for each in self.controllers for kind in each.cached))

    @asynccontextmanager
    async def _caching(self, writer: Client, events: EventWriter) -> AsyncGenerator[list[ControlLoop[Any]], None]:
        """The loops of all controllers, listening to caches that are complete."""
        cache = Cache(writer, namespace=self.namespace, scopes=self._all_scopes())
        self._client = CachedClient(writer, cache)
        loops = [self._loop(each, self._client, cache, events) for each in self.controllers]
        for loop in loops:
            loop.start()
        cache.start()
        try:
            await self._or_stop(cache.wait_synced(_SYNC_TIMEOUT))
            self._log.info("Caches are complete", kinds=len(self._kinds()))
            yield loops
        finally:
            await cache.stop()

    def _loop(
        self, controller: Controller[Any], client: CachedClient, cache: Cache, events: EventWriter
    ) -> ControlLoop[Any]:
        counts = self.metrics.controller(controller.name, controller.workers)
        loop = ControlLoop(controller, client, cache, events=events, observer=counts, clock=self._clock)
        counts.queue = loop.queue
        return loop

    def _all_scopes(self) -> dict[type[Object], Scope]:
        """What is cached of each kind: as it was asked for, and what controllers need beyond it."""
        default = Scope(namespace=self.namespace)
        scopes = dict(self._scopes)
        for controller in self.controllers:
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
        self.metrics.leading = False
        await self._or_stop(elector.acquire())
        self.metrics.leading = True
        events.normal(elector.lease, "LeaderElection", f"{elector.holder} became leader", action="Lead")
        holding = self._supervised(elector.hold())
        try:
            yield
        finally:
            await _ended([holding])
            events.normal(elector.lease, "LeaderElection", f"{elector.holder} stopped leading", action="Lead")
            await elector.release()
            self.metrics.leading = False

    @asynccontextmanager
    async def _beside(self, work: list[Coroutine[Any, Any, None]], *, needs_leader: bool) -> AsyncGenerator[None, None]:
        """`work`, and the runnables of that sort, running beside what happens within."""
        work += [runnable() for runnable, leader_only in self._runnables if leader_only is needs_leader]
        tasks = [self._supervised(each) for each in work]
        try:
            yield
        finally:
            await _ended(tasks)

    async def _work(self, loops: Sequence[ControlLoop[Any]]) -> None:
        """Reconcile until the stop, and then let what runs finish: within its time, and while this process leads."""
        self._log.info("Working", controllers=",".join(each.name for each in self.controllers))
        workers = [self._supervised(loop.run()) for loop in loops]
        halting = asyncio.create_task(self._halting.wait())
        try:
            await self._stopping.wait()
            for loop in loops:
                loop.close()
            ends: list[asyncio.Future[Any]] = [asyncio.gather(*workers, return_exceptions=True), halting]
            grace = self.graceful_timeout.total_seconds()
            await asyncio.wait(ends, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            late = sum(not each.done() for each in workers)
            if late:
                self._log.warning("Reconciles cancelled at the stop", controllers=late)
        finally:
            for loop in loops:
                loop.close()
            await _ended([*workers, halting])

    def _supervised(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task whose failure stops the manager."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self._failure = self._failure or error
        self._stopping.set()
        if isinstance(error, LeadershipLost):
            self._halting.set()

    async def _or_stop(self, work: Coroutine[Any, Any, R]) -> R:
        """The outcome of `work`; _StoppedEarly when the stop comes first."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _StoppedEarly
            return task.result()
        finally:
            await _ended([task, stop])


class _StoppedEarly(Exception):
    """The stop came before the start was over."""


async def _ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel what still runs of `tasks` and wait for its end. What they raised has been looked at."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _default_name(controllers: Sequence[Controller[Any]]) -> str:
    if not controllers:
        return "kubewright"
    first = controllers[0]
    return f"{first.name}.{first.kind.__api__.group}".rstrip(".")
