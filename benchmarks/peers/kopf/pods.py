"""The Pods of a whole cluster in an index of Kopf, and answers about them: see `benchmarks.peers`."""

import asyncio
import json
import sys

import kopf

NOTE = "bench.kubewright.dev/note"


@kopf.on.login()
def login(**kwargs):
    """Without the official client, which this program does not need, and which takes 50 MB."""
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.index("pods")
def pods(namespace, name, body, **_):
    return {(namespace, name): body}


@kopf.on.startup()
async def start(memo, pods, **_):
    memo.answering = asyncio.create_task(answer(pods))


async def answer(pods):
    """Read lines with the names of Pods, and write what the index holds."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = {}
        for name in line.split():
            for body in pods.get(("default", name), []):
                told[name] = [body.metadata["resourceVersion"], body.metadata.annotations[NOTE]]
        print(json.dumps({"count": len(pods), "pods": told}), flush=True)
