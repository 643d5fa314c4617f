"""The same operator in each toolkit, each in its own process, on one real API server.

Only etcd and kube-apiserver run: the operator is the only controller. In each repetition, each operator is a new
process and gets the same work. Widgets are created, updated, changed where the operator does not look, and updated one
at a time. Then nothing happens for a while. Then the operator restarts and finds all Widgets converged.
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
"""Seconds after which an operator has finished the work of an update, so that the next update finds it idle."""
_IDLE: Final = 3.0
_MB: Final = 1e6

FIGURES: Final = (
    Figure("cpu_ms_created", "CPU per created object, ms", 2),
    Figure("cpu_ms_updated", "CPU per updated object, ms", 2),
    Figure("cpu_ms_unchanged", "CPU per reconcile with nothing to do, ms", 2),
    Figure("requests_created", "requests per created object", 2),
    Figure("requests_updated", "requests per updated object", 2),
    Figure("requests_unchanged", "requests per reconcile with nothing to do", 2),
    Figure("latency_ms", "update to status, one at a time, ms", 1),
    Figure("start_s", "process start to first object ready, s", 2),
    Figure("rss_mb", "memory at the end, MB", 0),
    Figure("idle_ms_s", "idle: CPU per second, ms", 2),
    Figure("idle_requests", "idle: requests", 0),
    Figure("restart_cpu_s", "restart with nothing to do: CPU, s", 2),
    Figure("restart_writes", "restart with nothing to do: writes", 0),
)


class Bench:
    """A real API server with the CRD of Widget, and the requests that operators send to it."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, requests: AuditLog, folder: Path) -> None:
        self.cluster = cluster
        self.requests = requests
        self._kubeconfig = kubeconfig
        self._folder = folder

    @asynccontextmanager
    async def running(self, peer: Peer) -> AsyncGenerator[Program]:
        """Run the operator of a toolkit for the duration of the block."""
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
    """Return medians by figure and peer."""
    async with bench() as server:

        async def run(peer: Peer) -> Run:
            return await _run(peer, server, objects)

        return await in_turns(peers, repetitions, run, FIGURES)


async def _run(peer: Peer, server: Bench, objects: int) -> Run:
    """Run one repetition, and delete all objects."""
    others = [f"widget-{number}" for number in range(1, objects)]
    async with Fleet(server.cluster.client, remove=True) as widgets:
        await widgets.create([_FIRST])
        start_s = median([await _start(peer, server, widgets) for _ in range(_STARTS)])
        await widgets.update([_FIRST])
        async with server.running(peer) as operator:
            await widgets.converged()  # the operator has started
            costs = await _work(server, operator, widgets, others)
            latency_ms = median([await _latency(widgets) for _ in range(_ONE_AT_A_TIME)]) * 1e3
            rss_mb = operator.rss / _MB
            idle = await _idle(server, operator)
            await widgets.check()
        restart = await _restart(peer, server)
        return {"start_s": start_s, **costs, "latency_ms": latency_ms, "rss_mb": rss_mb, **idle, **restart}


async def _start(peer: Peer, server: Bench, widgets: Fleet) -> float:
    """Return the seconds from the start of a process to the status of the one object that needs work."""
    await widgets.update([_FIRST])
    began = perf_counter()
    async with server.running(peer):
        await widgets.converged()
        return perf_counter() - began


async def _work(server: Bench, operator: Program, widgets: Fleet, names: Sequence[str]) -> Run:
    """Measure objects that are created, updated, and changed where the operator does not look."""
    steps = {"created": widgets.create, "updated": widgets.update, "unchanged": widgets.touch}
    run: dict[str, float] = {}
    for step, change in steps.items():
        await operator.settle()
        server.requests.take()
        before = operator.cpu
        await change(names)
        await widgets.converged()
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


async def _latency(widgets: Fleet) -> float:
    """Return the seconds from an update to its status, with no other work."""
    await asyncio.sleep(_PAUSE)
    began = perf_counter()
    await widgets.update([_FIRST])
    await widgets.converged()
    return perf_counter() - began
