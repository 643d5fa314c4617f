"""Work of Kubewright in one process, without sockets, to count its instructions: see `benchmarks.instructions`.

    python -m benchmarks.counted reconcile created=128 updated=64
    python -m benchmarks.counted server create=64 get=32 patch=32 apply=32
    python -m benchmarks.counted pods listed=500 --file pods.jsonl

Garbage collection is off. When it runs depends on the number of all earlier allocations, so a small change anywhere
would move a whole collection into or out of the measured part.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from benchmarks.peers.kubewright import widgets
from benchmarks.reconciles import Answers, operator, turns
from kubewright.apis.core.v1 import ConfigMap, Pod
from kubewright.cache._cache import Cache
from kubewright.client._client import Client
from kubewright.controllers import controller
from kubewright.http.message import Pipe, Request, Response
from kubewright.manager._program import loop_factory

Counts: TypeAlias = Mapping[str, int]
"""The number of times of each step."""

AT_ONCE: Final = 16
_CHUNK: Final = 65536
_PATH: Final = "/apis/apps/v1/namespaces/default/deployments"
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"


async def reconcile(counts: Counts, *, one_pass: bool = False) -> None:
    """Reconcile Widgets with canned responses: some are created, and some of these updated, 16 at a time."""
    reconcile = controller(widgets.Widget, owns=[ConfigMap], one_pass=one_pass)(widgets.reconcile.reconcile)
    answers = Answers()
    async with operator(answers, reconcile):
        for step, change in (("created", answers.create), ("updated", answers.update)):
            for number in range(counts[step]):
                change(f"widget-{number}")
                if (number + 1) % AT_ONCE == 0:
                    await turns()
        if not answers.converged:
            raise RuntimeError("an object did not converge")


async def server(counts: Counts) -> None:
    """Send requests to the embedded API server, without HTTP."""
    from benchmarks.apiservers import deployment
    from kubewright_controlplane.apiserver.options import ServerOptions
    from kubewright_controlplane.apiserver.server import APIServer
    from kubewright_controlplane.apiserver.user import UserInfo

    api = APIServer(ServerOptions(tokens={"admin": UserInfo("admin", ("system:masters",))}))
    await api.start()
    scaled = msgspec.json.encode({"spec": {"replicas": 3}})
    forced = "?fieldManager=bench&force=true"

    def requests(step: str, name: str) -> Request:
        path = f"{_PATH}/{name}"
        match step:
            case "create":
                return _request("POST", _PATH, deployment(name, "nginx:1.23.0"))
            case "get":
                return _request("GET", path)
            case "patch":
                return _request("PATCH", path, scaled, _MERGE)
            case _:
                return _request("PATCH", path + forced, deployment(name, "nginx:1.23.1"), _APPLY)

    try:
        for step, count in counts.items():
            for number in range(count):
                name = f"web-{number % counts['create']}"
                response = await api.handle(requests(step, name))
                answer = await response.read()
                if response.status >= 300:
                    raise RuntimeError(f"{step} was answered with {response.status}: {answer.decode()}")
    finally:
        await api.close()


def _request(method: str, target: str, body: bytes = b"", content_type: str = _JSON) -> Request:
    headers = {
        "user-agent": "bench/1.0",
        "content-type": content_type,
        "accept": _JSON,
        "authorization": "Bearer admin",
    }
    return Request(method, target, headers, body)


async def pods(counts: Counts, file: Path) -> None:
    """List Pods into a cache. Each line of the file is one event of the watch that lists them."""
    with file.open("rb") as lines:
        events = b"".join(next(lines) for _ in range(counts["listed"]))
    client = Client(transport=_Listed(events), user_agent="bench", field_manager="bench")
    cache = Cache(client)
    cache.start()
    try:
        informer = await cache.ready(Pod)
        if (found := len(informer.lister)) != counts["listed"]:
            raise RuntimeError(f"the cache has {found} Pods, not {counts['listed']}")
    finally:
        await cache.stop()


class _Listed:
    """A `Transport` whose only answer is a watch that begins with a list."""

    def __init__(self, events: bytes) -> None:
        self._events = events

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        pipe = Pipe()
        end = {"resourceVersion": "100", "annotations": {"k8s.io/initial-events-end": "true"}}
        bookmark = {"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": end}}
        asyncio.get_running_loop().create_task(self._write(pipe, msgspec.json.encode(bookmark) + b"\n"))
        return Response(200, {"content-type": _JSON}, pipe)

    async def _write(self, pipe: Pipe, end: bytes) -> None:
        """Write the events in pieces, as they arrive from a socket."""
        for start in range(0, len(self._events), _CHUNK):
            pipe.write(self._events[start : start + _CHUNK])
            await asyncio.sleep(0)
        pipe.write(end)

    async def close(self) -> None:
        """Nothing to close."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counted", description=__doc__)
    parser.add_argument("program", choices=("reconcile", "server", "pods"))
    parser.add_argument("counts", nargs="+", metavar="STEP=NUMBER")
    parser.add_argument("--one-pass", action="store_true")
    parser.add_argument("--file", type=Path, default=Path("pods.jsonl"))
    arguments = parser.parse_args()
    counts = {step: int(number) for step, _, number in (each.partition("=") for each in arguments.counts)}
    programs: dict[str, Callable[[], Coroutine[object, object, None]]] = {
        "reconcile": lambda: reconcile(counts, one_pass=arguments.one_pass),
        "server": lambda: server(counts),
        "pods": lambda: pods(counts, arguments.file),
    }
    gc.disable()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(programs[arguments.program]())


if __name__ == "__main__":
    main()
