"""The same operator in each toolkit, each in its own process, on one real API server.

Only etcd and kube-apiserver run: the operator is the only controller. In each repetition, each operator is a new
process and gets the same work. Objects are created, updated, changed where the operator does not look, and updated one
at a time. Then nothing happens for a while. Then the operator restarts and finds all objects converged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, TypeAlias

from benchmarks.fleet import Fleet
from benchmarks.peers import Peer
from benchmarks.process import Program, running
from benchmarks.report import Figure, Measured, Run, in_turns, say
from benchmarks.requests import OPERATOR, AuditLog
from benchmarks.workloads import Workload
from kubewright.testing._cluster import Cluster
from kubewright_controlplane.real import RealControlPlane

Change: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]

_ONE_AT_A_TIME: Final = 100
_FIRST: Final = "first"
_STARTS: Final = 3
_PAUSE: Final = 0.02
"""Seconds after which an operator has finished the work of an update, so that the next update finds it idle."""
_IDLE: Final = 3.0
_MB: Final = 1e6

FIGURES: Final = (
    Figure("cpu_ms_created", "CPU per created object, ms", 2),
    Figure("cpu_ms_updated", "CPU per updated object, ms", 2),
    Figure("cpu_ms_referenced", "CPU per object whose Secret changed, ms", 2),
    Figure("cpu_ms_unchanged", "CPU per reconcile with nothing to do, ms", 2),
    Figure("requests_created", "requests per created object", 2, depends_on_load=False),
    Figure("requests_updated", "requests per updated object", 2, depends_on_load=False),
    Figure("requests_referenced", "requests per object whose Secret changed", 2, depends_on_load=False),
    Figure("requests_unchanged", "requests per reconcile with nothing to do", 2, depends_on_load=False),
    Figure("latency_ms", "update to status, one at a time, ms", 1),
    Figure("start_s", "process start to first object ready, s", 2),
    Figure("rss_mb", "memory at the end, MB", 0, depends_on_load=False),
    Figure("idle_ms_s", "idle: CPU per second, ms", 2),
    Figure("idle_requests", "idle: requests", 0, depends_on_load=False),
    Figure("restart_cpu_s", "restart with nothing to do: CPU, s", 2),
    Figure("restart_writes", "restart with nothing to do: writes", 0, depends_on_load=False),
)


@dataclass(frozen=True)
class Load:
    """What an operator has to do."""

    workload: Workload
    objects: int
    kilobytes: int
    """The size of an object's message."""
    at_once: int
    """The number of objects that users write at a time."""


