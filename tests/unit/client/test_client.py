"""The requests of the typed client, and its handling of answers."""

import asyncio
import json
import logging
from collections.abc import Coroutine
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
    error,
    modified,
    settle,
    widget,
)

from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.meta.v1 import LabelSelector, LabelSelectorRequirement, ManagedFieldsEntry, ObjectMeta
from kubewright.client import (
    Bookmark,
    Client,
    JSONPatch,
    Labels,
    MergePatch,
    PartialObjectMetadata,
    StrategicPatch,
    Unstructured,
    WatchEvent,
)
from kubewright.http.message import Response
from kubewright.machinery.errors import (
    APIError,
    ConfigError,
    Conflict,
    DecodeError,
    Gone,
    NotFound,
    TooManyRequests,
)
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright.models import APIResource, Object


class Zone(Object):
    __api__ = APIResource("example.com", "v1", "Zone", "zones", "zone", namespaced=False)


async def exchange(
    server: Server, coroutine: Coroutine[Any, Any, Any], answer: JSONObject, **options: Any
) -> tuple[Call, Any]:
    """Answer one request of the client. Returns the request and the client's result."""
    task = asyncio.ensure_future(coroutine)
    call = await server.call()
    call.answer(answer, **options)
    return call, await task


def a_widget(**metadata: Any) -> Widget:
    return Widget(metadata=ObjectMeta(name="a", namespace="d", **metadata), spec=WidgetSpec(size=2))


def body(call: Call) -> Any:
    return json.loads(call.request.body)


# ---- reading


async def test_get_returns_an_object_of_the_requested_kind(server: Server, client: Client) -> None:
    call, found = await exchange(server, client.get(Widget, "a", namespace="d"), widget("a", 3, size=2))
    assert (call.method, call.path) == ("GET", "/apis/example.com/v1/namespaces/d/widgets/a")
    assert isinstance(found, Widget)
    assert found.spec.size == 2


