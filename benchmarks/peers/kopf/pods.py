"""Caches all Pods of a cluster in the memory of a Kopf operator: see `benchmarks.peers`.

Kopf's own way is an index. Its cost grows with the square of the number of objects, because each indexed object wakes
all tasks that wait for the index to be complete; 10,000 would take many minutes. An event handler that fills a dict is
the cheapest way that Kopf has.
"""

import asyncio
import json
import sys

import kopf

NOTE = "bench.kubewright.dev/note"


@kopf.on.login()
def login(**kwargs):
    """Log in without the official client, which this program does not need and which takes 50 MB."""
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.startup()
async def start(memo, **_):
    memo.pods = {}
    memo.answering = asyncio.create_task(answer(memo.pods))


@kopf.on.event("pods")
async def take(type, namespace, name, body, memo, **_):
    if type == "DELETED":
        memo.pods.pop((namespace, name), None)
    else:
        memo.pods[namespace, name] = dict(body)


async def answer(pods):
    """Read lines of Pod names, and write what is cached."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        found = {}
        for name in line.split():
            if metadata := pods.get(("default", name), {}).get("metadata"):
                found[name] = [metadata["resourceVersion"], metadata["annotations"][NOTE]]
        print(json.dumps({"count": len(pods), "pods": found}), flush=True)
