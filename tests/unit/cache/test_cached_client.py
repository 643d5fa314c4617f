"""Reads come from the cache and see the writes of this process."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from tests.unit.scripted import Server, Stream, Widget, WidgetSpec, added, bookmark, deleted, modified, settle, widget

from kubewright.apis.autoscaling.v1 import Scale, ScaleSpec
from kubewright.apis.core.v1 import Binding, ObjectReference
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.policy.v1 import Eviction
from kubewright.cache import Cache, CachedClient, Scope
from kubewright.client import Client, MergePatch
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, NotFound
from kubewright.testing import VirtualClock


@pytest.fixture
async def cache(client: Client) -> AsyncIterator[Cache]:
    by_node = {"node": lambda each: [each.spec.node] if each.spec.node else []}
    cache = Cache(client, scopes={Widget: Scope(indexers=by_node)})
    cache.start()
    yield cache
    await cache.stop()


@pytest.fixture
def cached(client: Client, cache: Cache) -> CachedClient:
    return CachedClient(client, cache)


async def filled(cache: Cache, server: Server, *documents: dict[str, Any], version: int = 10) -> Stream:
    """Fill the cache with these widgets. Returns its watch."""
    cache.informer(Widget)
    await settle()
    stream = (await server.call()).stream()
    stream.send(*map(added, documents), bookmark(version, ends_list=True))
    await cache.wait_synced()
    return stream


async def begun(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task, and let it run until it waits."""
    task = asyncio.ensure_future(coroutine)
    await settle()
    return task


def desired(name: str = "a", size: int = 5) -> Widget:
    return Widget(metadata=ObjectMeta(name=name, namespace="d"), spec=WidgetSpec(size=size))


# ---- reading


async def test_a_read_of_a_new_kind_waits_for_its_first_list(server: Server, cached: CachedClient) -> None:
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    (await server.call()).stream().send(added(widget("a", 3, size=7)), bookmark(9, ends_list=True))
    assert (await read).spec.size == 7
    assert server.idle


