"""The cost of an event, a read or a write does not depend on the number of objects."""

import asyncio
import sys
from types import FrameType, TracebackType
from typing import Any

import pytest
from tests.unit.scripted import Server, Widget, added, bookmark, modified, settle, widget

from kubewright.cache import Cache, CachedClient, Scope
from kubewright.client import Client, MergePatch
from kubewright.machinery.json import JSONObject
from kubewright.testing import VirtualClock

FEW, MANY = 1_200, 6_000


class Steps:
    """Counts the executed lines of this project."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Steps":
        sys.settrace(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "kubewright" not in frame.f_code.co_filename:
            return None
        self.count += event == "line"
        return self._trace


def child(number: int, version: int) -> JSONObject:
    owner = {"apiVersion": "v1", "kind": "Box", "name": f"box-{number}", "uid": f"box-{number}", "controller": True}
    document = widget(f"w-{number}", version, ownerReferences=[owner], labels={"number": str(number)})
    document["spec"]["node"] = f"n-{number}"
    return document


async def costs(count: int) -> dict[str, int]:
    """Count the executed lines of common operations with `count` objects in the cache."""
    clock = VirtualClock()
    server = Server()
    client = Client(transport=server, clock=clock)
    cache = Cache(client, scopes={Widget: Scope(indexers={"node": lambda each: [each.spec.node]})})
    cached = CachedClient(client, cache)
    cache.start()
    informer = cache.informer(Widget)
    told: list[object] = []
    informer.add_handler(on_add=told.append, on_update=told.append, on_delete=told.append)
    stream = (await server.call()).stream()
    stream.send(*(added(child(number, number + 1)) for number in range(count)), bookmark(count, ends_list=True))
    await informer.wait_synced()
    found: dict[str, int] = {}

    with Steps() as steps:
        stream.send(modified(child(7, count + 1)))
        await settle()
    found["an event"] = steps.count

    with Steps() as steps:
        await cached.get(Widget, "w-7", namespace="d")
        await cached.list(Widget, owner="box-7")
        await cached.list(Widget, index=("node", "n-7"))
    found["reads"] = steps.count

    with Steps() as steps:
        patch = MergePatch({"spec": {"size": 1}})
        writing = asyncio.ensure_future(cached.patch(Widget, patch, name="w-7", namespace="d"))
        (await server.call()).answer(child(7, count + 2))
        await writing
        reading = asyncio.ensure_future(cached.list(Widget, owner="box-7"))
        await settle()
        stream.send(modified(child(7, count + 2)))
        assert len(await reading) == 1
    found["a write and a read that sees it"] = steps.count

    assert len(told) == count + 2
    await cache.stop()
    return found


async def test_cost_does_not_grow_with_the_number_of_objects() -> None:
    few, many = await costs(FEW), await costs(MANY)
    assert min(few.values()) > 20
    assert many == pytest.approx(few, rel=0.1)


async def test_an_idle_cache_sends_no_requests(server: Server, clock: VirtualClock, client: Client) -> None:
    cache = Cache(client)
    cache.start()
    cache.informer(Widget)
    stream = (await server.call()).stream()
    stream.send(added(widget("a", 3)), bookmark(9, ends_list=True))
    await cache.wait_synced()
    with Steps() as steps:
        for minute in range(2):
            await clock.advance(60)
            stream.send(bookmark(10 + minute))
            await settle()
    assert server.received == 1
    assert steps.count < 4 * 200
    await cache.stop()
