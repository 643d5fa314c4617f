"""Hours of churn, and the memory of the processes: `make soak HOURS=3`.

An embedded control plane and two operators, each a process of its own. Gizmos are created, changed and deleted, with
new names; WebServers, with their Deployments and Pods, are created, changed, damaged and deleted. Once a minute a line
says how much memory each process has, and what the server keeps. In the end the last quarter of the time is compared
with the second: a process that has grown by more than a tenth ends this one with status 1. For Linux.

The server keeps Events for an hour and changes for five minutes, so its memory rises until the churn has lasted as
long. A soak of less than six hours keeps both for shorter: Events for a sixth of the time, and changes at most as long.
Then the memory is final before the second quarter begins.

What the memory of the server consists of, measured with CPython 3.11:

    75 MB   code, schemas and built-in objects
    2.2 kB  for each Event: half of it is JSON, the rest its key and the values of its field selectors
    0.8 kB  for each change in the history, and the JSON of the object
    0.9 kB  for each series of Events in the controllers: those of the last six minutes, at most 4,096

Nothing else grows. With ten times the churn of this program, Events of four minutes and changes of two, the server
had 249 MB after six minutes and 252 MB after ten, 13 MB of it Events and 58 MB changes. Between the peaks up to 47 MB
of the C heap were free: memory of dropped changes is reused, but not all of it is returned.

A soak of two hours (`HOURS=2`) on a busy machine, 2026-11-23, 7,100 rounds: from the second to the last quarter
the server grew 1.039 times (to 237 MB), the operator of the Gizmos 1.000 times (43 MB), that of the WebServers 1.072
times (50 MB). The three hours of `make soak HOURS=3` have not been run yet.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from prometheus_client.parser import text_string_to_metric_families

from integration.command import up
from integration.gizmo_operator import Gizmo
from kubewright import Client, Config
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
EVENT_SECONDS, HISTORY_SECONDS = 3600.0, 300.0
"""The defaults of the server."""
SERVER = Path(__file__).with_name("soakserver.py")


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


async def kept(client: Client) -> str:
    """Return what the server keeps, from its metrics."""
    text = await client.rest.request("GET", "/metrics")
    total, events = defaultdict[str, float](float), defaultdict[str, float](float)
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            total[sample.name] += sample.value
            if sample.labels.get("resource") == "events":
                events[sample.name] += sample.value
    count, size = "apiserver_storage_objects", "apiserver_resource_size_estimate_bytes"
    return (
        f"{events[count]:.0f} Events {events[size] / 1e6:.1f} MB"
        f"  {total[count] - events[count]:.0f} other objects {(total[size] - events[size]) / 1e6:.1f} MB"
        f"  {total['kubewright_history_events']:.0f} changes {total['kubewright_history_bytes'] / 1e6:.1f} MB"
    )


async def soak(seconds: float, folder: Path) -> bool:
    """Return whether memory stayed flat."""
    event_seconds = min(EVENT_SECONDS, seconds / 6)
    lifetimes = ("--event-seconds", event_seconds, "--history-seconds", min(HISTORY_SECONDS, event_seconds))
    print(f"Events are kept for {event_seconds:.0f} s, changes for {lifetimes[-1]:.0f} s.", flush=True)
    async with AsyncExitStack() as stack:
        kubeconfig = folder / "kubeconfig"
        server = stack.enter_context(
            up(folder, kubeconfig, *lifetimes, command=(sys.executable, SERVER), kubeconfig=kubeconfig)
        )
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
                    print(f"          server: {await kept(cluster.client)}", flush=True)
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
