"""A cache of many Pods in each toolkit, each in its own process, on one real API server.

Measured is the first list, until the process has all Pods and is idle. Then some Pods are updated and others deleted.
The cache must receive these changes: the number of Pods and a random sample of them must match the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import msgspec

from benchmarks.peers import Peer
from benchmarks.pods import Known, Pods, pods
from benchmarks.process import Program, running
from benchmarks.report import Figure, Measured, NotMeasured, Run, in_turns, say
from kubewright.testing._cluster import Cluster
from kubewright_controlplane.real import RealControlPlane

_SAMPLED: Final = 50
_LISTED_WITHIN: Final = 600.0
"""Timeout in seconds of a first list. The slowest toolkit needs minutes for 100,000 objects."""
_CATCHES_UP_WITHIN: Final = 30.0
_LOOK: Final = 0.1
_MB: Final = 1e6


class Answer(msgspec.Struct):
    """What a program reports about its cache."""

    count: int
    pods: dict[str, list[str]]


def figures(prefix: str, count: int) -> tuple[Figure, ...]:
    """Return the figures for `count` Pods."""
    return (
        Figure(f"{prefix}_rss_mb", f"{count:,} Pods cached: memory, MB", 0, depends_on_load=False),
        Figure(f"{prefix}_peak_mb", f"{count:,} Pods cached: peak memory, MB", 0, depends_on_load=False),
        Figure(f"{prefix}_cpu_s", f"{count:,} Pods cached: CPU to sync, s", 2),
        Figure(f"{prefix}_sync_s", f"{count:,} Pods cached: process start to sync, s", 2),
    )


async def measure(prefix: str, peers: Sequence[Peer], count: int, repetitions: int) -> Measured:
    """Return the values by figure and peer. Raises NotMeasured if a cache is wrong."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        say(f"Starting etcd and kube-apiserver, and creating {count:,} Pods ...")
        async with RealControlPlane(controllers=False) as control_plane:
            cluster = Cluster(control_plane.config, folder)
            try:
                async with pods(control_plane, cluster.client) as served:
                    size = await served.create(count)
                    say(f"  size of a Pod: {size:,} bytes of JSON")
                    kubeconfig = cluster.kubeconfig()

                    async def run(peer: Peer) -> Run:
                        return await _run(prefix, peer, served, kubeconfig, folder)

                    return await in_turns(peers, repetitions, run, figures(prefix, count))
            finally:
                await cluster.close()


async def _run(prefix: str, peer: Peer, served: Pods, kubeconfig: Path, folder: Path) -> Run:
    environment = {**peer.environment, "KUBECONFIG": str(kubeconfig)}
    began = perf_counter()
    async with running(peer.pods, folder / f"{peer.name}.log", environment, answers=True) as program:
        async with asyncio.timeout(_LISTED_WITHIN):
            while (await _ask(program)).count < served.count:  # noqa: ASYNC110 - another process counts
                await asyncio.sleep(_LOOK)
        synced = perf_counter() - began
        await program.settle()
        run = {
            f"{prefix}_rss_mb": program.rss / _MB,
            f"{prefix}_peak_mb": program.peak_rss / _MB,
            f"{prefix}_cpu_s": program.cpu,
            f"{prefix}_sync_s": synced,
        }
        await _check(peer, program, served)
        return run


async def _check(peer: Peer, program: Program, served: Pods) -> None:
    """Raise NotMeasured unless the cache receives changes and matches the API server."""
    await served.change_some()
    known = await served.sample(_SAMPLED)
    wrong = ""
    for _ in range(int(_CATCHES_UP_WITHIN / _LOOK)):
        wrong = difference(served.count, known, await _ask(program, *known))
        if not wrong:
            return
        await asyncio.sleep(_LOOK)
    raise NotMeasured(f"the cache of {peer.name} is wrong: {wrong}")


def difference(count: int, known: Known, answer: Answer) -> str:
    """Describe what is wrong with an answer. Returns an empty string if it is correct."""
    if answer.count != count:
        return f"it has {answer.count} Pods, the server {count}"
    for name, facts in known.items():
        if answer.pods.get(name) != facts:
            return f"{name} is {answer.pods.get(name)}, on the server {facts}"
    return ""


async def _ask(program: Program, *names: str) -> Answer:
    return msgspec.json.decode(await program.ask(" ".join(names)), type=Answer)
