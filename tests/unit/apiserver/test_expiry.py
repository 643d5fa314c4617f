"""Events expire."""

from __future__ import annotations

from kubewright.testing import VirtualClock
from unit.apiserver.harness import API, MERGE

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
    await clock.advance(1900)
    await api.rejected(404, "GET", f"{EVENTS}/once")
    assert (await api.ok("GET", f"{EVENTS}/again"))["count"] == 2
    assert await watch.names(2) == [("MODIFIED", "again"), ("DELETED", "once")]
    await clock.advance(1900)
    await api.rejected(404, "GET", f"{EVENTS}/again")
