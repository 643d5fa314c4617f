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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.cache._cache import Scope
from kubewright.cache._client import CachedClient
from kubewright.cache._selection import Namespaces
from kubewright.client._config import Config
from kubewright.client._transport import Transport
from kubewright.controllers._controller import Controller
from kubewright.controllers._fuse import DeleteFuse
from kubewright.machinery.errors import ConfigError
from kubewright.manager._certificates import Certificate
from kubewright.manager._gate import METRICS_AUTH_RULES, METRICS_READER_RULES
from kubewright.manager._health import Probes
from kubewright.manager._leader import LEASE_RULE, LeaderElection
from kubewright.manager._metrics import Metrics
from kubewright.manager._run import Run
from kubewright.models import Object
from kubewright.models._rbac import PolicyRule

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

Runnable: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""What runs beside the controllers: called once, cancelled at the stop."""

_EVENTS_RULE: Final = PolicyRule(api_groups=["events.k8s.io"], resources=["events"], verbs=["create", "patch"])


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
        namespace: Namespaces = None,
        scopes: Mapping[type[Object], Scope] | None = None,
        leader_election: bool | LeaderElection = False,
        health_address: str | None = None,
        metrics_address: str | None = None,
        metrics_secure: bool | Certificate = False,
        wait_for_kinds: bool = False,
        delete_fuse: DeleteFuse | None = None,
        tracer_provider: TracerProvider | None = None,
        graceful_timeout: timedelta = timedelta(seconds=30),
        clock: Clock | None = None,
    ) -> None:
        """`name` is the field manager, and the name of the Lease; by default the first controller's name and group.

        `config`: where the API server is; found as kubectl finds it (or in the cluster) when not given.
        `namespace`: work in this one, or in these alone; `scopes`: what part of a kind is cached.
        `health_address`, `metrics_address`: `host:port`; a port of 0 is one that is free, the address `"0"` turns the
        server off. None is `:8081` for probes and `:8080` for metrics in a program that `main` runs, and no server
        within another program.
        `metrics_secure`: metrics over HTTPS, for those alone who may get them (`kubewright.manager._gate`); with that
        certificate, or with True one made at the start.
        `wait_for_kinds`: a controller whose CustomResourceDefinitions are not installed waits for them, and `/readyz`
        says so; otherwise the start fails.
        `delete_fuse`: for each controller that has none of its own.
        `tracer_provider`: OpenTelemetry's; each reconcile becomes spans (`kubewright.controllers._tracing`).
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
        self.metrics_secure = metrics_secure
        self.wait_for_kinds = wait_for_kinds
        self.delete_fuse = delete_fuse
        self.allow_mass_deletion = False
        """No fuse counts deletes: they are meant. For one run; the flag `--allow-mass-deletion` sets it."""
        self.tracer_provider = tracer_provider
        self.graceful_timeout = graceful_timeout
        self.probes = Probes()
        self.probes.add_readyz("caches", self._caches_are_complete)
        self.metrics = Metrics(self.name)
        self.scopes = dict(scopes or {})
        self.clock: Clock = clock or SystemClock()
        self.runnables: list[tuple[Runnable, bool]] = []
        """What `add` was given, and whether it needs the leader."""
        self._ready = asyncio.Event()
        self._run: Run | None = None
        self.health_port = 0
        """The port that the health server got; 0 when it does not run."""
        self.metrics_port = 0
        """The port that the metrics server got; 0 when it does not run."""

    @property
    def client(self) -> CachedClient:
        """Reads from the cache, writes to the server. There while the Manager runs."""
        if self._run is None or self._run.client is None:
            raise ConfigError("Manager.client is there while the Manager runs; use it in a reconcile or a runnable")
        return self._run.client

    def add(self, runnable: Runnable, *, needs_leader: bool = True) -> None:
        """Run `runnable` beside the controllers: with `needs_leader` while this process leads, else from the start.

        It may end. It is cancelled at the stop, and when it raises the Manager stops and raises that.
        """
        self.runnables.append((runnable, needs_leader))

    def rbac_rules(self) -> list[PolicyRule]:
        """What the controllers declare, and Events: the rules of the manager's role."""
        return [rule for each in self.controllers for rule in each.rbac_rules()] + [_EVENTS_RULE]

    def leader_election_rules(self) -> list[PolicyRule]:
        """The rules of the role in the Lease's namespace."""
        return [LEASE_RULE, _EVENTS_RULE]

    def metrics_auth_rules(self) -> list[PolicyRule]:
        """The rules of the cluster role that secure metrics need beside the manager's."""
        return list(METRICS_AUTH_RULES)

    def metrics_reader_rules(self) -> list[PolicyRule]:
        """The rules of the cluster role for who scrapes secure metrics."""
        return list(METRICS_READER_RULES)

    def stop(self) -> None:
        """Ask for a graceful stop; `run` returns when it is done."""
        if self._run is not None:
            self._run.tasks.stopping.set()

    async def wait_ready(self) -> None:
        """Until the caches are complete, but for kinds that are waited for. An elected process then works soon, the
        others stand by.

        Raises ConfigError when the Manager stopped before it got there, and after a run until the next has begun; `run`
        raises why.
        """
        await self._ready.wait()
        if self._run is None:
            raise ConfigError(f"manager {self.name}: stopped before it was ready")

    def main(self) -> None:
        """Run as a program: flags as kubebuilder's managers have them, logs, signals, exit status."""
        from kubewright.manager._program import run_program

        run_program(self)

    async def run(self) -> None:
        """Run until `stop` is called or the task is cancelled.

        Raises ConfigError, ConnectionFailed or Unauthorized when it can't start, LeadershipLost, and what a runnable
        raised.
        """
        self._ready.clear()
        self._run = Run(self)
        try:
            await self._run.execute(self._ready.set)
        finally:
            self._run = None
            self._ready.set()  # wakes those who still wait, to be told

    def _caches_are_complete(self) -> None:
        if self._run is None or not self._ready.is_set():
            raise ConfigError("not complete yet")
        waiting = self._run.hindrances()
        if waiting:
            raise ConfigError(f"waiting for {'; '.join(waiting)}")


def _default_name(controllers: Sequence[Controller[Any]]) -> str:
    if not controllers:
        return "kubewright"
    first = controllers[0]
    return f"{first.name}.{first.kind.__api__.group}".rstrip(".")
