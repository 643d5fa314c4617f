"""Waiting for an object continues across broken watches."""

import asyncio
import json

import pytest
from tests.unit.scripted import Server, Widget, added, deleted, modified, settle, widget

from kubewright.client import Client, Unstructured, has_condition
from kubewright.client._dynamic import decode_object
from kubewright.machinery.errors import DeadlineExceeded, Forbidden
from kubewright.testing import VirtualClock

EMPTY = {"metadata": {"resourceVersion": "9"}, "items": []}


def big(each: Widget) -> bool:
    return each.spec.size > 3


async def test_an_object_that_already_matches_is_returned_at_once(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_for(Widget, "a", big, namespace="d"))
    call = await server.call()
    assert call.query["fieldSelector"] == "metadata.name=a"
    call.answer({"metadata": {"resourceVersion": "9"}, "items": [widget("a", 3, size=5)]})
    assert (await task).spec.size == 5
    assert server.idle


async def test_an_object_is_watched_until_it_matches(server: Server, clock: VirtualClock, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_for(Widget, "a", big, namespace="d"))
    (await server.call()).answer(EMPTY)
    watch = await server.call()
    assert watch.query["resourceVersion"] == "9"
    stream = watch.stream()
    stream.send(added(widget("a", 11, size=1)))
    stream.reset()
    await settle()
    await clock.advance(1)
    (await server.call()).answer({"metadata": {"resourceVersion": "12"}, "items": [widget("a", 11, size=1)]})
    (await server.call()).stream().send(modified(widget("a", 13, size=4)))
    assert (await task).spec.size == 4


async def test_an_object_is_waited_for_until_it_is_gone(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_until_gone(Widget, "a", namespace="d"))
    (await server.call()).answer({"metadata": {"resourceVersion": "9"}, "items": [widget("a", 3)]})
    stream = (await server.call()).stream()
    await settle()
    assert not task.done()
    stream.send(deleted(widget("a", 11)))
    await task
    assert stream.closed


async def test_a_newer_object_of_the_same_name_is_a_different_object(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_until_gone(Widget, "a", namespace="d", uid="old"))
    (await server.call()).answer({"metadata": {"resourceVersion": "9"}, "items": [widget("a", 3, uid="new")]})
    await task


async def test_a_wait_that_times_out_names_the_condition(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_for(Widget, "a", big, namespace="d", timeout=0.5))
    (await server.call()).answer({"metadata": {"resourceVersion": "9"}, "items": [widget("a", 3)]})
    with pytest.raises(
        DeadlineExceeded, match=r'Widget "a": big was not met after 0\.5 s; it is at resource version 3'
    ):
        await task
    held = widget("a", 3, finalizers=["example.com/hold"])
    task = asyncio.ensure_future(client.wait_until_gone(Widget, "a", namespace="d", timeout=0.5))
    watch = await server.call()
    if watch.watches:
        watch = await server.call()
    watch.answer({"metadata": {"resourceVersion": "9"}, "items": [held]})
    with pytest.raises(DeadlineExceeded, match=r"finalizers keep it: example\.com/hold"):
        await task


async def test_a_missing_permission_ends_the_wait(server: Server, client: Client) -> None:
    task = asyncio.ensure_future(client.wait_for(Widget, "a", big, namespace="d"))
    (await server.call()).fail(403, "Forbidden", "no")
    with pytest.raises(Forbidden):
        await task


READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("status", "met"),
    [
        ({"conditions": [{"type": "Other", "status": "True"}, READY]}, True),
        ({"conditions": [{**READY, "status": "False"}]}, False),
        ({"conditions": []}, False),
        ({}, False),
        ({"conditions": [{**READY, "observedGeneration": 2}]}, True),
        ({"conditions": [{**READY, "observedGeneration": 1}]}, False),
        ({"observedGeneration": 2, "conditions": [READY]}, True),
        ({"observedGeneration": 1, "conditions": [READY]}, False),
    ],
)
def test_a_condition_counts_only_for_the_current_generation(status: dict[str, object], met: bool) -> None:
    document = widget("a", 3, generation=2) | {"status": status}
    for kind in (Widget, Unstructured.of(Widget.__api__)):
        assert has_condition("Ready")(decode_object(kind, json.dumps(document).encode())) is met


async def test_a_condition_that_is_not_met_in_time_is_named(server: Server, client: Client) -> None:
    waiting = client.wait_for(Widget, "a", has_condition("Ready", "False"), namespace="d", timeout=0.01)
    with pytest.raises(DeadlineExceeded, match=r'Widget "a": condition Ready=False was not met'):
        await waiting
