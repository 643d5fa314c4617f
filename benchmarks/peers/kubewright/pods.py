"""Caches all Pods of a cluster in Kubewright's cache: see `benchmarks.peers`."""

import asyncio
import json
import sys

from kubewright import Manager
from kubewright.apis.core.v1 import Pod

NOTE = "bench.kubewright.dev/note"

manager = Manager(name="pods.bench.kubewright.dev")


async def answer() -> None:
    """Read lines of Pod names, and write what the cache holds."""
    pods = (await manager.client.cache.ready(Pod)).lister
    while line := await asyncio.to_thread(sys.stdin.readline):
        found = {name: pod for name in line.split() if (pod := pods.get(name, "default"))}
        facts = {name: [pod.metadata.resource_version, pod.metadata.annotations[NOTE]] for name, pod in found.items()}
        print(json.dumps({"count": len(pods), "pods": facts}), flush=True)


manager.add(answer)

if __name__ == "__main__":
    manager.main()
