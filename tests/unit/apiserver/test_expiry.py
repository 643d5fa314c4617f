"""Events and the history of objects expire."""

from __future__ import annotations

import asyncio

from kubewright.testing import VirtualClock
from unit.apiserver.harness import API, CONFIG_MAPS, MERGE

EVENTS = "/api/v1/namespaces/default/events"


async def report(api: API, name: str) -> None:
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    await api.ok("POST", EVENTS, {"metadata": {"name": name}, "involvedObject": involved, "reason": "R", "count": 1})


async def test_an_event_is_removed_an_hour_after_its_last_write(api: API, clock: VirtualClock) -> None:
    await report(api, "once")
    await report(api, "again")
    watch = await api.watch(f"{EVENTS}?watch=true&timeoutSeconds=9000")
    assert await watch.names(2) == [("ADDED", "again"), ("ADDED", "once")]
    await clock.advance(1800)
    await api.ok("PATCH", f"{EVENTS}/again", {"count": 2}, content_type=MERGE)
    assert await watch.names(1) == [("MODIFIED", "again")]
    await clock.advance(1900)
    await api.rejected(404, "GET", f"{EVENTS}/once")
    assert (await api.ok("GET", f"{EVENTS}/again"))["count"] == 2
    assert await watch.names(1) == [("DELETED", "once")]
    await clock.advance(1900)
    await api.rejected(404, "GET", f"{EVENTS}/again")


async def test_changes_are_kept_for_watches_for_five_minutes(api: API, clock: VirtualClock) -> None:
    first = (await api.config_map("a"))["metadata"]["resourceVersion"]
    await api.config_map("b")
    await clock.advance(290)
    last = (await api.config_map("c"))["metadata"]["resourceVersion"]
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={first}")
    assert await watch.names(2) == [("ADDED", "b"), ("ADDED", "c")]
    await clock.advance(80)
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={first}")
    kind, status = await watch.next()
    assert (kind, status["code"]) == ("ERROR", 410)
    await clock.advance(300)
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={last}")
    await api.config_map("d")
    assert await watch.names(1) == [("ADDED", "d")]


async def test_pages_of_a_list_are_consistent_for_five_minutes(api: API, clock: VirtualClock) -> None:
    for name in "abc":
        await api.config_map(name)
    first = await api.ok("GET", f"{CONFIG_MAPS}?limit=1")
    page = f"{CONFIG_MAPS}?limit=1&continue="
    await clock.advance(290)
    second = await api.ok("GET", page + first["metadata"]["continue"])
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    await clock.advance(100)
    status = await api.rejected(410, "GET", page + first["metadata"]["continue"])
    assert status["reason"] == "Expired"
    await report(api, "elsewhere")
    rest = await api.ok("GET", page + status["metadata"]["continue"])
    assert rest["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert [each["metadata"]["name"] for each in rest["items"]] == ["b"]
    assert rest["metadata"]["remainingItemCount"] == 1


async def test_a_quiet_watch_does_not_fall_behind_the_changes_in_other_namespaces(
    api: API, clock: VirtualClock
) -> None:
    await api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "quiet"}})
    quiet = "/api/v1/namespaces/quiet/configmaps"
    start = (await api.config_map("a"))["metadata"]["resourceVersion"]
    watch = await api.watch(f"{quiet}?watch=true&resourceVersion={start}&timeoutSeconds=3000")
    waiting = asyncio.ensure_future(watch.next())
    for number in range(200):
        await api.config_map(f"c{number}")
        await clock.advance(5)
    assert not waiting.done()
    await api.ok("POST", quiet, {"metadata": {"name": "mine"}})
    kind, found = await waiting
    assert (kind, found["metadata"]["name"]) == ("ADDED", "mine")
