"""Lists and watches, which informers are built on."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from conformance.rawapi import API, Stream


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def fill(api: API, ns: str, count: int) -> None:
    for number in range(count):
        (await api.post(f"{ns}/configmaps", config_map(f"c{number}", app="x"))).expect(201)


ONLY = "labelSelector=app%3Dx"


async def test_items_of_a_built_in_list_omit_their_kind(api: API, ns: str) -> None:
    await fill(api, ns, 1)
    found = (await api.get(f"{ns}/configmaps?{ONLY}")).expect(200).json
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(found["metadata"]["resourceVersion"]) > 0
    assert "kind" not in found["items"][0]


async def test_a_list_comes_in_pages(api: API, ns: str) -> None:
    await fill(api, ns, 5)
    names: list[str] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = (await api.get(f"{ns}/configmaps?{ONLY}&limit=2&continue={token}")).expect(200).json
        names += [each["metadata"]["name"] for each in page["items"]]
        token, pages = page["metadata"].get("continue", ""), pages + 1
    assert (names, pages) == (["c0", "c1", "c2", "c3", "c4"], 3)


async def test_a_page_has_a_remaining_count_unless_selected(api: API, ns: str) -> None:
    await fill(api, ns, 3)
    page = (await api.get(f"{ns}/configmaps?limit=1")).json
    assert page["metadata"]["remainingItemCount"] >= 2
    selected = (await api.get(f"{ns}/configmaps?limit=1&{ONLY}")).json
    assert "remainingItemCount" not in selected["metadata"]


async def test_all_pages_have_the_version_of_the_first(api: API, ns: str) -> None:
    await fill(api, ns, 3)
    page = (await api.get(f"{ns}/configmaps?{ONLY}&limit=1")).json
    await api.delete(f"{ns}/configmaps/c2")
    rest = (await api.get(f"{ns}/configmaps?{ONLY}&continue={page['metadata']['continue']}")).json
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c1", "c2"]


async def test_a_continue_token_contains_version_and_key(api: API, ns: str) -> None:
    await fill(api, ns, 2)
    token = (await api.get(f"{ns}/configmaps?{ONLY}&limit=1")).json["metadata"]["continue"]
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content["v"] == "meta.k8s.io/v1"
    assert content["start"].endswith("c0\x00")


async def test_label_selectors_filter_lists(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map("a", app="x", tier="1"))
    await api.post(f"{ns}/configmaps", config_map("b", app="x"))
    for selector, names in (
        ("app%3Dx,tier", ["a"]),
        ("app%3Dx,!tier", ["b"]),
        ("tier%20in%20(1,2)", ["a"]),
        ("app%3Dx,tier!%3D1", ["b"]),
        ("app%20notin%20(y),app", ["a", "b"]),
    ):
        found = (await api.get(f"{ns}/configmaps?labelSelector={selector}")).json["items"]
        assert [each["metadata"]["name"] for each in found] == names, selector


async def test_field_selectors_filter_lists(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", config_map("a"))
    found = (await api.get(f"{ns}/configmaps?fieldSelector=metadata.name%3Da")).json["items"]
    assert [each["metadata"]["name"] for each in found] == ["a"]


async def events(stream: Stream, count: int) -> list[tuple[str, str]]:
    found = [await stream.next() for _ in range(count)]
    return [(each["type"], each["object"]["metadata"]["name"]) for each in found]


async def test_a_watch_from_a_version_gets_later_events(api: API, ns: str) -> None:
    start = (await api.get(f"{ns}/configmaps")).json["metadata"]["resourceVersion"]
    await api.post(f"{ns}/configmaps", config_map("a", app="x"))
    stream = await api.watch(f"{ns}/configmaps?watch=1&{ONLY}&resourceVersion={start}")
    await api.patch(f"{ns}/configmaps/a", {"data": {"k": "v"}})
    await api.delete(f"{ns}/configmaps/a")
    assert await events(stream, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_deleted_event_has_the_version_of_the_deletion(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map("a", app="x"))).json
    version = made["metadata"]["resourceVersion"]
    stream = await api.watch(f"{ns}/configmaps?watch=1&{ONLY}&resourceVersion={version}")
    await api.delete(f"{ns}/configmaps/a")
    event = await stream.next()
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_watch_without_a_version_starts_with_existing_objects(api: API, ns: str) -> None:
    await fill(api, ns, 2)
    stream = await api.watch(f"{ns}/configmaps?watch=1&{ONLY}")
    assert await events(stream, 2) == [("ADDED", "c0"), ("ADDED", "c1")]


async def test_an_object_that_leaves_a_selection_is_deleted_for_its_watch(api: API, ns: str) -> None:
    made = (await api.post(f"{ns}/configmaps", config_map("a", app="x"))).json
    version = made["metadata"]["resourceVersion"]
    stream = await api.watch(f"{ns}/configmaps?watch=1&{ONLY}&resourceVersion={version}")
    await api.patch(f"{ns}/configmaps/a", {"metadata": {"labels": {"app": "y"}}})
    await api.patch(f"{ns}/configmaps/a", {"metadata": {"labels": {"app": "x"}}})
    assert await events(stream, 2) == [("DELETED", "a"), ("ADDED", "a")]


async def test_a_streaming_list_ends_with_a_bookmark(api: API, ns: str) -> None:
    await fill(api, ns, 2)
    stream = await api.watch(
        f"{ns}/configmaps?watch=1&{ONLY}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true"
    )
    found = await stream.until("BOOKMARK")
    assert [each["object"]["metadata"]["name"] for each in found[:-1]] == ["c0", "c1"]
    bookmark = found[-1]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0
    await api.delete(f"{ns}/configmaps/c0")
    assert await events(stream, 1) == [("DELETED", "c0")]


async def test_send_initial_events_requires_resource_version_match(api: API, ns: str) -> None:
    answer = (await api.get(f"{ns}/configmaps?watch=1&sendInitialEvents=true")).expect(422)
    assert "resourceVersionMatch" in answer.message


async def test_a_watch_ends_after_its_timeout_seconds(api: API, ns: str) -> None:
    stream = await api.watch(f"{ns}/configmaps?watch=1&{ONLY}&timeoutSeconds=1")
    try:
        while True:
            await stream.next()
    except StopAsyncIteration:
        return


async def test_flags_of_queries_are_false_in_any_case(api: API, ns: str) -> None:
    for text in ("false", "False", "FALSE", "0"):
        query = f"watch={text}&allowWatchBookmarks={text}&timeoutSeconds=1"
        assert (await api.get(f"{ns}/configmaps?{query}")).expect(200).json["kind"] == "ConfigMapList"


async def test_a_metadata_watch_sends_only_metadata(api: API, ns: str) -> None:
    await api.post(f"{ns}/configmaps", {**config_map("a", app="x"), "data": {"k": "v"}})
    stream = await api.watch(
        f"{ns}/configmaps?watch=1&{ONLY}",
        accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    )
    found = (await stream.next())["object"]
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "data" not in found


async def test_one_object_can_be_watched_by_name(api: API, ns: str) -> None:
    await fill(api, ns, 2)
    stream = await api.watch(f"{ns}/configmaps?watch=1&fieldSelector=metadata.name%3Dc1")
    assert await events(stream, 1) == [("ADDED", "c1")]


async def test_all_namespaces_can_be_watched_at_once(api: API, ns: str) -> None:
    start = (await api.get(f"{ns}/configmaps")).json["metadata"]["resourceVersion"]
    here = ns.rpartition("/")[2]  # objects that other tests left in other namespaces are being deleted
    stream = await api.watch(f"/api/v1/configmaps?watch=1&labelSelector=app%3D{here}&resourceVersion={start}")
    await api.post(f"{ns}/configmaps", config_map("everywhere", app=here))
    event = await stream.next()
    assert event["object"]["metadata"]["name"] == "everywhere"


async def test_every_watch_sees_every_event_in_order(api: API, ns: str) -> None:
    start = (await api.get(f"{ns}/configmaps")).json["metadata"]["resourceVersion"]
    streams = [await api.watch(f"{ns}/configmaps?watch=1&{ONLY}&resourceVersion={start}") for _ in range(5)]
    await asyncio.gather(*(api.post(f"{ns}/configmaps", config_map(f"c{n}", app="x")) for n in range(30)))
    seen = [[(await stream.next())["object"]["metadata"] for _ in range(30)] for stream in streams]
    versions = [[int(each["resourceVersion"]) for each in one] for one in seen]
    assert all(one == sorted(set(one)) for one in versions)
    assert all(one == versions[0] for one in versions)


async def test_events_are_selected_by_the_field_names_of_their_version(api: API, ns: str) -> None:
    namespace = ns.rpartition("/")[2]
    about = {"kind": "Pod", "namespace": namespace, "name": "p"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Started", "type": "Normal"}
    (await api.post(f"{ns}/events", event)).expect(201)
    newer = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    old_names, new_names = ("involvedObject", "regarding"), ("regarding", "involvedObject")
    for path, (prefix, other) in ((f"{ns}/events", old_names), (newer, new_names)):
        for selector, names in (
            ("reason%3DStarted", ["e"]),
            ("reason%3DFailed", []),
            (f"{prefix}.kind%3DPod,{prefix}.name%3Dp", ["e"]),
            (f"{prefix}.kind%21%3DPod", []),
        ):
            found = (await api.get(f"{path}?fieldSelector={selector}")).expect(200).json["items"]
            assert [each["metadata"]["name"] for each in found] == names, selector
        answer = (await api.get(f"{path}?fieldSelector={other}.kind%3DPod")).expect(400)
        assert answer.json["message"].endswith(f"field label not supported: {other}.kind")
    for path, name in ((f"{ns}/events", "reportingComponent"), (newer, "reportingController")):
        found = (await api.get(f"{path}?fieldSelector={name}%3D")).expect(200).json["items"]
        assert [each["metadata"]["name"] for each in found] == ["e"]


async def test_a_watch_in_yaml_is_refused(api: API, ns: str) -> None:
    refused = (await api.get(f"{ns}/configmaps?watch=true", accept="application/yaml")).expect(406)
    assert b"only the following media types are accepted: application/json;stream=watch" in refused.body
