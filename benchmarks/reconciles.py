"""CPU time of the SDK per object, without the network: the Widget operator with canned responses, in one process.

Nothing sleeps and no other process runs in between, so the result is the SDK's own work, with warm CPU caches. The
program needs no API server and takes seconds: use it to compare two versions of the SDK. With a real API server, an
object costs several times as much (`PROFILE.md`). Run it with `python -m benchmarks.reconciles`. The result is the
minimum of several rounds, in microseconds, without the cost of the responses.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from benchmarks.peers.kubewright import widgets
from benchmarks.peers.kubewright.widgets import Widget
from kubewright.apis.core.v1 import ConfigMap
from kubewright.cache._cache import Cache, Scope
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.controllers import Controller, controller
from kubewright.controllers._loop import ControlLoop
from kubewright.http.message import Pipe, Request, Response
from kubewright.machinery.json import JSONArray, JSONObject
from kubewright.machinery.patch import json_patch
from kubewright.manager._metrics import Metrics
from kubewright.manager._program import loop_factory
from kubewright.models import Object

_OBJECTS: Final = 1000
_ROUNDS: Final = 7
_TURNS: Final = 40
"""Iterations of the event loop that are enough to finish all work of an object."""
_KINDS: Final[dict[str, type[Object]]] = {"configmaps": ConfigMap, "widgets": Widget}
_MANAGER: Final = "widget.bench.kubewright.dev"
_SINCE: Final = "2026-01-02T03:04:05Z"
_HEADERS: Final = {"content-type": "application/json", "audit-id": "f0c1a3c8-0c39-4d4b-9f0e-0c6a3c2d5b11"}


class Answers:
    """The responses of an API server to the operator. It is a `Transport`, so that no transport is measured."""

    def __init__(self) -> None:
        self.cpu = 0.0
        """CPU seconds that the responses took."""
        self._version = 100
        self._widgets: dict[str, JSONObject] = {}
        self._config_maps: dict[str, JSONObject] = {}
        self._watches: dict[str, Pipe] = {}

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        began = time.process_time()
        try:
            return self._answer(request)
        finally:
            self.cpu += time.process_time() - began

    async def close(self) -> None:
        """Nothing to close."""

    def create(self, name: str) -> None:
        """Create a Widget, as a user would."""
        fields: JSONObject = {"f:spec": {".": {}, "f:message": {}, "f:size": {}}}
        self._widgets[name] = {
            "apiVersion": "bench.kubewright.dev/v1",
            "kind": "Widget",
            "metadata": self._metadata(name, "Update", "kubectl", fields) | {"generation": 1},
            "spec": {"message": "hello", "size": 3},
        }
        self._send("widgets", "ADDED", self._widgets[name])

    def update(self, name: str) -> None:
        """Change a Widget, as a user would."""
        widget = self._widgets[name]
        widget["spec"] = {"message": f"hello again, {name}", "size": 3}
        widget["metadata"]["generation"] += 1
        self._write("widgets", "MODIFIED", widget)

    @property
    def converged(self) -> bool:
        return all(
            each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"]
            for each in self._widgets.values()
        )

    def _answer(self, request: Request) -> Response:
        parts = request.path.split("/")
        if "watch=true" in request.query:
            return Response(200, _HEADERS, self._watch(parts[-1]))
        if parts[-2] == "configmaps":
            stated = msgspec.json.decode(request.body, type=JSONObject)
            return Response(200, _HEADERS, self._apply(parts[-1], stated))
        operations = msgspec.json.decode(request.body, type=JSONArray)
        return Response(200, _HEADERS, self._write_status(parts[-2], operations))

    def _watch(self, resource: str) -> Pipe:
        """Return an empty watch, which begins with the end of the first list."""
        pipe = self._watches[resource] = Pipe()
        kind = _KINDS[resource].__api__
        end = {"resourceVersion": "100", "annotations": {"k8s.io/initial-events-end": "true"}}
        self._send(resource, "BOOKMARK", {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": end})
        return pipe

    def _apply(self, name: str, stated: JSONObject) -> bytes:
        owners = stated["metadata"]["ownerReferences"]
        owned: JSONObject = {f'k:{{"uid":"{owners[0]["uid"]}"}}': {}}
        fields: JSONObject = {"f:data": {"f:message": {}, "f:size": {}}, "f:metadata": {"f:ownerReferences": owned}}
        if (known := self._config_maps.get(name)) is not None:
            known["data"] = stated["data"]
            return self._write("configmaps", "MODIFIED", known)
        metadata = self._metadata(name, "Apply", _MANAGER, fields) | {"ownerReferences": owners}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": stated["data"]}
        self._config_maps[name] = config_map
        return self._send("configmaps", "ADDED", config_map)

    def _write_status(self, name: str, operations: JSONArray) -> bytes:
        widget = self._widgets[name] = json_patch(self._widgets[name], operations)
        return self._write("widgets", "MODIFIED", widget)

    def _metadata(self, name: str, operation: str, manager: str, fields: JSONObject) -> JSONObject:
        self._version += 1
        owner = {"manager": manager, "operation": operation, "time": _SINCE}
        return {
            "name": name,
            "namespace": "default",
            "uid": f"11111111-2222-3333-4444-{self._version:012}",
            "resourceVersion": str(self._version),
            "creationTimestamp": _SINCE,
            "managedFields": [{**owner, "fieldsType": "FieldsV1", "fieldsV1": fields}],
        }

    def _write(self, resource: str, event: str, document: JSONObject) -> bytes:
        """Set the new version of a changed document, and return its bytes."""
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        return self._send(resource, event, document)

    def _send(self, resource: str, event: str, document: JSONObject) -> bytes:
        """Send an object to the watch, and return its bytes."""
        data = msgspec.json.encode(document)
        self._watches[resource].write(b'{"type":"%s","object":%s}\n' % (event.encode(), data))
        return data


@asynccontextmanager
async def operator(answers: Answers, reconcile: Controller[Widget]) -> AsyncGenerator[None]:
    """Run the Widget operator for the duration of the block."""
    client = Client(transport=answers, user_agent=_MANAGER, field_manager=_MANAGER)
    cache = Cache(client, scopes={ConfigMap: Scope(keep_managed_fields=True)})
    counts = Metrics(_MANAGER).controller(reconcile.name, reconcile.workers)
    loop = ControlLoop(reconcile, CachedClient(client, cache), cache, observer=counts)
    counts.queue = loop.queue
    loop.start()
    cache.start()
    await cache.wait_synced()
    running = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        loop.close()
        await running
        await cache.stop()


async def measure(reconcile: Controller[Widget], objects: int, together: int) -> dict[str, float]:
    """Return the CPU microseconds per object, by type of change. `together` objects change at a time."""
    answers = Answers()
    async with operator(answers, reconcile):
        gc.collect()
        gc.freeze()  # as a Manager does
        try:
            steps = {"created": answers.create, "updated": answers.update}
            return {step: await _cost(answers, change, objects, together) for step, change in steps.items()}
        finally:
            gc.unfreeze()


async def _cost(answers: Answers, change: Callable[[str], None], objects: int, together: int) -> float:
    """Return the CPU microseconds of the operator per changed object."""
    began, before = time.process_time(), answers.cpu
    for number in range(objects):
        change(f"widget-{number}")
        if (number + 1) % together == 0:
            await turns()
    await turns()
    spent = time.process_time() - began - (answers.cpu - before)
    idle = time.process_time()
    for _ in range(objects // together):
        await turns()
    idle = time.process_time() - idle
    if not answers.converged:
        raise RuntimeError(f"an object did not converge within {_TURNS} iterations of the event loop")
    return (spent - idle) / objects * 1e6


async def turns() -> None:
    """Let the event loop run until all work of some objects is finished."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reconciles", description=__doc__)
    parser.add_argument("--objects", type=int, default=_OBJECTS)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--one-pass", action="store_true", help="promise that one pass is enough")
    arguments = parser.parse_args()
    reconcile = controller(Widget, owns=[ConfigMap], one_pass=arguments.one_pass)(widgets.reconcile.reconcile)
    for together in (1, reconcile.workers):
        rounds: list[dict[str, float]] = []
        for _ in range(arguments.rounds):
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                rounds.append(runner.run(measure(reconcile, arguments.objects, together)))
        for step in rounds[0]:
            print(f"us of CPU per {step} object, {together:2} at a time: {min(each[step] for each in rounds):.0f}")


if __name__ == "__main__":
    main()