async def test_names_are_escaped_in_paths(server: Server, client: Client) -> None:
    call, _ = await exchange(server, client.get(Zone, "system:eu/west"), {"metadata": {"name": "x"}})
    assert call.path == "/apis/example.com/v1/zones/system%3Aeu%2Fwest"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (lambda client: client.get(Widget, "a"), "Widget is namespaced: give namespace="),
        (lambda client: client.get(Zone, "a", namespace="d"), "Zone is cluster-scoped: leave out namespace="),
        (lambda client: client.list(Zone, namespace="d"), "Zone is cluster-scoped: leave out namespace="),
        (lambda client: client.get(Widget, "", namespace="d"), "Widget: a name is required"),
        (lambda client: client.create(Widget(metadata=ObjectMeta(name="a"))), "Widget is namespaced"),
        (lambda client: client.delete(Widget, "a"), "Widget is namespaced"),
        (lambda client: client.delete_all_of(Widget), "Widget is namespaced"),
    ],
)
async def test_a_name_that_would_change_the_path_is_rejected(
    server: Server, client: Client, request_: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await request_(client)
    assert server.received == 0


async def test_a_list_is_fetched_in_pages(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(
        client.list(Widget, labels={"b": "2", "a": "1"}, fields="metadata.name!=x", page_size=1)
    )
    first = await server.call()
    assert first.path == "/apis/example.com/v1/widgets"
    assert first.query == {"labelSelector": "a=1,b=2", "fieldSelector": "metadata.name!=x", "limit": "1"}
    first.answer({"metadata": {"resourceVersion": "9", "continue": "t/1"}, "items": [widget("a", 3)]})
    second = await server.call()
    assert second.query["continue"] == "t/1"
    second.answer({"metadata": {"resourceVersion": "9"}, "items": [widget("b", 4)]})
    found = await task
    assert [each.metadata.name for each in found] == ["a", "b"]
    assert found.resource_version == "9"


async def test_a_list_whose_continue_token_expires_is_repeated_in_one_page(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.list(Widget, page_size=1))
    (await server.call()).answer({"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [widget("a", 3)]})
    (await server.call()).fail(410, "Expired")
    whole = await server.call()
    assert whole.query == {}
    whole.answer({"metadata": {"resourceVersion": "12"}, "items": [widget("b", 4)]})
    assert [each.metadata.name for each in await task] == ["b"]


async def test_single_pages_can_be_requested(server: Server, client: Client) -> None:
    answer = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [widget("a", 3)]}
    call, page = await exchange(server, client.list_page(Widget, limit=1, namespace="d"), answer)
    assert call.query == {"limit": "1"}
    assert page.continue_token == "t"


async def test_null_items_are_an_empty_list(server: Server, client: Client) -> None:
    _, found = await exchange(server, client.list(Widget), {"metadata": {"resourceVersion": "9"}, "items": None})
    assert not found


# ---- watching


async def test_a_watch_yields_typed_events(server: Server, client: Client) -> None:
    watch = client.watch(Widget, namespace="d", resource_version="5", timeout=30)
    pending = asyncio.ensure_future(anext(watch))
    call = await server.call()
    assert call.query == {"watch": "true", "resourceVersion": "5", "timeoutSeconds": "30"}
    stream = call.stream()
    stream.send(modified(widget("a", 6, size=2)), bookmark(7), deleted(widget("a", 8)))
    assert await pending == WatchEvent("MODIFIED", (await pending).object)
    assert (await pending).object.spec.size == 2
    assert (await anext(watch)).type == "DELETED"
    stream.end()
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    assert stream.closed


async def test_a_watch_yields_bookmarks_if_requested(server: Server, client: Client) -> None:
    watch = client.watch(Widget, bookmarks=True, send_initial_events=True)
    pending = asyncio.ensure_future(anext(watch))
    call = await server.call()
    assert call.query["allowWatchBookmarks"] == "true"
    assert call.query["sendInitialEvents"] == "true"
    assert call.query["resourceVersionMatch"] == "NotOlderThan"
    call.stream().send(bookmark(7, ends_list=True))
    assert await pending == Bookmark("7", initial_events_end=True)
    await watch.aclose()


async def test_an_error_on_a_watch_is_raised(server: Server, client: Client) -> None:
    watch = client.watch(Widget, resource_version="5")
    pending = asyncio.ensure_future(anext(watch))
    stream = (await server.call()).stream()
    stream.send(error(410, "Expired", "too old resource version: 5 (90)"))
    with pytest.raises(Gone, match="too old"):
        await pending
    assert stream.closed


async def test_a_watch_that_is_left_closes_its_stream(server: Server, client: Client) -> None:
    watch = client.watch(Widget)
    pending = asyncio.ensure_future(anext(watch))
    stream = (await server.call()).stream()
    stream.send(added(widget("a", 3)))
    await pending
    await watch.aclose()
    assert stream.closed


async def test_a_stream_that_is_not_json_is_an_error_that_shows_it(server: Server, client: Client) -> None:
    pending = asyncio.ensure_future(anext(client.watch(Widget)))
    (await server.call()).stream().send_bytes(b"<html>proxy</html>\n")
    with pytest.raises(DecodeError, match="proxy"):
        await pending


# ---- writing


async def test_create_sends_the_object_with_its_kind(server: Server, client: Client) -> None:
    call, made = await exchange(server, client.create(a_widget(), dry_run=True), widget("a", 3), status=201)
    assert (call.method, call.path) == ("POST", "/apis/example.com/v1/namespaces/d/widgets")
    assert call.query == {"dryRun": "All", "fieldManager": "kubewright"}
    assert call.request.headers["content-type"] == "application/json"
    assert body(call) == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "d"},
        "spec": {"size": 2},
    }
    assert made.metadata.resource_version == "3"


async def test_update_keeps_fields_that_the_class_does_not_know(server: Server, client: Client) -> None:
    document = widget("a", 3, size=1)
    document["spec"]["colour"] = "red"
    _, obj = await exchange(server, client.get(Widget, "a", namespace="d"), document)
    obj.spec.size = 9
    call, _ = await exchange(server, client.update(obj), widget("a", 4))
    assert call.method == "PUT"
    assert body(call)["spec"] == {"size": 9, "colour": "red"}
    assert body(call)["metadata"]["resourceVersion"] == "3"


async def test_update_status_goes_to_the_subresource(server: Server, client: Client) -> None:
    call, _ = await exchange(server, client.update_status(a_widget()), widget("a", 4))
    assert call.path == "/apis/example.com/v1/namespaces/d/widgets/a/status"


@pytest.mark.parametrize(
    ("patch", "content_type", "sent"),
    [
        (MergePatch({"spec": {"size": None}}), "application/merge-patch+json", {"spec": {"size": None}}),
        (StrategicPatch({"spec": {"size": 1}}), "application/strategic-merge-patch+json", {"spec": {"size": 1}}),
        (
            JSONPatch([{"op": "remove", "path": "/spec/size"}]),
            "application/json-patch+json",
            [{"op": "remove", "path": "/spec/size"}],
        ),
    ],
)
async def test_patches_have_the_content_type_of_their_kind(
    server: Server, client: Client, patch: Any, content_type: str, sent: object
) -> None:
    for request in (
        client.patch(a_widget(), patch, subresource="status"),
        client.patch(Widget, patch, name="a", namespace="d", subresource="status"),
    ):
        call, _ = await exchange(server, request, widget("a", 4))
        assert (call.method, call.path) == ("PATCH", "/apis/example.com/v1/namespaces/d/widgets/a/status")
        assert call.request.headers["content-type"] == content_type
        assert body(call) == sent


async def test_apply_is_forced_and_owned_by_default(server: Server, client: Client) -> None:
    call, _ = await exchange(server, client.apply(a_widget()), widget("a", 4))
    assert call.query == {"fieldManager": "kubewright", "force": "true"}
    assert call.request.headers["content-type"] == "application/apply-patch+yaml"
    call, _ = await exchange(
        server,
        client.apply(a_widget(), force=False, field_manager="me", field_validation="Strict", subresource="status"),
        widget("a", 4),
    )
    assert call.query == {"fieldManager": "me", "fieldValidation": "Strict"}
    assert call.path.endswith("/a/status")


async def test_apply_rejects_an_object_that_was_read(server: Server, client: Client) -> None:
    read = a_widget(managed_fields=[ManagedFieldsEntry(manager="kubectl", operation="Update")])
    with pytest.raises(
        ConfigError, match='Widget "a": apply takes an object with only the fields that you want to own'
    ):
        await client.apply(read)


async def test_delete_does_not_delete_a_recreated_object(server: Server, client: Client) -> None:
    call, _ = await exchange(server, client.delete(a_widget(uid="u1")), {"kind": "Status", "status": "Success"})
    assert call.method == "DELETE"
    assert body(call) == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}}


