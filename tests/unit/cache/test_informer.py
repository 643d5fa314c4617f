"""An informer stays in sync with its server across connection failures."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.unit.scripted import (
    Server,
    Stream,
    Widget,
    added,
    bookmark,
    deleted,
    error,
    modified,
    settle,
    widget,
)

from kubewright.cache import Event, Informer, ObjectKey
from kubewright.client import Client
from kubewright.machinery.errors import ConfigError, DeadlineExceeded, DecodeError
from kubewright.testing import VirtualClock


class Diary:
    """The events of an informer, one per line."""

    def __init__(self, informer: Informer[Widget]) -> None:
        self.lines: list[str] = []
        self.events: list[Event[Widget]] = []
        informer.add_handler(on_add=self._note, on_update=self._note, on_delete=self._note)

    def _note(self, event: Event[Widget]) -> None:
        entry = event.new or event.old
        assert entry is not None
        self.events.append(event)
        self.lines.append(f"{event.type} {event.key.name}@{entry.resource_version}")

    def take(self) -> list[str]:
        taken, self.lines = self.lines, []
        return taken


@pytest.fixture
async def informer(client: Client) -> AsyncIterator[Informer[Widget]]:
    informer = Informer(client, Widget)
    yield informer
    await informer.stop()


@pytest.fixture
def diary(informer: Informer[Widget]) -> Diary:
    return Diary(informer)


async def synced(
    informer: Informer[Widget], server: Server, *documents: dict[str, object], version: int = 10
) -> Stream:
    """Start the informer on a server that has these objects; return the watch that follows the list."""
    informer.start()
    stream = (await server.call()).stream()
    stream.send(*map(added, documents), bookmark(version, ends_list=True))
    await informer.wait_synced()
    return stream


# ---- the first list


async def test_a_streamed_list_continues_as_the_watch(server: Server, informer: Informer[Widget], diary: Diary) -> None:
    informer.start()
    call = await server.call()
    assert call.path == "/apis/example.com/v1/widgets"
    assert call.streams_list
    assert call.query["resourceVersionMatch"] == "NotOlderThan"
    stream = call.stream()
    stream.send(added(widget("a", 3)), added(widget("b", 5)))
    await settle()
    assert not informer.synced, "the list is not complete before its bookmark"
    stream.send(bookmark(9, ends_list=True), modified(widget("a", 11)))
    await informer.wait_synced()
    await settle()
    assert diary.lines == ["add a@3", "add b@5", "update a@11"]
    assert [event.initial for event in diary.events] == [True, True, False]
    assert server.idle


async def test_a_server_that_does_not_stream_lists_gets_paged_requests(
    server: Server, informer: Informer[Widget], diary: Diary
) -> None:
    informer.start()
    (await server.call()).fail(422, "Invalid", "sendInitialEvents is forbidden for watch")
    first = await server.call()
    assert first.query == {"limit": "500"}
    first.answer({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [widget("a", 3)]})
    second = await server.call()
    assert second.query == {"limit": "500", "continue": "more"}
    second.answer({"metadata": {"resourceVersion": "9"}, "items": [widget("b", 5)]})
    watch = await server.call()
    assert watch.watches
    assert not watch.streams_list
    assert watch.query["resourceVersion"] == "9"
    assert diary.lines == ["add a@3", "add b@5"]


async def test_a_list_whose_continue_token_expires_is_repeated_in_one_page(
    server: Server, informer: Informer[Widget], diary: Diary
) -> None:
    informer.start()
    (await server.call()).fail(400, "BadRequest")
    (await server.call()).answer({"metadata": {"resourceVersion": "9", "continue": "m"}, "items": [widget("a", 3)]})
    (await server.call()).fail(410, "Expired")
    whole = await server.call()
    assert "limit" not in whole.query
    whole.answer({"metadata": {"resourceVersion": "12"}, "items": [widget("b", 11)]})
    await informer.wait_synced()
    assert diary.lines == ["add b@11"]


async def test_a_stream_that_ends_before_its_list_is_complete_is_discarded(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    informer.start()
    stream = (await server.call()).stream()
    stream.send(added(widget("a", 3)))
    stream.end()
    await settle()
    assert not informer.synced
    assert diary.lines == []
    again = await server.call()
    assert not again.watches, "after the server ends such a stream, pages are requested"


async def test_handlers_added_later_receive_the_existing_objects(server: Server, informer: Informer[Widget]) -> None:
    await synced(informer, server, widget("b", 3), widget("a", 4))
    late = Diary(informer)
    assert late.lines == ["add a@4", "add b@3"]


async def test_a_removed_handler_receives_no_events(server: Server, informer: Informer[Widget]) -> None:
    told: list[str] = []
    registration = informer.add_handler(on_add=lambda event: told.append(event.key.name))
    stream = await synced(informer, server, widget("a", 3))
    registration.remove()
    registration.remove()
    stream.send(added(widget("b", 11)))
    await settle()
    assert told == ["a"]


async def test_a_handler_that_raises_does_not_affect_other_handlers(server: Server, informer: Informer[Widget]) -> None:
    def fail(event: Event[Widget]) -> None:
        raise RuntimeError("a bug")

    informer.add_handler(on_add=fail)
    diary = Diary(informer)
    stream = await synced(informer, server, widget("a", 3))
    stream.send(added(widget("b", 11)))
    await settle()
    assert diary.lines == ["add a@3", "add b@11"]


# ---- events


async def test_events_arrive_in_order_however_the_stream_is_split(
    server: Server, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server)
    whole = Stream.encode(added(widget("a", 11)), modified(widget("a", 12)), deleted(widget("a", 13)))
    for position in range(0, len(whole), 7):
        stream.send_bytes(whole[position : position + 7])
    await settle()
    assert diary.lines == ["add a@11", "update a@12", "delete a@13"]
    assert informer.lister.get("a", "d") is None


async def test_large_events_arrive_in_order_however_the_stream_is_split(
    server: Server, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server)
    large = {"about": "}\n" * 2000}
    whole = Stream.encode(
        added(widget("a", 11, annotations=large)),
        added(widget("b", 12)),
        bookmark(13),
        modified(widget("a", 14, annotations=large)),
        deleted(widget("a", 15, annotations=large)),
    )
    for position in range(0, len(whole), 1009):
        stream.send_bytes(whole[position : position + 1009])
    await settle()
    assert diary.lines == ["add a@11", "add b@12", "update a@14", "delete a@15"]


@pytest.mark.parametrize(
    "damage",
    [b"]", b'"spec":{},"object":{', b'"', b"\0", b"{" * 100_000],
    ids=["bracket", "second object", "quote", "NUL", "too deep"],
)
async def test_a_large_event_that_is_not_json_ends_the_stream(
    server: Server, informer: Informer[Widget], diary: Diary, damage: bytes
) -> None:
    stream = await synced(informer, server)
    event = Stream.encode(added(widget("a", 11, annotations={"about": "x" * 2000})))
    stream.send_bytes(event.replace(b'"spec"', damage, 1))
    await settle()
    assert stream.closed
    assert "not an event" in str(informer.last_error)
    assert not diary.lines


async def test_an_object_that_was_recreated_is_reported_as_deleted_first(
    server: Server, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server, widget("a", 3, uid="old"))
    stream.send(modified(widget("a", 11, uid="new")))
    await settle()
    assert diary.lines == ["add a@3", "delete a@3", "add a@11"]


async def test_an_object_that_cannot_be_read_is_reported_and_does_not_stop_the_informer(
    server: Server, informer: Informer[Widget], diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await synced(informer, server)
    stream.send(added({"metadata": {"name": ["a list"]}}), added(widget("b", 12)))
    await settle()
    assert diary.lines == ["add b@12"]
    assert "widgets.example.com" in caplog.text


async def test_an_object_that_is_not_of_its_kind_is_kept_raw_and_left_out_of_lists(
    server: Server, informer: Informer[Widget], diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    bad = widget("bad", 3)
    bad["spec"] = {"size": "big"}
    await synced(informer, server, bad, widget("good", 4))
    for _ in range(2):
        assert [each.metadata.name for each in informer.lister.list()] == ["good"]
    entry = informer.lister.entry(ObjectKey("d", "bad"))
    assert entry is not None
    assert b'"big"' in entry.data
    assert caplog.text.count("d/bad") == 1
    assert "spec.size" in caplog.text


async def test_an_object_that_does_not_match_its_class_is_read_again_when_it_is_fixed(
    server: Server, informer: Informer[Widget], diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    bad = widget("a", 3)
    bad["spec"] = {"size": "big"}
    stream = await synced(informer, server, bad)
    with pytest.raises(DecodeError, match=r"spec\.size"):
        informer.get(ObjectKey("d", "a"))
    assert informer.lister.list() == []
    stream.send(modified(bad | {"metadata": bad["metadata"] | {"resourceVersion": "11"}}))
    await settle()
    assert informer.lister.list() == []
    assert caplog.text.count("spec.size") == 2, "each version is reported once"
    stream.send(modified(widget("a", 12, size=3)))
    await settle()
    assert [each.spec.size for each in informer.lister.list()] == [3]
    assert diary.lines == ["add a@3", "update a@11", "update a@12"]


async def test_managed_fields_are_left_out_unless_asked_for(server: Server, client: Client) -> None:
    fields = [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
    document = widget("a", 3, managedFields=fields, labels={"app": "web"})
    for keep in (False, True):
        informer = Informer(client, Widget, keep_managed_fields=keep)
        await synced(informer, server, document)
        entry = informer.lister.entry(ObjectKey("d", "a"))
        assert entry is not None
        assert (b"managedFields" in entry.data) == keep
        assert entry.decode().spec.size == 0
        assert entry.labels == {"app": "web"}
        await informer.stop()


async def test_the_caller_may_change_what_a_read_returns(server: Server, informer: Informer[Widget]) -> None:
    await synced(informer, server, widget("a", 3, size=1))
    mine = informer.lister.get("a", "d")
    assert mine is not None
    mine.spec.size = 99
    again = informer.lister.get("a", "d")
    assert again is not None
    assert again.spec.size == 1


# ---- streams that end


async def test_a_stream_that_the_server_ends_is_resumed_where_it_ended(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server, widget("a", 3), version=10)
    stream.send(modified(widget("a", 11)), bookmark(25))
    await settle()
    stream.end()
    resumed = await server.call()
    assert resumed.watches
    assert not resumed.streams_list
    assert resumed.query["resourceVersion"] == "25"
    assert stream.closed


async def test_no_event_is_lost_when_the_connection_is_lost(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server, widget("a", 3), version=10)
    stream.send(modified(widget("a", 11)))
    stream.reset()
    await settle()
    assert server.idle, "the informer waits before it reconnects"
    await clock.advance(1)
    resumed = await server.call()
    assert resumed.query["resourceVersion"] == "11"
    resumed.stream().send(deleted(widget("a", 12)))
    await settle()
    assert diary.lines == ["add a@3", "update a@11", "delete a@12"]


async def test_a_silent_stream_is_kept_until_its_timeout(
    server: Server, clock: VirtualClock, informer: Informer[Widget], caplog: pytest.LogCaptureFixture
) -> None:
    """A real server sends no bookmark with a version that the client already has."""
    informer.start()
    call = await server.call()
    stream = call.stream()
    stream.send(bookmark(10, ends_list=True))
    await clock.advance(float(call.query["timeoutSeconds"]))
    assert server.idle
    stream.end()
    (await server.call()).answer({"metadata": {"resourceVersion": "10"}, "items": []})
    assert (await server.call()).query["resourceVersion"] == "10"
    assert caplog.messages == []


async def test_a_stream_that_does_not_end_at_its_timeout_is_replaced(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    stream = await synced(informer, server, widget("a", 3), version=10)
    await clock.advance(240 + 30 + 1)
    assert stream.closed
    assert "was silent" in str(informer.last_error)
    (await server.call()).answer({"metadata": {"resourceVersion": "10"}, "items": []})
    assert (await server.call()).query["resourceVersion"] == "10"


async def test_a_quiet_stream_resumes_at_its_last_bookmark(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    stream = await synced(informer, server)
    for minute in range(3):
        await clock.advance(60)
        stream.send(bookmark(100 + minute))
        await settle()
    stream.end()
    assert (await server.call()).query["resourceVersion"] == "102", "a bookmark arrived, so the watch resumes there"


async def test_a_stream_that_exceeds_its_timeout_is_closed(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    stream = await synced(informer, server)
    for minute in range(5):
        await clock.advance(60)
        stream.send(bookmark(100 + minute))
        await settle()
    assert stream.closed, "the requested duration is at most 4 minutes"
    assert (await server.call()).watches


async def test_a_server_restored_from_an_older_state_is_listed_again(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    """Such a server sends nothing to watches that start after a version that it has not reached."""
    stream = await synced(informer, server, widget("a", 3), widget("b", 900), version=1000)
    await clock.advance(120)
    stream.end()
    asked = await server.call()
    assert asked.query == {"limit": "1", "resourceVersion": "1000", "resourceVersionMatch": "NotOlderThan"}
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    status = {"kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout", "details": {"causes": causes}}
    asked.answer(status, status=504)
    anew = await server.call()
    assert anew.streams_list
    assert "resourceVersion" not in anew.query
    anew.stream().send(added(widget("a", 3)), bookmark(7, ends_list=True))
    await settle()
    assert diary.take() == ["add a@3", "add b@900", "delete b@900"]


async def test_a_client_without_list_permission_continues_where_a_quiet_stream_ended(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    stream = await synced(informer, server, version=10)
    await clock.advance(120)
    stream.end()
    (await server.call()).fail(403, "Forbidden", "cannot list")
    assert (await server.call()).query["resourceVersion"] == "10"
    assert informer.last_error is None


# ---- 410 Gone


@pytest.mark.parametrize("as_event", [True, False], ids=["as an ERROR event", "as the answer's status"])
async def test_objects_deleted_before_a_410_are_reported_as_deleted(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary, as_event: bool
) -> None:
    stream = await synced(informer, server, widget("a", 3), widget("b", 4), widget("c", 5), version=10)
    diary.take()
    stream.end()
    resumed = await server.call()
    if as_event:
        resumed.stream().send(error(410, "Expired", "too old resource version: 10 (4000)"))
    else:
        resumed.fail(410, "Expired", "too old resource version: 10 (4000)")
    await clock.advance(1)
    anew = await server.call()
    assert anew.streams_list
    anew.stream().send(
        added(widget("a", 3)), added(widget("b", 4000)), added(widget("d", 3999)), bookmark(4001, ends_list=True)
    )
    await settle()
    assert diary.lines == ["delete c@5", "update b@4000", "add d@3999"]
    assert [event.initial for event in diary.events[-3:]] == [False, False, False]
    assert not any(event.watched for event in diary.events), "a list may show several changes as one"


async def test_events_of_a_watch_are_single_changes(server: Server, informer: Informer[Widget], diary: Diary) -> None:
    stream = await synced(informer, server, widget("a", 3), widget("b", 4), version=10)
    stream.send(modified(widget("a", 11)), deleted(widget("b", 12)), added(widget("c", 13)))
    await settle()
    assert diary.lines == ["add a@3", "add b@4", "update a@11", "delete b@12", "add c@13"]
    assert [event.watched for event in diary.events] == [False, False, True, True, True]


async def test_a_server_that_always_answers_410_is_not_flooded_with_requests(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    informer.start()
    for _ in range(600):
        while not server.idle:
            call = await server.call()
            stream = call.stream()
            if call.streams_list:
                stream.send(bookmark(10, ends_list=True))
            stream.send(error(410, "Expired"))
        await clock.advance(0.1)
    assert server.received < 20, "requests in a minute"


# ---- other failures


async def test_an_error_event_other_than_410_is_survived(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    stream = await synced(informer, server, widget("a", 3), version=10)
    stream.send(modified(widget("a", 11)), error(500, "InternalError", "etcdserver: no leader"))
    await settle()
    assert diary.take() == ["add a@3", "update a@11"], "the event before the error is processed"
    assert "no leader" in str(informer.last_error)
    await clock.advance(1)
    resumed = await server.call()
    assert resumed.query["resourceVersion"] == "11"
    resumed.stream().send(modified(widget("a", 12)))
    await settle()
    assert diary.lines == ["update a@12"]
    assert informer.last_error is None


async def test_requests_to_an_unavailable_server_back_off(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    informer.start()
    for _ in range(1800):
        while not server.idle:
            (await server.call()).fail(503, "ServiceUnavailable")
        await clock.advance(0.1)
    assert 8 <= server.received <= 25, "requests in three minutes"


async def test_a_server_that_ends_every_stream_at_once_is_not_flooded_with_requests(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    (await synced(informer, server)).end()
    for _ in range(600):
        while not server.idle:
            (await server.call()).stream().end()
        await clock.advance(0.1)
    assert server.received < 20, "requests in a minute"


async def test_retry_after_is_honored(server: Server, clock: VirtualClock, informer: Informer[Widget]) -> None:
    informer.start()
    (await server.call()).fail(429, "TooManyRequests", retry_after=17)
    await clock.advance(16.9)
    assert server.idle
    await clock.advance(0.2)
    await server.call()


async def test_a_long_successful_watch_resets_the_backoff(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    informer.start()
    for _ in range(8):
        (await server.call()).lose()
        await clock.advance(60)
    stream = (await server.call()).stream()
    stream.send(bookmark(10, ends_list=True), added(widget("a", 11)))
    await settle()
    stream.reset()
    await clock.advance(1)
    assert (await server.call()).query["resourceVersion"] == "11"


async def test_stop_ends_the_stream_and_the_calls(server: Server, informer: Informer[Widget], diary: Diary) -> None:
    stream = await synced(informer, server, widget("a", 3))
    await informer.stop()
    assert stream.closed
    assert informer.lister.get("a", "d") is not None, "the cached objects stay readable"


# ---- a cache that does not fill


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (403, "Forbidden", 'User "op" cannot list resource "widgets"', "grant list and watch"),
        (404, "NotFound", "the server could not find the requested resource", "CustomResourceDefinition"),
    ],
)
async def test_an_informer_that_cannot_sync_reports_the_reason(
    server: Server, clock: VirtualClock, informer: Informer[Widget], code: int, reason: str, message: str, expected: str
) -> None:
    informer.start()
    (await server.call()).fail(code, reason, message)
    await settle()
    waiting = asyncio.ensure_future(informer.wait_synced(timeout=30))
    await clock.advance(31)
    with pytest.raises(DeadlineExceeded, match=r"widgets\.example\.com") as raised:
        await waiting
    assert expected in str(raised.value)


async def test_a_resync_reports_each_object_again(server: Server, clock: VirtualClock, client: Client) -> None:
    informer = Informer(client, Widget, resync=timedelta(minutes=1))
    diary = Diary(informer)
    stream = await synced(informer, server, widget("a", 3))
    await clock.advance(59)
    assert diary.take() == ["add a@3"]
    await clock.advance(2)
    assert diary.take() == ["update a@3"]
    assert diary.events[-1].initial
    stream.end()
    await informer.stop()
    await clock.advance(60)
    assert diary.lines == []


@pytest.mark.parametrize("reason", ["NotFound", "Forbidden"])
async def test_a_kind_or_permission_that_is_added_later_is_noticed_soon(
    server: Server, clock: VirtualClock, informer: Informer[Widget], reason: str
) -> None:
    informer.start()
    for _ in range(20):
        (await server.call()).fail({"NotFound": 404, "Forbidden": 403}[reason], reason)
        await clock.advance(6.1)
    (await server.call()).stream().send(bookmark(9, ends_list=True))
    await informer.wait_synced()


async def test_a_kind_that_is_served_again_is_listed_again(
    server: Server, clock: VirtualClock, informer: Informer[Widget], diary: Diary
) -> None:
    (await synced(informer, server, widget("a", 3), widget("b", 4))).end()
    for _ in range(3):
        (await server.call()).fail(404, "NotFound")
        await clock.advance(6.1)
    assert diary.take() == ["add a@3", "add b@4"], (
        "a kind that can't be found does not mean that its objects are deleted"
    )
    (await server.call()).stream().send(added(widget("a", 30, uid="another")), bookmark(31, ends_list=True))
    await settle()
    assert diary.lines == ["delete b@4", "delete a@3", "add a@30"]


async def test_streams_that_fail_without_progress_back_off(
    server: Server, clock: VirtualClock, informer: Informer[Widget]
) -> None:
    (await synced(informer, server, version=10)).end()
    for _ in range(600):
        while not server.idle:
            (await server.call()).stream().send(bookmark(10), error(500, "InternalError"))
        await clock.advance(0.1)
    assert server.received < 20, "requests in a minute"


# ---- a part of each object


async def test_only_the_selected_fields_of_objects_are_held(server: Server, client: Client) -> None:
    informer = Informer(client, Widget, only=["spec.node", "status.conditions", "status"])
    document = widget("a", 3, size=7, labels={"app": "web"}, annotations={"note": "kept"})
    document["spec"]["node"] = "n1"
    document["status"] = {"phase": "Running", "conditions": []}
    bare = widget("b", 4)
    bare["spec"] = None
    await synced(informer, server, document, bare)
    entry = informer.lister.entry(ObjectKey("d", "a"))
    assert entry is not None
    assert json.loads(entry.data) == document | {"spec": {"node": "n1"}}
    assert entry.labels == {"app": "web"}
    held = informer.lister.get("a", "d")
    assert held is not None
    assert (held.spec.node, held.spec.size) == ("n1", 0)
    assert informer.lister.get("b", "d") is not None
    await informer.stop()


async def test_a_field_of_list_items_cannot_be_selected(
    server: Server, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    informer = Informer(client, Widget, only=["spec.parts.name"])
    document = widget("a", 3)
    document["spec"]["parts"] = [{"name": "x"}]
    await synced(informer, server, document)
    assert len(informer.lister) == 0
    assert "name the list itself" in caplog.text
    await informer.stop()


def test_an_invalid_field_path_is_rejected(client: Client) -> None:
    with pytest.raises(ConfigError, match=r'"spec\.\." is not a field'):
        Informer(client, Widget, only=["spec.."])
