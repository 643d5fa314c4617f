"""Runs controllers as one process: from configuration to graceful stop.

Order of the start: health and metrics servers, the check of rights and kinds, caches, election, workers. Caches run before
the election, so that a standby is warm. Order of the stop: workers take nothing more and finish what they have within
`graceful_timeout`, the Lease is released, caches and servers close.

A Manager has no process-wide state: two of them live in one process.

Follows controller-runtime's pkg/manager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kubewright.cache.cache import Cache, Scope
from kubewright.cache.client import CachedClient
from kubewright.client.config import Config
from kubewright.client.transport import Transport
from kubewright.controller import Controller
from kubewright.manager.leader import LeaderElection
from kubewright.models import Object
from kubewright.models.rbac import PolicyRule


class Manager:
    """Controllers, and what they need to run."""

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
    ) -> None:
        """`name` is the field manager and the name of the Lease; by default it is made of the controllers' names.

        `config`: where the API server is; found as kubectl finds it (or in the cluster) when not given.
        `namespace`: work in this one alone; `scopes`: what part of a kind is cached.
        Addresses are `host:port`; a port of 0 is one that is free, the address `"0"` turns the server off.
        Raises ConfigError when two controllers have one name.
        """

    @property
    def client(self) -> CachedClient:
        """Reads from the cache, writes to the server. Usable while the Manager runs."""
        raise NotImplementedError

    @property
    def cache(self) -> Cache:
        raise NotImplementedError

    @property
    def health_port(self) -> int:
        """The port that the health server got; 0 when it does not run."""
        raise NotImplementedError

    @property
    def metrics_port(self) -> int:
        raise NotImplementedError

    def add(self, runnable: Callable[[], Awaitable[None]], *, needs_leader: bool = True) -> None:
        """Run `runnable` beside the controllers; it is cancelled at the stop, and when it fails the Manager stops."""

    def rbac_rules(self) -> list[PolicyRule]:
        """The cluster role: what the controllers declare, and Events."""
        raise NotImplementedError

    def leader_election_rules(self) -> list[PolicyRule]:
        """The role in the Lease's namespace."""
        raise NotImplementedError

    async def run(self) -> None:
        """Run until `stop` is called, the task is cancelled, or something fails that it can't go on without.

        Raises ConfigError, ConnectionFailed or Forbidden when it can't start, and LeadershipLost.
        """

    def stop(self) -> None:
        """Ask for a graceful stop; `run` returns when it is done."""

    async def wait_ready(self) -> None:
        """Until caches are synced and, with an election, this process works or stands by."""

    def main(self) -> None:
        """Run as a program: flags as kubebuilder's managers have them, logs, signals, exit status."""
