"""Writes of this process that were undone while no watch was connected are reported."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from tests.unit.scripted import (
    Call,
    Server,
    Stream,
    Widget,
    WidgetSpec,
    added,
    bookmark,
    deleted,
    modified,
    settle,
    widget,
)

from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache import Cache, CachedClient, Event, Scope
from kubewright.client import Client, MergePatch
from kubewright.testing import VirtualClock

OWNER = {"apiVersion": "example.com/v1", "kind": "Box", "name": "box", "uid": "u1", "controller": True}
DELETED = {"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "uid-a"}}


class Operator:
    """Reads, writes and watches Widgets."""

    def __init__(self, client: Client, server: Server, scope: Scope) -> None:
        self._server = server
        self.cache = Cache(client, scopes={Widget: scope})
        self.client = CachedClient(client, self.cache)
        self.events: list[Event[Widget]] = []
        note = self.events.append
        self.cache.informer(Widget).add_handler(on_add=note, on_update=note, on_delete=note)

    async def start(self, *documents: dict[str, Any], version: int = 10) -> Stream:
        self.cache.start()
        stream = (await self._server.call()).stream()
        stream.send(*map(added, documents), bookmark(version, ends_list=True))
        await self.cache.wait_synced()
        self.events.clear()
        return stream

    async def write(self, coroutine: Coroutine[Any, Any, Any], answer: dict[str, Any]) -> None:
        task = asyncio.ensure_future(coroutine)
        (await self._server.call()).answer(answer)
        await task

    async def create(self, answer: dict[str, Any]) -> None:
        metadata = ObjectMeta(name=answer["metadata"]["name"], namespace=answer["metadata"]["namespace"])
        await self.write(self.client.create(Widget(metadata=metadata, spec=WidgetSpec())), answer)

    async def patch(self, answer: dict[str, Any]) -> None:
        await self.write(self.client.patch(Widget, MergePatch({}), name="a", namespace="d"), answer)

    async def delete(self, answer: dict[str, Any] = DELETED) -> None:
        await self.write(self.client.delete(Widget, "a", namespace="d"), answer)

    async def sees_what_it_wrote(self) -> bool:
        """Return whether a read returns at once."""
        read = asyncio.ensure_future(self.client.list(Widget))
        await settle()
        read.cancel()
        return read.done() and not read.cancelled()

    def told(self) -> list[str]:
        """Return the events since the last call."""
        lines = [
            f"{event.type} {event.key.name}: "
            f"{event.old.resource_version if event.old else None} -> "
            f"{event.new.resource_version if event.new else None}"
            for event in self.events
        ]
        self.events.clear()
        return lines


@pytest.fixture
async def operator(client: Client, server: Server) -> AsyncIterator[Operator]:
    operator = Operator(client, server, Scope())
    yield operator
    await operator.cache.stop()


async def expire(stream: Stream, server: Server, clock: VirtualClock) -> Call:
    """Make the watch expire, and return the list request that follows."""
    stream.end()
    await clock.advance(10)
    (await server.call()).fail(410, "Expired")
    await clock.advance(10)
    return await server.call()


# ---- what was created


async def test_a_child_deleted_before_any_event_is_reported_as_deleted(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start()
    await operator.create(widget("a", 11, ownerReferences=[OWNER]))
    stream = (await expire(stream, server, clock)).stream()
    stream.send(bookmark(4000, ends_list=True))
    await settle()
    [event] = operator.events
    assert event.old is not None
    assert event.old.controller is not None
    assert event.old.controller.name == "box"
    assert event.old.decode().metadata.uid == "uid-a"
    assert operator.told() == ["delete a: 11 -> None"]
    assert await operator.sees_what_it_wrote()
    (await expire(stream, server, clock)).stream().send(bookmark(4001, ends_list=True))
    await settle()
    assert operator.told() == [], "the event is reported once"


async def test_a_child_that_a_watch_missed_is_reported_as_deleted(server: Server, operator: Operator) -> None:
    stream = await operator.start()
    await operator.create(widget("a", 11))
    stream.send(bookmark(11))
    await settle()
    assert operator.told() == ["delete a: 11 -> None"]
    assert await operator.sees_what_it_wrote()


async def test_a_child_whose_create_is_answered_after_a_list_without_it_is_reported_as_deleted(
    server: Server, operator: Operator
) -> None:
    await operator.start(version=20)
    await operator.create(widget("a", 11))
    assert operator.told() == ["delete a: 11 -> None"]


async def test_a_child_that_a_restored_server_lacks_is_reported_as_deleted(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start()
    await operator.create(widget("a", 11))
    (await expire(stream, server, clock)).stream().send(bookmark(5, ends_list=True))
    await settle()
    assert operator.told() == ["delete a: 11 -> None"]
    assert await operator.sees_what_it_wrote()


async def test_a_list_requested_before_the_write_does_not_make_it_lost(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = (await expire(await operator.start(), server, clock)).stream()
    await operator.create(widget("a", 11))
    stream.send(bookmark(10, ends_list=True))
    await settle()
    assert not await operator.sees_what_it_wrote()
    stream.send(added(widget("a", 11)))
    await settle()
    assert operator.told() == ["add a: None -> 11"]
    assert await operator.sees_what_it_wrote()


async def test_a_change_seen_by_a_watch_is_reported_once(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start()
    await operator.create(widget("a", 11))
    stream.send(added(widget("a", 11)), deleted(widget("a", 12)), bookmark(13))
    await settle()
    assert operator.told() == ["add a: None -> 11", "delete a: 12 -> None"]
    (await expire(stream, server, clock)).stream().send(bookmark(14, ends_list=True))
    await settle()
    assert operator.told() == []


async def test_a_change_seen_by_a_list_is_reported_once(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start(widget("a", 3))
    await operator.patch(widget("a", 11))
    (await expire(stream, server, clock)).stream().send(bookmark(20, ends_list=True))
    await settle()
    assert operator.told() == ["delete a: 3 -> None"]


async def test_an_object_that_this_process_deleted_is_not_lost(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start()
    await operator.create(widget("a", 11))
    await operator.delete()
    (await expire(stream, server, clock)).stream().send(bookmark(20, ends_list=True))
    await settle()
    assert operator.told() == []
    assert await operator.sees_what_it_wrote()


async def test_removing_the_last_finalizer_is_a_deletion(server: Server, operator: Operator) -> None:
    going = widget("a", 11, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/hold"])
    stream = await operator.start(going, version=11)
    stream.send(deleted(going | {"metadata": going["metadata"] | {"resourceVersion": "13"}}))
    await settle()
    operator.told()
    await operator.patch(widget("a", 12, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert operator.told() == []


# ---- what was changed or deleted


async def test_a_change_that_the_server_lost_is_reported_as_a_change_back(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start(widget("a", 3))
    await operator.patch(widget("a", 11))
    assert not await operator.sees_what_it_wrote()
    stream = (await expire(stream, server, clock)).stream()
    stream.send(added(widget("a", 3)), bookmark(4000, ends_list=True))
    await settle()
    assert operator.told() == ["update a: 11 -> 3"]
    assert await operator.sees_what_it_wrote()


async def test_a_deletion_that_the_server_lost_is_reported_as_an_added_object(
    server: Server, clock: VirtualClock, operator: Operator
) -> None:
    stream = await operator.start(widget("a", 3))
    await operator.delete()
    stream.send(bookmark(11))
    await settle()
    assert operator.told() == []
    assert not await operator.sees_what_it_wrote(), "without a version in the answer, the event may still arrive"
    (await expire(stream, server, clock)).stream().send(added(widget("a", 3)), bookmark(4000, ends_list=True))
    await settle()
    assert operator.told() == ["delete a: 3 -> None", "add a: None -> 3"]
    assert await operator.sees_what_it_wrote()


async def test_a_deletion_whose_answer_has_the_previous_version_is_not_lost(server: Server, operator: Operator) -> None:
    stream = await operator.start(widget("a", 3))
    await operator.delete(widget("a", 3))
    assert operator.told() == []
    assert not await operator.sees_what_it_wrote()
    stream.send(deleted(widget("a", 11)))
    await settle()
    assert operator.told() == ["delete a: 11 -> None"]
    assert await operator.sees_what_it_wrote()


# ---- what an informer does not hold


@pytest.mark.parametrize(
    "scope", [Scope(labels="app=web"), Scope(fields="spec.node=n1"), Scope(fields={"metadata.name": "b"})]
)
async def test_an_object_outside_the_selector_is_not_lost(server: Server, client: Client, scope: Scope) -> None:
    operator = Operator(client, server, scope)
    stream = await operator.start()
    await operator.create(widget("a", 11))
    stream.send(bookmark(11))
    await settle()
    assert operator.told() == []
    await operator.cache.stop()


async def test_a_selected_object_that_is_gone_is_lost(server: Server, client: Client) -> None:
    operator = Operator(client, server, Scope(labels="app=web", fields="metadata.name!=b"))
    stream = await operator.start()
    await operator.create(widget("a", 11, labels={"app": "web"}))
    stream.send(bookmark(11))
    await settle()
    assert operator.told() == ["delete a: 11 -> None"]
    await operator.cache.stop()


async def test_an_object_that_a_write_removes_from_the_selection_is_reported_once(
    server: Server, clock: VirtualClock, client: Client
) -> None:
    operator = Operator(client, server, Scope(labels="app=web"))
    stream = await operator.start(widget("a", 3, labels={"app": "web"}))
    await operator.patch(widget("a", 11))
    stream = (await expire(stream, server, clock)).stream()
    stream.send(bookmark(20, ends_list=True))
    await settle()
    assert operator.told() == ["delete a: 3 -> None"]
    await operator.cache.stop()


async def test_each_of_several_namespaces_reports_its_own_changes(server: Server, client: Client) -> None:
    operator = Operator(client, server, Scope(namespaces=["d", "e"]))
    operator.cache.start()
    calls = [await server.call(), await server.call()]
    streams = {call.path.split("/")[5]: call.stream() for call in calls}
    for stream in streams.values():
        stream.send(bookmark(10, ends_list=True))
    await operator.cache.wait_synced()
    await operator.create(widget("a", 11))
    streams["e"].send(bookmark(20))
    await settle()
    assert operator.told() == []
    streams["d"].send(modified(widget("b", 12)))
    await settle()
    assert operator.told() == ["add b: None -> 12", "delete a: 11 -> None"]
    await operator.cache.stop()
