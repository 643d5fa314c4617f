"""The Pods of a whole cluster in the memory of a Kopf operator, and answers about them: see `benchmarks.peers`.

Kopf's own means is an index. Its cost grows with the square of the number of objects, since each that is indexed wakes
all that wait for the index to be whole; ten thousand would take many minutes. A handler of events that fills a dict is
the cheapest that Kopf has.
"""

import asyncio
import json
import sys

import kopf

NOTE = "bench.kubewright.dev/note"


@kopf.on.login()
def login(**kwargs):
    """Without the official client, which this program does not need, and which takes 50 MB."""
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
    """Read lines with the names of Pods, and write what is held."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = {}
        for name in line.split():
            if metadata := pods.get(("default", name), {}).get("metadata"):
                told[name] = [metadata["resourceVersion"], metadata["annotations"][NOTE]]
        print(json.dumps({"count": len(pods), "pods": told}), flush=True)
