"""The guarantees of every store."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kubewright.machinery.errors import Gone
from kubewright_controlplane.apiserver.storage.events import Entry, Event
from kubewright_controlplane.apiserver.storage.store import Store

from .conftest import Make, put


def keys(store: Store, **where: object) -> list[str]:
    return [entry.key for entry in store.scan("pods", **where)]  # type: ignore[arg-type]


async def test_put_stores_an_entry_with_the_revision_of_its_commit(store: Store) -> None:
    event = put(store, "ns/a", b'{"a":1}', app="web")
    entry = store.get("pods", "ns/a")
    assert entry is not None
    assert (entry.data, entry.labels, entry.revision) == (b'{"a":1}', {"app": "web"}, event.revision)
    assert (entry.namespace, entry.name) == ("ns", "a")


async def test_each_commit_of_any_resource_increases_the_revision_by_one(store: Store) -> None:
    promised = store.next_revision
    events = [put(store, "a"), put(store, "a", resource="nodes"), put(store, "a"), store.remove("pods", "a", b"{}")]
    assert [event.revision for event in events] == [promised, promised + 1, promised + 2, promised + 3]
    assert [event.type for event in events] == ["ADDED", "ADDED", "MODIFIED", "DELETED"]
    assert store.revision == promised + 3


async def test_a_removed_entry_is_gone_and_its_key_can_be_added_again(store: Store) -> None:
    put(store, "a")
    store.remove("pods", "a", b"{}")
    assert store.get("pods", "a") is None
    assert put(store, "a").type == "ADDED"


async def test_removing_a_missing_key_changes_nothing(store: Store) -> None:
    before = store.revision
    with pytest.raises(KeyError):
        store.remove("pods", "a", b"{}")
    assert store.revision == before


async def test_a_scan_is_in_order_of_keys(store: Store) -> None:
    for key in ("b/a", "a/b", "a-b/c", "a/a"):
        put(store, key)
    assert keys(store) == ["a-b/c", "a/a", "a/b", "b/a"]


async def test_a_scan_of_a_namespace_excludes_other_namespaces(store: Store) -> None:
    for key in ("a/1", "a-b/1", "ab/1", "a/2"):
        put(store, key)
    assert keys(store, namespace="a") == ["a/1", "a/2"]


async def test_a_scan_starts_after_a_key_even_if_that_was_removed(store: Store) -> None:
    for key in ("a/1", "a/2", "a/3"):
        put(store, key)
    store.remove("pods", "a/2", b"{}")
    assert keys(store, after="a/1") == ["a/3"]
    assert keys(store, after="a/2", namespace="a") == ["a/3"]


async def test_a_scan_of_the_past_equals_the_scan_at_that_time(store: Store) -> None:
    put(store, "kept", b"1")
    put(store, "changed", b"1")
    put(store, "removed", b"1")
    then = store.revision
    put(store, "changed", b"2")
    store.remove("pods", "removed", b"1")
    put(store, "added", b"2")
    put(store, "added", b"3")
    seen = {entry.key: entry.data for entry in store.scan("pods", revision=then)}
    assert seen == {"kept": b"1", "changed": b"1", "removed": b"1"}
    assert len(store.scan("pods", revision=then)) == 3


async def test_a_scan_of_a_dropped_revision_raises_gone(make: Make) -> None:
    store = make(history=4)
    put(store, "a")
    then = store.revision
    for _ in range(10):
        put(store, "a")
    with pytest.raises(Gone):
        store.scan("pods", revision=then)


async def test_a_cursor_reads_every_later_event_once_in_order(store: Store) -> None:
    put(store, "a")
    cursor = store.watch("pods", store.revision)
    put(store, "b", resource="nodes")
    expected = [put(store, "a"), put(store, "b"), store.remove("pods", "a", b"{}")]
    assert cursor.take() == expected
    assert cursor.take() == []
    assert store.watch("pods", expected[0].revision).take() == expected[1:]


async def test_an_event_has_the_previous_entry(store: Store) -> None:
    first = put(store, "a", b"1")
    second = put(store, "a", b"2")
    last = store.remove("pods", "a", b"3")
    assert first.previous is None
    assert second.previous is first.entry
    assert last.previous is second.entry
    assert (last.entry.data, last.entry.revision) == (b"3", last.revision)


async def test_a_cursor_with_a_prefix_reads_only_matching_keys(store: Store) -> None:
    cursor = store.watch("pods", store.revision, "a/")
    put(store, "ab/1")
    mine = put(store, "a/1")
    assert cursor.take() == [mine]


async def test_a_waiting_cursor_wakes_for_matching_events(store: Store) -> None:
    cursor = store.watch("pods", store.revision, "a/")
    waiting = asyncio.ensure_future(cursor.wait())
    await asyncio.sleep(0)
    put(store, "b/1")
    await asyncio.sleep(0)
    assert not waiting.done()
    put(store, "a/1")
    await asyncio.wait_for(waiting, 5)


async def test_a_cursor_at_a_dropped_revision_raises_gone(make: Make) -> None:
    store = make(history=4)
    start = store.revision
    for _ in range(10):
        put(store, "a")
    with pytest.raises(Gone, match=f"too old resource version: {start} "):
        store.watch("pods", start)


async def test_fewer_events_are_kept_of_large_objects(make: Make) -> None:
    store = make()
    start = store.revision
    put(store, "a", bytes(1 << 20))
    recent = 0
    for number in range(400):
        if number == 300:
            recent = store.revision
        put(store, "a", bytes(1 << 20))
    assert len(store.watch("pods", recent).take()) == 100
    with pytest.raises(Gone):
        store.watch("pods", start)


async def test_a_cursor_that_falls_behind_raises_gone_instead_of_skipping(make: Make) -> None:
    store = make(history=4)
    cursor = store.watch("pods", store.revision)
    for _ in range(10):
        put(store, "a")
    with pytest.raises(Gone):
        cursor.take()


async def test_compaction_drops_exactly_the_events_up_to_its_revision(store: Store) -> None:
    first, second, third = put(store, "a"), put(store, "a"), put(store, "a")
    store.compact(second.revision)
    assert store.watch("pods", second.revision).take() == [third]
    with pytest.raises(Gone):
        store.watch("pods", first.revision)
    with pytest.raises(Gone):
        store.watch("nodes", first.revision)


async def test_dropped_events_leave_other_resources_watchable_from_earlier_revisions(store: Store) -> None:
    start = store.revision
    put(store, "a", resource="nodes")
    first, second = put(store, "a"), put(store, "a")
    store.drop_events(first.revision)
    assert store.watch("pods", first.revision).take() == [second]
    with pytest.raises(Gone):
        store.watch("pods", start)
    with pytest.raises(Gone):
        store.watch("nodes", start)
    assert store.watch("services", start).take() == []


async def test_no_resource_is_readable_at_revisions_before_dropped_events(store: Store) -> None:
    """As after a compaction of etcd, which has one revision for all resources."""
    put(store, "a")
    listed = store.revision
    put(store, "b", resource="nodes")
    assert [each.key for each in store.scan("pods", revision=listed)] == ["a"]
    store.drop_events(store.revision)
    put(store, "c", resource="nodes")
    with pytest.raises(Gone):
        store.scan("pods", revision=listed)
    assert [each.key for each in store.scan("pods", revision=store.revision)] == ["a"]


async def test_closing_a_store_ends_its_watches(make: Make) -> None:
    store = make()
    cursor = store.watch("pods", store.revision)
    waiting = asyncio.ensure_future(cursor.wait())
    await asyncio.sleep(0)
    await store.close()
    await asyncio.wait_for(waiting, 5)
    assert cursor.closed


async def test_an_observer_receives_existing_entries_and_each_commit(store: Store) -> None:
    put(store, "a")
    told: list[tuple[str, str]] = []
    store.observe("pods", lambda event: told.append((event.type, event.entry.key)))
    put(store, "a")
    put(store, "b")
    put(store, "c", resource="nodes")
    assert told == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b")]


async def test_commits_of_an_observer_are_passed_on_after_the_current_event(store: Store) -> None:
    told: list[tuple[str, str]] = []

    def answer(event: Event) -> None:
        if event.entry.key == "a":
            put(store, "reply")

    store.observe("pods", answer)
    store.observe("pods", lambda event: told.append((event.type, event.entry.key)))
    put(store, "a")
    assert told == [("ADDED", "a"), ("ADDED", "reply")]


async def test_an_observer_that_raises_fails_neither_the_writer_nor_other_observers(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail(event: Event) -> None:
        raise RuntimeError("defect")

    store.observe("pods", fail)
    store.observe("pods", lambda event: told.append(event.entry.key))
    put(store, "a")
    put(store, "b")
    assert told == ["a", "b"]
    assert [record.msg for record in caplog.records] == ["Observer failed", "Observer failed"]


async def test_rewritten_entries_keep_their_revisions_and_make_no_events(store: Store) -> None:
    put(store, "a", b"1")
    before = store.revision
    cursor = store.watch("pods", before)
    store.rewrite("pods", store.scan("pods"), [each.data + b"!" for each in store.scan("pods")])
    entry = store.get("pods", "a")
    assert entry is not None
    assert (entry.data, entry.revision) == (b"1!", before)
    assert cursor.take() == []
    store.rewrite("pods", [entry], [entry.last_write + b"?"])
    entry = store.get("pods", "a")
    assert entry is not None
    assert (entry.data, entry.written) == (b"1?", b"1")


def test_the_garbage_collector_does_not_look_at_what_is_stored() -> None:
    store = Store()
    for number in range(100):
        store.put("things", f"n{number}", b"{}", {"app": "web"}, {})
    assert not any(isinstance(each, Entry | Event) for each in gc.get_objects())


async def test_others_are_served_while_very_many_watches_are_woken(store: Store) -> None:
    seen: list[str] = []

    async def follow(name: str) -> None:
        cursor = store.watch("pods", store.revision)
        while len(seen) < 2000:
            await cursor.wait()
            seen.extend(f"{name} {event.entry.key}" for event in cursor.take())
        cursor.close()

    tasks = [asyncio.create_task(follow(str(number))) for number in range(1000)]
    await asyncio.sleep(0)
    put(store, "a")
    await asyncio.sleep(0)
    put(store, "b")
    turns = 0
    while len(set(seen)) < 2000:
        assert len(seen) < 2000
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 3
    for task in tasks:
        task.cancel()
    assert len(seen) == 2000
