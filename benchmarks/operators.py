"""The same operator in Kubewright and its peers, each a process of its own, on one real control plane.

API server and etcd only: no controller but the operator acts. Each operator is started afresh for each repetition, one
after the other in turns, and finds the same work: Widgets that are created, updated, and updated one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks import report
from benchmarks.fleet import Fleet, fleet
from benchmarks.peers import CONTROLLER_RUNTIME, KUBEWRIGHT, Peer
from benchmarks.peers.kubewright.widgets import Widget
from benchmarks.process import running
from benchmarks.report import Figure, Medians, say
from kubewright.testing.cluster import Cluster
from kubewright.testing.realcontrolplane import RealControlPlane

_ONE_AT_A_TIME: Final = 100
_FIRST: Final = "first"
_PAUSE: Final = 0.02
"""Seconds after which an operator has done what follows an update, so that the next finds it idle."""


@dataclass(frozen=True)
class Run:
    """What one operator did in one repetition."""

    cpu_ms_created: float
    """CPU of the operator for an object that was created, until its status said so."""
    cpu_ms_updated: float
    """The same for an object that was updated."""
    latency_ms: float
    """From an update to the status that is about it, one at a time: the median."""
    start_s: float
    """From the start of the process to the status of the one object that was there."""
    rss_mb: float
    """Resident memory at the end."""


FIGURES: Final = (
    Figure("cpu_ms_created", "CPU an object created, ms", 2, bar=0.4),
    Figure("cpu_ms_updated", "CPU an object updated, ms", 2, bar=0.4),
    Figure("latency_ms", "update to status, one at a time, ms", 1, bar=1.0),
    Figure("start_s", "process start to first object ready, s", 2, bar=1.0),
    Figure("rss_mb", "memory at the end, MB", 0, bar=1.0),
)


async def measure(peers: Sequence[Peer], objects: int, repetitions: int) -> dict[str, dict[str, float]]:
    """The medians by figure and peer."""
    runs: dict[str, list[Run]] = {peer.name: [] for peer in peers}
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        say("Starting etcd and kube-apiserver ...")
        async with RealControlPlane(controllers=False) as control_plane:
            cluster = Cluster(control_plane.config, folder)
            try:
                await cluster.install(Widget)
                for repetition in range(1, repetitions + 1):
                    for peer in peers if repetition % 2 else reversed(peers):
                        run = await _run(peer, cluster, objects, folder)
                        runs[peer.name].append(run)
                        say(f"  [{repetition}/{repetitions}] {peer.name}: {_told(run)}")
            finally:
                await cluster.close()
    return {
        figure.name: {peer: median(getattr(run, figure.name) for run in of_peer) for peer, of_peer in runs.items()}
        for figure in FIGURES
    }


def table(medians: Medians) -> str:
    return report.table("operator", FIGURES, medians, ours=KUBEWRIGHT, yardstick=CONTROLLER_RUNTIME)


async def _run(peer: Peer, cluster: Cluster, objects: int, folder: Path) -> Run:
    flags = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")
    command = (*peer.command, f"--kubeconfig={cluster.kubeconfig()}", *flags)
    others = [f"widget-{number}" for number in range(1, objects)]
    async with fleet(cluster.client) as widgets:
        await widgets.create([_FIRST])
        began = perf_counter()
        async with running(command, folder / f"{peer.name}.log", peer.environment) as operator:
            await widgets.converged()
            start = perf_counter() - began
            await operator.settle()
            idle = operator.cpu
            await widgets.create(others)
            await widgets.converged()
            await operator.settle()
            created = operator.cpu
            await widgets.update(*others)
            await widgets.converged()
            await operator.settle()
            updated = operator.cpu
            latencies = [await _latency(widgets) for _ in range(_ONE_AT_A_TIME)]
            await widgets.check()
            return Run(
                cpu_ms_created=(created - idle) / len(others) * 1e3,
                cpu_ms_updated=(updated - created) / len(others) * 1e3,
                latency_ms=median(latencies) * 1e3,
                start_s=start,
                rss_mb=operator.rss / 1e6,
            )


async def _latency(widgets: Fleet) -> float:
    """Seconds from an update to the status that is about it, with nothing else to do."""
    await asyncio.sleep(_PAUSE)
    began = perf_counter()
    await widgets.update(_FIRST)
    await widgets.converged()
    return perf_counter() - began


def _told(run: Run) -> str:
    return (
        f"{run.cpu_ms_created:.2f} ms CPU an object created, {run.cpu_ms_updated:.2f} updated; "
        f"{run.latency_ms:.1f} ms to status; started in {run.start_s:.2f} s; {run.rss_mb:.0f} MB"
    )