async def test_a_missing_object_is_not_found_without_a_request(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    await filled(cache, server)
    with pytest.raises(NotFound, match=r'widgets\.example\.com "a" not found'):
        await cached.get(Widget, "a", namespace="d")
    assert server.idle


async def test_lists_select_by_namespace_labels_name_owner_and_index(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Box", "name": "box", "uid": "u1", "controller": True}
    elsewhere = widget("c", 6, labels={"app": "web"})
    elsewhere["metadata"]["namespace"] = "e"
    placed = widget("d", 7)
    placed["spec"]["node"] = "n1"
    await filled(
        cache, server, placed, elsewhere, widget("b", 5, ownerReferences=[owner]), widget("a", 4, labels={"app": "web"})
    )

    async def names(**query: Any) -> list[str]:
        return [each.metadata.name for each in await cached.list(Widget, **query)]

    assert await names() == ["a", "b", "d", "c"]
    assert await names(namespace="d") == ["a", "b", "d"]
    assert await names(labels={"app": "web"}) == ["a", "c"]
    assert await names(labels="app!=web") == ["b", "d"]
    assert await names(fields={"metadata.name": "b"}) == ["b"]
    assert await names(owner="u1") == ["b"]
    assert await names(owner="u1", namespace="e") == []
    assert await names(index=("node", "n1")) == ["d"]
    with pytest.raises(ConfigError, match="index"):
        await names(fields="status.phase=Running")
    with pytest.raises(KeyError, match="node"):
        await names(index=("zone", "z"))


async def test_indexes_and_owners_follow_updates_and_deletes(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    def placed(version: int, node: str, owner: str) -> dict[str, Any]:
        reference = {"apiVersion": "v1", "kind": "Box", "name": "box", "uid": owner}
        document = widget("a", version, ownerReferences=[reference])
        document["spec"]["node"] = node
        return document

    stream = await filled(cache, server, placed(3, "n1", "u1"))
    stream.send(modified(placed(11, "n2", "u2")))
    await settle()
    assert not await cached.list(Widget, index=("node", "n1"))
    assert not await cached.list(Widget, owner="u1")
    assert len(await cached.list(Widget, index=("node", "n2"))) == 1
    assert len(await cached.list(Widget, owner="u2")) == 1
    stream.send(deleted(placed(12, "n2", "u2")))
    await settle()
    assert not await cached.list(Widget, index=("node", "n2"))
    assert not await cached.list(Widget, owner="u2")


async def test_a_cache_returns_an_object_or_none(server: Server, cache: Cache) -> None:
    await filled(cache, server, widget("a", 3))
    found = await cache.get_or_none(Widget, "a", namespace="d")
    assert found is not None
    assert found.metadata.name == "a"
    assert await cache.get_or_none(Widget, "b", namespace="d") is None


async def test_a_cache_of_one_namespace_rejects_reads_of_another(server: Server, client: Client) -> None:
    cache = Cache(client, namespaces="d")
    cache.start()
    read = await begun(cache.list(Widget, namespace="d"))
    call = await server.call()
    assert call.path == "/apis/example.com/v1/namespaces/d/widgets"
    call.stream().send(bookmark(9, ends_list=True))
    await read
    with pytest.raises(ConfigError, match="'d' only"):
        await cache.get(Widget, "a", namespace="e")
    await cache.stop()


async def test_a_kind_can_be_removed_from_the_cache_and_added_again(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    await cache.remove(Widget)
    assert stream.closed
    assert list(cache) == []
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    (await server.call()).stream().send(added(widget("a", 7, size=1)), bookmark(9, ends_list=True))
    assert (await read).spec.size == 1


async def test_reads_of_a_cache_that_was_not_started_are_rejected(client: Client) -> None:
    with pytest.raises(ConfigError, match="not started"):
        await Cache(client).get(Widget, "a", namespace="d")


async def test_a_read_of_a_kind_that_cannot_be_listed_fails_at_once_with_the_reason(
    server: Server, client: Client
) -> None:
    cache = Cache(client)
    cache.start()
    read = await begun(cache.get(Widget, "a", namespace="d"))
    (await server.call()).fail(403, "Forbidden", 'User "op" cannot list resource "widgets" in API group "example.com"')
    with pytest.raises(ConfigError, match=r'User "op" cannot list .* grant list and watch'):
        await read
    await cache.stop()


async def test_a_read_of_a_kind_whose_list_hangs_times_out(server: Server, clock: VirtualClock, client: Client) -> None:
    cache = Cache(client, sync_timeout=20)
    cache.start()
    read = await begun(cache.get(Widget, "a", namespace="d"))
    await clock.advance(21)
    with pytest.raises(DeadlineExceeded, match="the server has not answered yet"):
        await read
    await cache.stop()


# ---- reads see own writes


async def test_a_get_after_a_write_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3, size=1))
    write = await begun(cached.patch(Widget, MergePatch({"spec": {"size": 2}}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 11, size=2))
    assert (await write).spec.size == 2
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(widget("a", 11, size=2)))
    assert (await read).spec.size == 2
    assert server.idle


async def test_a_get_after_a_status_update_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    write = await begun(cached.update_status(await cached.get(Widget, "a", namespace="d")))
    call = await server.call()
    assert call.path.endswith("/widgets/a/status")
    call.answer(widget("a", 11))
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(widget("a", 11)))
    assert (await read).metadata.resource_version == "11"


BINDING = Binding(metadata=ObjectMeta(name="a", namespace="d"), target=ObjectReference(kind="Node", name="n"))


async def bind(server: Server, cached: CachedClient) -> None:
    write = await begun(cached.subresource(Widget, "a", "binding", namespace="d").create(BINDING))
    (await server.call()).answer({"kind": "Status", "status": "Success"}, status=201)
    await write


async def test_a_get_after_a_scale_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3, size=1))
    scale = Scale(metadata=ObjectMeta(name="a", namespace="d"), spec=ScaleSpec(replicas=2))
    write = await begun(cached.subresource(Widget, "a", "scale", namespace="d").update(scale))
    answer = {"metadata": {"name": "a", "namespace": "d", "resourceVersion": "11"}, "spec": {"replicas": 2}}
    (await server.call()).answer({"apiVersion": "autoscaling/v1", "kind": "Scale", **answer})
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(widget("a", 11, size=2)))
    assert (await read).spec.size == 2