class Bench:
    """A real API server with the CRD of a workload, and the requests that operators send to it."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, requests: AuditLog, folder: Path, load: Load) -> None:
        self.cluster = cluster
        self.requests = requests
        self.load = load
        self._kubeconfig = kubeconfig
        self._folder = folder

    def fleet(self, *, remove: bool = False) -> Fleet:
        """Return the objects. With `remove`, leaving their block deletes them."""
        load = self.load
        return Fleet(self.cluster.client, load.workload, kilobytes=load.kilobytes, at_once=load.at_once, remove=remove)

    @asynccontextmanager
    async def running(self, peer: Peer) -> AsyncGenerator[Program]:
        """Run the operator of a toolkit for the duration of the block."""
        environment = {**peer.environment, "KUBECONFIG": str(self._kubeconfig)}
        command = peer.operators[self.load.workload.name]
        async with running(command, self._folder / f"{peer.name}.log", environment) as operator:
            yield operator


@asynccontextmanager
async def bench(load: Load) -> AsyncGenerator[Bench]:
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        requests = AuditLog(folder)
        say("Starting etcd and kube-apiserver ...")
        async with RealControlPlane(controllers=False, api_server_arguments=requests.arguments) as control_plane:
            cluster = Cluster(control_plane.config, folder)
            try:
                await cluster.install(load.workload.kind)
                kubeconfig = control_plane.kubeconfig_for(OPERATOR, ["system:masters"])
                yield Bench(cluster, kubeconfig, requests, folder, load)
            finally:
                await cluster.close()


async def measure(peers: Sequence[Peer], load: Load, repetitions: int) -> Measured:
    """Return the values by figure and peer."""
    async with bench(load) as server:

        async def run(peer: Peer) -> Run:
            return await _run(peer, server)

        return await in_turns(of_workload(peers, load.workload), repetitions, run, FIGURES)


def of_workload(peers: Sequence[Peer], workload: Workload) -> list[Peer]:
    """Return the peers that have this operator. Prints the others."""
    if missing := [peer.name for peer in peers if workload.name not in peer.operators]:
        say(f"  not measured, without an operator of {workload.name}: {', '.join(missing)}")
    return [peer for peer in peers if workload.name in peer.operators]


async def _run(peer: Peer, server: Bench) -> Run:
    """Run one repetition, and delete all objects."""
    others = [f"object-{number}" for number in range(1, server.load.objects)]
    async with server.fleet(remove=True) as fleet:
        await fleet.create([_FIRST])
        start_s = median([await _start(peer, server, fleet) for _ in range(_STARTS)])
        await fleet.update([_FIRST])
        async with server.running(peer) as operator:
            await fleet.converged()  # the operator has started
            costs = await _work(server, operator, fleet, others)
            latency_ms = median([await _latency(fleet) for _ in range(_ONE_AT_A_TIME)]) * 1e3
            rss_mb = operator.rss / _MB
            idle = await _idle(server, operator)
            await fleet.check()
        restart = await _restart(peer, server)
        return {"start_s": start_s, **costs, "latency_ms": latency_ms, "rss_mb": rss_mb, **idle, **restart}


async def _start(peer: Peer, server: Bench, fleet: Fleet) -> float:
    """Return the seconds from the start of a process to the status of the one object that needs work."""
    await fleet.update([_FIRST])
    began = perf_counter()
    async with server.running(peer):
        await fleet.converged()
        return perf_counter() - began


async def _work(server: Bench, operator: Program, fleet: Fleet, names: Sequence[str]) -> Run:
    """Measure objects that are created, updated, and changed where the operator does not look."""
    steps: dict[str, Change] = {"created": fleet.create, "updated": fleet.update, "unchanged": fleet.touch}
    if server.load.workload.secret_of is not None:
        steps["referenced"] = fleet.change_secrets
    run: dict[str, float] = {}
    for step, change in steps.items():
        await operator.settle()
        server.requests.take()
        before = operator.cpu
        await change(names)
        await fleet.converged()
        await operator.settle()
        run[f"cpu_ms_{step}"] = (operator.cpu - before) / len(names) * 1e3
        run[f"requests_{step}"] = server.requests.take().sent / len(names)
    return run


async def _idle(server: Bench, operator: Program) -> Run:
    """Measure an operator while nothing happens."""
    await operator.settle()
    server.requests.take()
    before = operator.cpu
    await asyncio.sleep(_IDLE)
    return {"idle_ms_s": (operator.cpu - before) / _IDLE * 1e3, "idle_requests": server.requests.take().sent}


async def _restart(peer: Peer, server: Bench) -> Run:
    """Measure an operator that starts and finds all objects converged."""
    requests = server.requests.take()
    async with server.running(peer) as operator:
        while not requests["watch"]:
            await asyncio.sleep(_PAUSE)
            requests += server.requests.take()
        await operator.settle()
        requests += server.requests.take()
        return {"restart_cpu_s": operator.cpu, "restart_writes": requests.writes}


async def _latency(fleet: Fleet) -> float:
    """Return the seconds from an update to its status, with no other work."""
    await asyncio.sleep(_PAUSE)
    began = perf_counter()
    await fleet.update([_FIRST])
    await fleet.converged()
    return perf_counter() - began
