"""What a WebServer says of itself, and how little is written for it."""

from collections.abc import Callable

import pytest
from kubewright import Manager
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.testing import eventually, running

from webservers import WebServers, ready_condition, reconciles

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


async def test_what_is_done_is_told_in_events(webs: WebServers, operator: Manager) -> None:
    web = await webs.create(replicas=3)
    await webs.serves(replicas=3)
    await webs.change(replicas=4)
    await webs.serves(replicas=4)

    async def are_told() -> None:
        events = await webs.client.list(Event, namespace=webs.namespace)
        own = {each.note for each in events if each.regarding is not None and each.regarding.uid == web.metadata.uid}
        assert own == {
            "Created Deployment web",
            "Created Service web-service",
            "Deployment web: spec.replicas from 3 to 4",
        }

    await eventually(are_told)


async def test_what_is_done_is_logged_with_the_object_and_both_values(
    webs: WebServers, operator: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="kubewright")
    await webs.create(replicas=3)
    await webs.serves(replicas=3)
    await webs.change(replicas=4)
    await webs.serves(replicas=4)
    [line] = [each.getMessage() for each in caplog.records if "spec.replicas change" in each.getMessage()]
    assert line.startswith("Deployment spec.replicas change")
    assert "name=web object=web before=3 after=4" in line


def writes(operator: Manager) -> int:
    """How many there were; a POST is a question after rights, or an Event."""
    return sum(count for (_, method, _), count in operator.metrics.requests.items() if method not in ("GET", "POST"))


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
