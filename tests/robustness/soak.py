"""Hours of churn, and the memory of the processes: `make soak HOURS=3`.

An embedded control plane and two operators, each a process of its own. Gizmos are created, changed and deleted, with
new names; WebServers, with their Deployments and Pods, are created, changed, damaged and deleted. Once a minute a line
says how much memory each process has. In the end the last quarter of the time is held against the second: a process
that has grown by more than a tenth ends this one with status 1. For Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from integration.command import up
from integration.gizmo_operator import Gizmo
from kubewright import Config
from kubewright.testing import Cluster
from robustness.gizmos import Gizmos
from robustness.processes import operator
from robustness.webservers import Churn
from webserver_operator.api.v1.webserver import WebServer

GIZMOS = 40
WEBSERVERS = 20
PAUSE = 0.2
MINUTE = 60.0
ALLOWED = 1.1


class Memory:
    """The memory of processes over time."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._samples: dict[str, list[float]] = {name: [] for name in pids}

    def sample(self) -> str:
        """Measure the memory now. Returns a line of text."""
        for name, pid in self._pids.items():
            self._samples[name].append(resident(pid))
        return "  ".join(f"{name} {samples[-1]:.1f} MB" for name, samples in self._samples.items())

    def grown(self) -> dict[str, float]:
        """Return the ratio of memory in the last quarter to the second quarter, by name."""
        found: dict[str, float] = {}
        for name, samples in self._samples.items():
            quarter = max(1, len(samples) // 4)
            found[name] = median(samples[-quarter:]) / median(samples[quarter : 2 * quarter] or samples[:1])
        return found


def resident(pid: int) -> float:
    """Megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"process {pid} has ended")


async def soak(seconds: float, folder: Path) -> bool:
    """Return whether memory stayed flat."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(up(folder, "--port", 0))
        cluster = Cluster(Config.from_kubeconfig(server.kubeconfig), folder)
        stack.push_async_callback(cluster.close)
        await cluster.install(Gizmo)
        await cluster.install(WebServer)
        pids = {"server": server.pid}
        for module in ("integration.gizmo_operator", "webserver_operator.main"):
            started = operator(module, server.kubeconfig, folder / f"{module}.log", ["--leader-elect=false"])
            pids[module] = (await stack.enter_async_context(started)).pid
        memory = Memory(pids)
        churn = Churn(cluster.client, "default", WEBSERVERS, random.Random(0))
        churning = asyncio.create_task(churn.run(PAUSE))
        rounds = 0
        async with cluster.namespace() as namespace:
            gizmos = Gizmos(cluster.client, namespace)
            begin = told = time.monotonic()
            while time.monotonic() < begin + seconds:
                await gizmos.come_and_go(f"round-{rounds}", GIZMOS)
                rounds += 1
                if churning.done():
                    churning.result()
                if time.monotonic() > told + MINUTE:
                    told += MINUTE
                    minutes = (told - begin) / 60
                    print(f"{minutes:4.0f} min  {rounds} rounds  {memory.sample()}  {dict(churn.done)}", flush=True)
        churning.cancel()
    print("\n".join(f"{name}: {ratio:.3f} times what it was" for name, ratio in memory.grown().items()))
    return all(ratio < ALLOWED for ratio in memory.grown().values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=3.0)
    with TemporaryDirectory(prefix="kubewright-soak-") as folder:
        sys.exit(0 if asyncio.run(soak(parser.parse_args().hours * 3600, Path(folder))) else 1)


if __name__ == "__main__":
    main()
