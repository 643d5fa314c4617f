"""Watches: each change exactly once and in order, with selections and timers."""

from __future__ import annotations

import asyncio

from kubewright.testing import VirtualClock
from unit.apiserver.harness import API, CONFIG_MAPS, MERGE, TABLE


async def relabel(api: API, name: str, **labels: str | None) -> None:
    await api.ok("PATCH", f"{CONFIG_MAPS}/{name}", {"metadata": {"labels": labels}}, content_type=MERGE)


async def test_a_watch_starts_with_existing_objects_and_continues_with_changes(api: API) -> None:
    await api.config_map("a")
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true")
    assert await watch.names(1) == [("ADDED", "a")]
    await relabel(api, "a", x="1")
    await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert await watch.names(2) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_from_a_revision_gets_later_events(api: API) -> None:
    first = await api.config_map("a")
    await api.config_map("b")
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={first['metadata']['resourceVersion']}")
    assert await watch.names(1) == [("ADDED", "b")]


async def test_a_streaming_list_ends_with_an_initial_events_end_bookmark(api: API) -> None:
    await api.config_map("a")
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await api.watch(f"{CONFIG_MAPS}?{query}")
    assert await watch.names(1) == [("ADDED", "a")]
    kind, mark = await watch.next()
    assert kind == "BOOKMARK"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["kind"] == "ConfigMap"
    assert int(mark["metadata"]["resourceVersion"]) > 0


async def test_an_idle_watch_gets_a_bookmark_every_minute(api: API, clock: VirtualClock) -> None:
    start = (await api.config_map("a"))["metadata"]["resourceVersion"]
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={start}")
    other = await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    for _ in range(2):
        waiting = asyncio.ensure_future(watch.next())
        await clock.advance(50)
        assert not waiting.done()
        await clock.advance(15)
        kind, mark = await asyncio.wait_for(waiting, 5)
        assert (kind, mark["metadata"]) == ("BOOKMARK", {"resourceVersion": other["metadata"]["resourceVersion"]})


async def test_a_watch_ends_after_its_timeout(api: API, clock: VirtualClock) -> None:
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=5")
    waiting = asyncio.ensure_future(anext(watch.body, b"the end"))
    await clock.advance(4)
    assert not waiting.done()
    await clock.advance(2)
    assert await asyncio.wait_for(waiting, 5) == b"the end"


async def test_an_object_that_leaves_a_selection_is_deleted_and_comes_back_as_added(api: API) -> None:
    await api.config_map("a")
    await relabel(api, "a", app="web")
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&labelSelector=app%3Dweb")
    assert await watch.names(1) == [("ADDED", "a")]
    await relabel(api, "a", app="db")
    kind, gone = await watch.next()
    left_at = (await api.ok("GET", f"{CONFIG_MAPS}/a"))["metadata"]["resourceVersion"]
    assert (kind, gone["metadata"]["labels"], gone["metadata"]["resourceVersion"]) == (
        "DELETED",
        {"app": "web"},
        left_at,
    )
    await relabel(api, "a", other="1")
    await relabel(api, "a", app="web")
    await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert await watch.names(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_of_one_name_excludes_other_objects(api: API) -> None:
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Da")
    await api.config_map("ab")
    await api.config_map("a")
    assert await watch.names(1) == [("ADDED", "a")]


async def test_a_watch_from_a_dropped_revision_gets_an_error_and_ends(api: API) -> None:
    for number in range(100):
        await api.config_map(f"c{number}")
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion=1")
    kind, status = await watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert await anext(watch.body, b"the end") == b"the end"


async def test_a_watch_that_falls_behind_gets_an_error(api: API) -> None:
    start = (await api.config_map("a"))["metadata"]["resourceVersion"]
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}")
    for number in range(100):
        await api.config_map(f"c{number}")
    kind, status = await watch.next()
    assert (kind, status["code"]) == ("ERROR", 410)


async def test_a_watch_from_a_future_revision_is_silent_until_then(api: API, clock: VirtualClock) -> None:
    now = int((await api.config_map("a"))["metadata"]["resourceVersion"])
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={now + 2}")
    waiting = asyncio.ensure_future(watch.names(1))
    await clock.advance(65)
    for name in ("b", "c", "d"):
        await api.config_map(name)
    assert await waiting == [("ADDED", "d")]


async def test_only_the_first_event_of_a_watched_table_has_the_columns(api: API) -> None:
    await api.config_map("a", k="v")
    await api.config_map("b")
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true", accept=TABLE)
    tables = [(await watch.next())[1] for _ in range(2)]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert tables[1]["columnDefinitions"] is None
    assert tables[0]["rows"][0]["cells"] == ["a", 1, "0s"]


async def test_all_watchers_share_the_bytes_of_an_event(api: API) -> None:
    start = (await api.config_map("a"))["metadata"]["resourceVersion"]
    watches = [await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}") for _ in range(3)]
    for name in ("b", "c", "d"):
        await api.config_map(name)
        for watch in watches:
            assert await watch.names(1) == [("ADDED", name)]
    [*_, last] = api.server.resources.store.watch("configmaps", int(start)).take()
    assert list(last.frames.values()) == [b'{"type":"ADDED","object":' + last.entry.data + b"}\n"]


async def test_closing_the_server_ends_its_watches(api: API) -> None:
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true")
    waiting = asyncio.ensure_future(anext(watch.body, b"the end"))
    await asyncio.sleep(0)
    await api.server.close()
    assert await asyncio.wait_for(waiting, 5) == b"the end"


async def first_of(api: API, query: str) -> list[str]:
    """Return what happens first: the next event of a watch, or the answer to another client."""
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&{query}")
    order: list[str] = []

    async def follow() -> None:
        await watch.next()
        order.append("event")

    async def read() -> None:
        await api.ok("GET", f"{CONFIG_MAPS}/m0")
        order.append("answer")

    await asyncio.gather(follow(), read())
    await watch.close()
    return order


async def test_a_watch_that_selects_few_of_many_objects_does_not_delay_others(api: API) -> None:
    for number in range(300):
        await api.config_map(f"m{number}")
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "z", "labels": {"last": "yes"}}})
    assert await first_of(api, "labelSelector=last%3Dyes") == ["answer", "event"]


async def test_a_watch_with_a_costly_selector_does_not_delay_others(api: API) -> None:
    before = (await api.config_map("m0"))["metadata"]["resourceVersion"]
    for number in range(1, 20):
        await api.config_map(f"m{number}")
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "z", "labels": {"last": "yes"}}})
    costly = ",".join(["last", *(f"l{number}!%3Dx" for number in range(1900))])
    assert await first_of(api, f"labelSelector={costly}") == ["answer", "event"]
    assert await first_of(api, f"labelSelector={costly}&resourceVersion={before}") == ["answer", "event"]