async def test_a_get_after_an_eviction_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    eviction = Eviction(metadata=ObjectMeta(name="a", namespace="d"))
    write = await begun(cached.subresource(Widget, "a", "eviction", namespace="d").create(eviction))
    (await server.call()).answer({"kind": "Status", "status": "Success"}, status=201)
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(widget("a", 12, deletionTimestamp="2026-01-01T00:00:00Z")))
    assert (await read).metadata.deletion_timestamp is not None


async def test_a_get_after_a_binding_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    await bind(server, cached)
    stream.send(bookmark(20))  # not an event of the object, and it does not make the write a lost one
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(widget("a", 21, size=2)))
    assert (await read).spec.size == 2
    assert server.idle


async def test_a_binding_that_the_cache_shows_before_its_answer_is_not_waited_for(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    write = await begun(cached.subresource(Widget, "a", "binding", namespace="d").create(BINDING))
    call = await server.call()
    stream.send(modified(widget("a", 11, size=2)))
    await settle()
    call.answer({"kind": "Status", "status": "Success"}, status=201)
    await write
    assert (await cached.get(Widget, "a", namespace="d")).spec.size == 2
    assert server.idle


async def test_a_get_after_an_update_and_a_binding_waits_for_both(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    write = await begun(cached.patch(Widget, MergePatch({"spec": {"size": 2}}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 11, size=2))
    await write
    await bind(server, cached)
    read = await begun(cached.get(Widget, "a", namespace="d"))
    stream.send(modified(widget("a", 11, size=2)))
    await settle()
    assert not read.done()
    stream.send(modified(widget("a", 12, size=3)))
    assert (await read).spec.size == 3


async def test_a_get_of_an_object_that_was_deleted_after_its_binding_does_not_wait(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    await bind(server, cached)
    stream.send(deleted(widget("a", 11)))
    with pytest.raises(NotFound):
        await cached.get(Widget, "a", namespace="d")


async def test_a_lost_scale_is_reported_as_an_update(server: Server, cache: Cache, cached: CachedClient) -> None:
    stream = await filled(cache, server, widget("a", 3))
    updates: list[int] = []
    cache.informer(Widget).add_handler(
        on_update=lambda event: updates.append(event.new.resource_version if event.new else 0)
    )
    scale = Scale(metadata=ObjectMeta(name="a", namespace="d"), spec=ScaleSpec(replicas=2))
    write = await begun(cached.subresource(Widget, "a", "scale", namespace="d").update(scale))
    answer = {"metadata": {"name": "a", "namespace": "d", "resourceVersion": "11"}, "spec": {"replicas": 2}}
    (await server.call()).answer({"apiVersion": "autoscaling/v1", "kind": "Scale", **answer})
    await write
    stream.send(bookmark(12))
    await settle()
    assert updates == [3]


async def test_a_read_of_another_key_does_not_wait(server: Server, cache: Cache, cached: CachedClient) -> None:
    await filled(cache, server, widget("a", 3), widget("b", 4))
    write = await begun(cached.patch(Widget, MergePatch({"spec": {"size": 2}}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 11, size=2))
    await write
    assert (await cached.get(Widget, "b", namespace="d")).metadata.name == "b"


async def test_a_list_after_a_create_waits_until_the_cache_has_seen_it(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server)
    write = await begun(cached.create(desired("a")))
    (await server.call()).answer(widget("a", 11), status=201)
    await write
    read = await begun(cached.list(Widget))
    assert not read.done()
    stream.send(added(widget("a", 11)))
    assert [each.metadata.name for each in await read] == ["a"]


async def test_a_list_does_not_wait_for_later_writes(server: Server, cache: Cache, cached: CachedClient) -> None:
    stream = await filled(cache, server)
    write = await begun(cached.create(desired("a")))
    (await server.call()).answer(widget("a", 11), status=201)
    await write
    read = await begun(cached.list(Widget))
    later = await begun(cached.create(desired("b")))
    (await server.call()).answer(widget("b", 12), status=201)
    await later
    stream.send(added(widget("a", 11)))
    await settle()
    assert read.done(), "later writes must not delay the list"
    assert [each.metadata.name for each in await read] == ["a"]


async def test_a_read_after_a_deletion_waits_until_the_object_is_gone(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    write = await begun(cached.delete(Widget, "a", namespace="d"))
    (await server.call()).answer({"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "uid-a"}})
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(deleted(widget("a", 11)))
    with pytest.raises(NotFound):
        await read
    assert server.idle


async def test_a_read_after_a_deletion_that_finalizers_block_returns_a_terminating_object(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3, finalizers=["example.com/hold"]))
    write = await begun(cached.delete(Widget, "a", namespace="d"))
    going = widget("a", 11, finalizers=["example.com/hold"], deletionTimestamp="2026-01-01T00:00:00Z")
    (await server.call()).answer(going)
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    assert not read.done()
    stream.send(modified(going))
    assert (await read).metadata.deletion_timestamp is not None


async def test_a_list_after_delete_all_of_waits_until_all_are_gone(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3), widget("b", 4))
    write = await begun(cached.delete_all_of(Widget, namespace="d"))
    call = await server.call()
    assert (call.method, call.path) == ("DELETE", "/apis/example.com/v1/namespaces/d/widgets")
    call.answer({"kind": "WidgetList", "metadata": {}, "items": [widget("a", 3), widget("b", 4)]})
    await write
    read = await begun(cached.list(Widget))
    stream.send(deleted(widget("a", 11)))
    await settle()
    assert not read.done()
    stream.send(deleted(widget("b", 12)))
    assert not await read


async def test_a_write_that_changed_nothing_is_not_waited_for(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    await filled(cache, server, widget("a", 3))
    write = await begun(cached.patch(Widget, MergePatch({}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 3))
    await write
    await cached.get(Widget, "a", namespace="d")


async def test_a_dry_run_is_not_waited_for(server: Server, cache: Cache, cached: CachedClient) -> None:
    await filled(cache, server, widget("a", 3, size=1))
    write = await begun(cached.patch(Widget, MergePatch({}), name="a", namespace="d", dry_run=True))
    call = await server.call()
    assert call.query["dryRun"] == "All"
    call.answer(widget("a", 11, size=2))
    await write
    assert (await cached.get(Widget, "a", namespace="d")).spec.size == 1


async def test_reads_bypass_a_cache_that_lags_too_long(
    server: Server, clock: VirtualClock, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3, size=1))
    write = await begun(cached.patch(Widget, MergePatch({"spec": {"size": 2}}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 11, size=2))
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    await clock.advance(5.1)
    (await server.call()).answer(widget("a", 11, size=2))
    assert (await read).spec.size == 2
    again = await begun(cached.list(Widget, index=("node", "n1")))
    call = await server.call()
    assert call.method == "GET", "after one timeout the cache does not wait again"
    placed = widget("b", 12)
    placed["spec"]["node"] = "n1"
    call.answer({"metadata": {"resourceVersion": "12"}, "items": [widget("a", 11), placed]})
    assert [each.metadata.name for each in await again] == ["b"]
    stream.send(modified(widget("a", 11, size=2)))
    await settle()
    assert (await cached.get(Widget, "a", namespace="d")).spec.size == 2
    assert server.idle


async def test_a_write_that_is_seen_only_after_a_410_ends_the_wait(
    server: Server, clock: VirtualClock, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server, widget("a", 3))
    write = await begun(cached.delete(Widget, "a", namespace="d"))
    (await server.call()).answer({"kind": "Status", "status": "Success", "details": {"name": "a", "uid": "uid-a"}})
    await write
    read = await begun(cached.get(Widget, "a", namespace="d"))
    stream.end()
    (await server.call()).fail(410, "Expired")
    await clock.advance(1)
    (await server.call()).stream().send(bookmark(4000, ends_list=True))
    with pytest.raises(NotFound):
        await read


# ---- applies that change nothing


async def apply(cached: CachedClient, server: Server, obj: Widget, *, version: int) -> bool:
    """Apply `obj`. Returns whether a request was sent; the server answers it with this version."""
    task = await begun(cached.apply(obj))
    if task.done():
        await task
        return False
    call = await server.call()
    assert call.method == "PATCH"
    call.answer(widget(obj.metadata.name, version, size=obj.spec.size))
    await task
    return True


async def test_a_repeated_apply_is_not_sent_while_the_object_still_matches(
    server: Server, cache: Cache, cached: CachedClient
) -> None:
    stream = await filled(cache, server)
    assert await apply(cached, server, desired(size=5), version=11)
    stream.send(added(widget("a", 11, size=5)))
    await settle()
    assert not await apply(cached, server, desired(size=5), version=11)
    stream.send(modified(widget("a", 12, size=5, labels={"added": "by another"})))
    await settle()
    assert not await apply(cached, server, desired(size=5), version=12), "the object still has all applied values"


@pytest.mark.parametrize(
    "change",
    [
        modified(widget("a", 12, size=6)),
        deleted(widget("a", 12, size=5)),
        modified(widget("a", 12, size=5, uid="another")),
    ],
    ids=["another value", "deleted", "recreated"],
)
async def test_an_apply_is_sent_when_the_object_no_longer_matches(
    server: Server, cache: Cache, cached: CachedClient, change: dict[str, Any]
) -> None:
    stream = await filled(cache, server)
    assert await apply(cached, server, desired(size=5), version=11)
    stream.send(added(widget("a", 11, size=5)), change)
    await settle()
    assert await apply(cached, server, desired(size=5), version=13)


async def test_an_apply_with_fewer_fields_is_sent(server: Server, cache: Cache, cached: CachedClient) -> None:
    stream = await filled(cache, server)
    labelled = desired(size=5)
    labelled.metadata.labels = {"app": "web"}
    assert await apply(cached, server, labelled, version=11)
    stream.send(added(widget("a", 11, size=5, labels={"app": "web"})))
    await settle()
    assert await apply(cached, server, desired(size=5), version=12), "the omitted label must be removed"


async def test_an_apply_after_its_own_unseen_write_is_sent(server: Server, cache: Cache, cached: CachedClient) -> None:
    stream = await filled(cache, server)
    assert await apply(cached, server, desired(size=5), version=11)
    stream.send(added(widget("a", 11, size=5)))
    await settle()
    write = await begun(cached.patch(Widget, MergePatch({"spec": {"size": 6}}), name="a", namespace="d"))
    (await server.call()).answer(widget("a", 12, size=6))
    await write
    assert await apply(cached, server, desired(size=5), version=13)


async def test_reads_do_not_wait_for_writes_that_the_cache_does_not_hold(server: Server, client: Client) -> None:
    cache = Cache(client, scopes={Widget: Scope(labels="app=web")})
    cache.start()
    cached = CachedClient(client, cache)
    await filled(cache, server)
    write = await begun(cached.create(desired()))
    (await server.call()).answer(widget("a", 11), status=201)
    await write
    assert not await cached.list(Widget)
    await cache.stop()


async def test_an_object_that_is_cached_in_part_is_not_replaced(server: Server, client: Client) -> None:
    cache = Cache(client, scopes={Widget: Scope(only=["spec.node"])})
    cache.start()
    cached = CachedClient(client, cache)
    await filled(cache, server, widget("a", 3, size=7))
    read = await cached.get(Widget, "a", namespace="d")
    assert read.spec.size == 0
    with pytest.raises(ConfigError, match=r"Scope\.only.* send a patch"):
        await cached.update(read)
    assert server.idle
    await cache.stop()