async def test_delete_by_name_takes_all_options(server: Server, client: Client) -> None:
    request = client.delete(
        Widget, "a", namespace="d", resource_version="3", propagation="Foreground", grace_period=0, dry_run=True
    )
    call, _ = await exchange(server, request, {"kind": "Status", "status": "Success"})
    assert body(call) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"resourceVersion": "3"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }


async def test_delete_all_of_selects(server: Server, client: Client) -> None:
    request = client.delete_all_of(Widget, namespace="d", labels="app=web")
    call, _ = await exchange(server, request, {"kind": "Status", "status": "Success"})
    assert (call.method, call.path) == ("DELETE", "/apis/example.com/v1/namespaces/d/widgets")
    assert call.query == {"labelSelector": "app=web"}


# ---- errors and warnings


async def test_a_failure_carries_its_status(server: Server, client: Client) -> None:
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": 409,
        "reason": "Conflict",
        "message": "the object has been modified",
        "details": {"name": "a", "kind": "widgets", "causes": [{"reason": "X", "field": ".spec", "message": "m"}]},
    }
    with pytest.raises(Conflict, match="modified") as raised:
        await exchange(server, client.update(a_widget()), status, status=409)
    assert raised.value.causes[0].field == ".spec"


async def test_a_failure_without_a_status_shows_its_text(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.list(Widget))
    (await server.call()).answer_bytes(b"upstream is down\n", status=502)
    with pytest.raises(APIError, match=r"GET /apis/example\.com/v1/widgets: 502 upstream is down"):
        await task


@pytest.mark.parametrize(
    "text",
    [
        b"404 page not found\n",
        b'{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{},'
        b'"message":"the server could not find the requested resource"}',
    ],
    ids=["unknown group", "unknown resource"],
)
async def test_the_error_names_a_kind_that_the_server_does_not_serve(
    server: Server, client: Client, text: bytes
) -> None:
    task = asyncio.ensure_future(client.get(Widget, "a", namespace="d"))
    (await server.call()).answer_bytes(text, status=404)
    with pytest.raises(NotFound, match="is its CustomResourceDefinition installed"):
        await task


async def test_the_error_has_the_retry_after_header(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.get(Widget, "a", namespace="d"))
    (await server.call()).fail(429, "TooManyRequests", "slow down", retry_after=7)
    with pytest.raises(TooManyRequests) as raised:
        await task
    assert raised.value.retry_after == 7.0


async def test_an_answer_with_an_unexpected_kind_is_an_error(server: Server, client: Client) -> None:
    with pytest.raises(DecodeError, match="Widget"):
        await exchange(server, client.get(Widget, "a", namespace="d"), {"kind": "Zone", "metadata": {"name": "a"}})


