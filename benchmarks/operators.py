"""The same operator in each tool kit, each a process of its own, on one real API server.

API server and etcd only: no controller but the operator acts. Each operator is started afresh for each repetition, one
after the other in turns, and finds the same work: Widgets that are created, updated, changed in what does not concern
the operator, and updated one at a time; then nothing for a while; then a restart, where all is as it should be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks.fleet import Fleet
from benchmarks.peers import Peer
from benchmarks.peers.kubewright.widgets import Widget
from benchmarks.process import Program, running
from benchmarks.report import Figure, Medians, Run, in_turns, say
from benchmarks.requests import OPERATOR, AuditLog
from kubewright.testing._cluster import Cluster
from kubewright_controlplane.real import RealControlPlane

_ONE_AT_A_TIME: Final = 100
_FIRST: Final = "first"
_STARTS: Final = 3
_PAUSE: Final = 0.02
"""Seconds after which an operator has done what follows an update, so that the next finds it idle."""
_IDLE: Final = 3.0
_MB: Final = 1e6

FIGURES: Final = (
    Figure("cpu_ms_created", "CPU an object created, ms", 2),
    Figure("cpu_ms_updated", "CPU an object updated, ms", 2),
    Figure("cpu_ms_unchanged", "CPU a reconcile with nothing to do, ms", 2),
    Figure("requests_created", "requests an object created", 2),
    Figure("requests_updated", "requests an object updated", 2),
    Figure("requests_unchanged", "requests a reconcile with nothing to do", 2),
    Figure("latency_ms", "update to status, one at a time, ms", 1),
    Figure("start_s", "process start to first object ready, s", 2),
    Figure("rss_mb", "memory at the end, MB", 0),
    Figure("idle_ms_s", "CPU a second while nothing happens, ms", 2),
    Figure("idle_requests", "requests while nothing happens", 0),
    Figure("restart_cpu_s", "restart with nothing to do: CPU, s", 2),
    Figure("restart_writes", "restart with nothing to do: writes", 0),
)


class Bench:
    """A real API server with the Widgets' definition, and what operators send to it."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, requests: AuditLog, folder: Path) -> None:
        self.cluster = cluster
        self.requests = requests
        self._kubeconfig = kubeconfig
        self._folder = folder

    @asynccontextmanager
    async def running(self, peer: Peer) -> AsyncGenerator[Program]:
        """The operator of a tool kit, for as long as the block lasts."""
        environment = {**peer.environment, "KUBECONFIG": str(self._kubeconfig)}
        async with running(peer.widgets, self._folder / f"{peer.name}.log", environment) as operator:
            yield operator


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        requests = AuditLog(folder)
        say("Starting etcd and kube-apiserver ...")
        async with RealControlPlane(controllers=False, api_server_arguments=requests.arguments) as control_plane:
            cluster = Cluster(control_plane.config, folder)
            try:
                await cluster.install(Widget)
                yield Bench(cluster, control_plane.kubeconfig_for(OPERATOR, ["system:masters"]), requests, folder)
            finally:
                await cluster.close()


async def measure(peers: Sequence[Peer], objects: int, repetitions: int) -> Medians:
    """The medians by figure and peer."""
    async with bench() as there:

        async def run(peer: Peer) -> Run:
            return await _run(peer, there, objects)

        return await in_turns(peers, repetitions, run, FIGURES)


async def _run(peer: Peer, there: Bench, objects: int) -> Run:
    """One repetition; leaves nothing on the server."""
    others = [f"widget-{number}" for number in range(1, objects)]
    async with Fleet(there.cluster.client, remove=True) as widgets:
        await widgets.create([_FIRST])
        start_s = median([await _start(peer, there, widgets) for _ in range(_STARTS)])
        await widgets.update([_FIRST])
        async with there.running(peer) as operator:
            await widgets.converged()  # so that it has started
            costs = await _work(there, operator, widgets, others)
            latency_ms = median([await _latency(widgets) for _ in range(_ONE_AT_A_TIME)]) * 1e3
            rss_mb = operator.rss / _MB
            rest = await _nothing(there, operator)
            await widgets.check()
        again = await _restart(peer, there)
        return {"start_s": start_s, **costs, "latency_ms": latency_ms, "rss_mb": rss_mb, **rest, **again}


async def _start(peer: Peer, there: Bench, widgets: Fleet) -> float:
    """Seconds from the start of a process to the status of the one object that has something to be done."""
    await widgets.update([_FIRST])
    began = perf_counter()
    async with there.running(peer):
        await widgets.converged()
        return perf_counter() - began


async def _work(there: Bench, operator: Program, widgets: Fleet, names: Sequence[str]) -> Run:
    """What objects cost that are created, updated, and changed in what is nobody's concern."""
    steps = {"created": widgets.create, "updated": widgets.update, "unchanged": widgets.touch}
    run: dict[str, float] = {}
    for step, change in steps.items():
        await operator.settle()
        there.requests.take()
        before = operator.cpu
        await change(names)
        await widgets.converged()
        await operator.settle()
        run[f"cpu_ms_{step}"] = (operator.cpu - before) / len(names) * 1e3
        run[f"requests_{step}"] = there.requests.take().sent / len(names)
    return run


async def _nothing(there: Bench, operator: Program) -> Run:
    """What an operator does when nothing happens."""
    await operator.settle()
    there.requests.take()
    before = operator.cpu
    await asyncio.sleep(_IDLE)
    return {"idle_ms_s": (operator.cpu - before) / _IDLE * 1e3, "idle_requests": there.requests.take().sent}


async def _restart(peer: Peer, there: Bench) -> Run:
    """What an operator does when it starts and finds all objects as they should be."""
    requests = there.requests.take()
    async with there.running(peer) as operator:
        while not requests["watch"]:
            await asyncio.sleep(_PAUSE)
            requests += there.requests.take()
        await operator.settle()
        requests += there.requests.take()
        return {"restart_cpu_s": operator.cpu, "restart_writes": requests.writes}


async def _latency(widgets: Fleet) -> float:
    """Seconds from an update to the status that is about it, with nothing else to do."""
    await asyncio.sleep(_PAUSE)
    began = perf_counter()
    await widgets.update([_FIRST])
    await widgets.converged()
    return perf_counter() - began
