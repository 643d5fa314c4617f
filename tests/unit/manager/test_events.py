"""Events: what is written of what was recorded."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kubewright._runtime.clock import VirtualClock
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client._client import Client
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, Forbidden, NotFound, StatusCause, StatusDetails
from kubewright.manager import _events as events
from kubewright.manager._events import EventWriter

from .smallserver import SmallServer

ENDING = StatusCause("NamespaceTerminating", "namespace shop is being terminated", "metadata.namespace")
MAP = ConfigMap(metadata=ObjectMeta(name="settings", namespace="shop", uid="u1", resource_version="5"))


@pytest.fixture
async def recorder(server: SmallServer, clock: VirtualClock) -> AsyncIterator[EventWriter]:
    client = Client(transport=HandlerTransport(server.handle), clock=clock)
    writer = EventWriter(client, "web.my.domain", "host_1")
    task = asyncio.create_task(writer.run())
    yield writer
    task.cancel()


def written(server: SmallServer) -> list[dict[str, Any]]:
    return list(server.objects.values())


async def test_an_event_names_the_object_the_reason_and_who_reports(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    recorder.warning(MAP, "PortTaken", "node port 30010 is taken", action="CreateService")
    await clock.advance(0)
    (event,) = written(server)
    assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/shop/events"
    assert event["metadata"]["name"].startswith("settings.")
    assert event["type"] == "Warning"
    assert event["reason"] == "PortTaken"
    assert event["note"] == "node port 30010 is taken"
    assert event["action"] == "CreateService"
    assert event["reportingController"] == "web.my.domain"
    assert event["reportingInstance"] == "host_1"
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "settings",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "5",
    }
    assert "series" not in event


async def test_the_same_event_again_is_a_series_that_is_written_once_a_minute(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    for _ in range(100):
        recorder.normal(MAP, "Scaled", "to 3")
        await clock.advance(1)
    (event,) = written(server)
    assert [each.method for each in server.requests] == ["POST", "PATCH", "PATCH"]
    assert event["series"]["count"] == 61
    await clock.advance(60)
    assert written(server)[0]["series"] == {"count": 100, "lastObservedTime": "2026-01-01T00:01:39.000000Z"}


async def test_after_a_quiet_time_the_same_event_is_a_new_one(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(events.SERIES_ENDS)
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(events.SERIES_ENDS + 1)
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(0)
    assert [each.get("series", {}).get("count") for each in written(server)] == [2, None]


async def test_another_note_is_another_event(server: SmallServer, clock: VirtualClock, recorder: EventWriter) -> None:
    recorder.normal(MAP, "Scaled", "to 3")
    recorder.normal(MAP, "Scaled", "to 4")
    await clock.advance(0)
    assert sorted(each["note"] for each in written(server)) == ["to 3", "to 4"]


async def test_a_series_that_the_server_forgot_is_begun_again(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(0)
    server.objects.clear()
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(0)
    (event,) = written(server)
    assert event["series"]["count"] == 2


async def test_an_event_that_cannot_be_written_is_dropped_and_the_next_one_is_written(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter, caplog: pytest.LogCaptureFixture
) -> None:
    server.down = True
    recorder.normal(MAP, "Scaled", "to 3")
    await clock.advance(0)
    assert "Event not written" in caplog.text
    server.down = False
    recorder.normal(MAP, "Scaled", "to 4")
    await clock.advance(0)
    assert [each["note"] for each in written(server)] == ["to 4"]


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Forbidden("shop is being terminated", details=StatusDetails(causes=(ENDING,))), "DEBUG"),
        (NotFound('namespaces "shop" not found'), "DEBUG"),
        (Forbidden("events is forbidden"), "WARNING"),
    ],
)
async def test_an_event_that_goes_with_its_namespace_is_no_warning(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, error: APIError, level: str
) -> None:
    async def refuse(request: Request) -> Response:
        return Response(error.status.code, {}, msgspec.json.encode(error.status.to_dict()))

    caplog.set_level(logging.DEBUG, "kubewright.manager")
    writer = EventWriter(Client(transport=HandlerTransport(refuse), clock=clock), "web", "host")
    task = asyncio.create_task(writer.run())
    writer.normal(MAP, "Scaled", "to 3")
    await clock.advance(0)
    assert [record.levelname for record in caplog.records if record.msg == "Event not written"] == [level]
    task.cancel()


async def test_a_flood_is_bounded_and_what_was_dropped_is_told(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(events.BACKLOG + 7):
        recorder.normal(MAP, "Scaled", f"to {number}")
    await clock.advance(0)
    while len(server.requests) < events.BACKLOG:
        await clock.advance(0)
    await clock.advance(10)
    assert len(written(server)) == events.BACKLOG
    (line,) = [each for each in caplog.records if "dropped" in each.msg]
    assert line.fields == {"count": 7}  # type: ignore[attr-defined]


async def test_what_is_dropped_is_told_although_the_server_takes_nothing(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    fates: list[str] = []
    writer = EventWriter(Client(transport=HandlerTransport(never), clock=clock), "web", "host_1", count=fates.append)
    task = asyncio.create_task(writer.run())
    await clock.advance(0)
    for number in range(events.BACKLOG + 7):
        writer.normal(MAP, "Scaled", f"to {number}")
    await clock.advance(10)
    assert [each.fields for each in caplog.records if "dropped" in each.msg] == [{"count": 7}]  # type: ignore[attr-defined]
    assert fates == ["dropped"] * 7
    task.cancel()


async def test_what_recurs_of_thousands_of_objects_is_one_event_each(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    maps = [ConfigMap(metadata=ObjectMeta(name=f"m{n}", namespace="shop", uid=f"u{n}")) for n in range(3000)]
    for method in ("POST", "PATCH"):
        server.requests.clear()
        for each in maps:
            recorder.warning(each, "PortTaken", "node port 30010 is taken")
        while len(server.requests) < len(maps):
            await clock.advance(0)
        assert {each.method for each in server.requests} == {method}
    assert len(written(server)) == len(maps)


async def test_an_event_about_a_cluster_scoped_object_is_in_the_default_namespace(
    server: SmallServer, clock: VirtualClock, recorder: EventWriter
) -> None:
    recorder.normal(ConfigMap(metadata=ObjectMeta(name="node", uid="u2")), "Seen", "seen")
    await clock.advance(0)
    assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_what_waits_at_the_stop_is_still_written(server: SmallServer, clock: VirtualClock) -> None:
    writer = EventWriter(Client(transport=HandlerTransport(server.handle), clock=clock), "web", "host_1")
    task = asyncio.create_task(writer.run())
    await clock.advance(0)
    writer.normal(MAP, "Stopped", "bye")
    task.cancel()
    await asyncio.wait([task])
    assert [each["note"] for each in written(server)] == ["bye"]