async def test_warnings_are_logged_once_each(server: Server, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    header = {"warning": '299 - "unknown field \\"spec.bogus\\"", 299 - "v1 is deprecated"'}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await exchange(server, client.create(a_widget()), widget("a", 3), headers=header)
    told = [record.__dict__["fields"]["warning"] for record in caplog.records]
    assert told == ['unknown field "spec.bogus"', "v1 is deprecated"]


async def test_warnings_go_to_a_handler_each_time(server: Server) -> None:
    heard: list[str] = []
    client = Client(transport=server, on_warning=heard.append)
    for _ in range(2):
        await exchange(server, client.create(a_widget()), widget("a", 3), headers={"warning": '299 - "careful"'})
    assert heard == ["careful", "careful"]


# ---- kinds without a class of their own


async def test_metadata_is_requested_as_partial_object_metadata(server: Server, client: Client) -> None:
    kind = PartialObjectMetadata.of(Widget)
    metadata_only = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}}
    call, found = await exchange(server, client.get(kind, "a", namespace="d"), metadata_only)
    assert call.request.headers["accept"] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert found.metadata.name == "a"
    assert found.kind == "Widget"
    call, listed = await exchange(server, client.list(kind), {"metadata": {}, "items": [metadata_only]})
    assert call.request.headers["accept"] == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert len(listed) == 1
    with pytest.raises(ConfigError, match="only its metadata was read"):
        await client.update(kind(metadata=ObjectMeta(name="a", namespace="d")))


async def test_a_kind_without_a_class_is_read_and_written_as_plain_json(server: Server, client: Client) -> None:
    kind = Unstructured.of(Widget.__api__)
    document = widget("a", 3, size=1)
    _, obj = await exchange(server, client.get(kind, "a", namespace="d"), document)
    assert obj["spec"] == {"size": 1}
    assert "status" not in obj
    obj["spec"]["size"] += 1
    call, _ = await exchange(server, client.update(obj), document)
    document["spec"]["size"] = 2
    assert body(call) == document
    fresh = kind(metadata=ObjectMeta(name="b", namespace="d"), content={"spec": {"size": 4}})
    call, _ = await exchange(server, client.apply(fresh), document)
    assert body(call) == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"size": 4},
    }


# ---- subresources of another kind


class Scale(Object):
    __api__ = APIResource("autoscaling", "v1", "Scale", "scales")

    spec: WidgetSpec


async def test_a_subresource_is_read_and_changed_as_its_own_kind(server: Server, client: Client) -> None:
    scale = client.subresource(Widget, "a", "scale", namespace="d")
    answer = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"size": 3}}
    call, found = await exchange(server, scale.get(Scale), answer)
    assert call.path == "/apis/example.com/v1/namespaces/d/widgets/a/scale"
    assert found.spec.size == 3
    call, _ = await exchange(server, scale.patch(Scale, MergePatch({"spec": {"size": 4}})), answer)
    assert call.request.headers["content-type"] == "application/merge-patch+json"
    call, _ = await exchange(server, scale.update(found), answer)
    assert (call.method, body(call)["kind"]) == ("PUT", "Scale")
    _, done = await exchange(server, scale.create(found), {"kind": "Status", "status": "Success"}, status=201)
    assert done is None
    await settle()


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ("app=web,tier!=cache", "app=web,tier!=cache"),
        ({"tier": "cache", "app": "web"}, "app=web,tier=cache"),
        (Selector.parse("app in (a,b)"), "app in (a,b)"),
        (LabelSelector(match_labels={"app": "web"}), "app=web"),
        (
            LabelSelector(
                match_labels={"app": "web"},
                match_expressions=[LabelSelectorRequirement(key="tier", operator="NotIn", values=["a", "b"])],
            ),
            "app=web,tier notin (a,b)",
        ),
    ],
)
async def test_labels_are_given_as_text_mapping_or_selector(
    server: Server, client: Client, labels: Labels, text: str
) -> None:
    task = asyncio.ensure_future(client.list(Widget, labels=labels))
    call = await server.call()
    assert call.query["labelSelector"] == text
    call.answer({"kind": "WidgetList", "metadata": {"resourceVersion": "3"}, "items": []})
    await task


@pytest.mark.parametrize("labels", [["app=web"], 5, {"app": ["a", "b"]}, Deployment])
async def test_other_types_of_label_selectors_are_rejected(server: Server, client: Client, labels: Any) -> None:
    with pytest.raises(ConfigError, match="labels="):
        await client.list(Widget, labels=labels)
    assert server.idle


@pytest.mark.parametrize("config", [None, 5])
def test_a_client_needs_a_config_or_a_transport(config: Any) -> None:
    with pytest.raises(ConfigError, match="either a Config or transport="):
        Client(config)


@pytest.mark.parametrize("status", [403, 410])
async def test_a_rejected_watch_closes_its_stream(server: Server, client: Client, status: int) -> None:
    watching = asyncio.ensure_future(anext(client.watch(Widget)))
    call = await server.call()
    body = Stream(None)
    body.send_bytes(b'{"kind": "Status", ')
    call.answered.set_result(Response(status, {}, body))
    await settle()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert body.closed
