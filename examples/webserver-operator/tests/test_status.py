"""What a WebServer says of itself, and how little is written for it."""

from collections.abc import Callable

import pytest
from kubewright import Manager
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.testing import eventually, running

from webservers import OLD, WebServers, ready_condition

pytestmark = pytest.mark.xdist_group("node port 30010")


async def test_it_says_how_many_replicas_serve(webs: WebServers, operator: Manager) -> None:
    await webs.create(replicas=2)
    web = await webs.serves(replicas=2)
    assert ready_condition(web).message == "2 of 2 replicas serve"


async def test_a_condition_keeps_its_time_until_it_changes(webs: WebServers, operator: Manager) -> None:
    await webs.create(replicas=2)
    before = ready_condition(await webs.serves(replicas=2))
    await webs.change(replicas=1)
    after = ready_condition(await webs.serves(replicas=1))
    assert after.message == "1 of 1 replicas serve"
    assert after.last_transition_time == before.last_transition_time


async def test_nothing_is_written_when_nothing_differs(webs: WebServers, operator: Manager) -> None:
    await webs.create()
    await webs.serves()
    before = await settled_versions(webs)
    written, reconciled = writes(operator), reconciles(operator)
    web = await webs.get()
    for number in range(5):
        note = MergePatch({"metadata": {"annotations": {"note": str(number)}}})
        web = await webs.client.patch(web, note)
        await eventually(has_reconciled, operator, reconciled + number + 1)
    assert writes(operator) == written
    assert await versions(webs) == [web.metadata.resource_version, *before[1:]]


async def test_a_restart_changes_nothing(webs: WebServers, new_operator: Callable[[], Manager]) -> None:
    async with running(new_operator()):
        await webs.create()
        await webs.serves()
        before = await settled_versions(webs)
    async with running(new_operator()) as second:
        await eventually(has_reconciled, second, 1)
        assert writes(second) == 0
    assert await versions(webs) == before


async def test_a_second_webserver_is_told_who_has_the_port_and_gets_it_when_it_is_free(
    webs: WebServers, operator: Manager
) -> None:
    await webs.create("first")
    await webs.serves("first")
    second = await webs.create("second", replicas=1)

    async def is_told() -> None:
        condition = ready_condition(await webs.get("second"))
        assert (condition.status, condition.reason) == ("False", "NodePortTaken")
        assert f'node port 30010 is taken by Service "{webs.namespace}/first-service"' in condition.message
        events = [each for each in await webs.client.list(Event, namespace=webs.namespace) if regards(each, "second")]
        assert len(events) == 1
        [event] = events
        assert (event.type, event.reason, event.note) == ("Warning", "NodePortTaken", condition.message)
        assert event.regarding is not None
        assert event.regarding.uid == second.metadata.uid

    await eventually(is_told)
    assert (await webs.deployment("second")).spec.replicas == 1
    await webs.delete("first")
    await webs.serves("second", replicas=1, image=OLD)


def regards(event: Event, name: str) -> bool:
    return event.reason == "NodePortTaken" and event.regarding is not None and event.regarding.name == name


def writes(operator: Manager) -> int:
    """How many there were; a POST is a question after rights, or an Event."""
    return sum(count for (_, method, _), count in operator.metrics.requests.items() if method not in ("GET", "POST"))


def reconciles(operator: Manager) -> int:
    return sum(operator.metrics.controllers["webserver"].outcomes.values())


async def has_reconciled(operator: Manager, times: int) -> None:
    assert reconciles(operator) >= times


async def versions(webs: WebServers) -> list[str]:
    """The resource versions of the WebServer and of what belongs to it."""
    owned = (await webs.deployment(), await webs.service(), *await webs.replica_sets(), *await webs.pods())
    return [each.metadata.resource_version for each in (await webs.get(), *owned)]


async def settled_versions(webs: WebServers) -> list[str]:
    """The same, once nobody has anything left to say: the cluster's own controllers write several times."""
    seen: list[list[str]] = [[]]

    async def check() -> None:
        seen.append(await versions(webs))
        assert seen[-1] == seen[-2]

    await eventually(check)
    return seen[-1]
