"""The status of a WebServer, and the number of writes."""

import asyncio
from collections.abc import Callable

import pytest
from kubewright import Condition, Config, Manager
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.testing import Faults, eventually

from webservers import WebServers, ready_condition, reconciles

NewOperator = Callable[..., Manager]


async def test_the_status_counts_available_replicas(webs: WebServers, operator: Manager) -> None:
    await webs.create(replicas=2)
    web = await webs.serves(replicas=2)
    assert ready_condition(web).message == "2 of 2 replicas serve"


async def test_a_condition_keeps_its_time_until_it_changes(webs: WebServers, operator: Manager) -> None:
    await webs.create("first")
    await webs.serves("first")
    await webs.create()

    async def waits(replicas: int) -> Condition:
        """Assert that the WebServer waits for the node port, with this number of replicas."""
        web = await webs.get()
        ready = ready_condition(web)
        assert (ready.status, ready.reason, web.status.available_replicas) == ("False", "NodePortTaken", replicas)
        assert ready.observed_generation == web.metadata.generation
        return ready

    before = await eventually(waits, 3)
    await asyncio.sleep(1.1)  # times are whole seconds
    await webs.change(replicas=1)
    after = await eventually(waits, 1)
    assert after.last_transition_time == before.last_transition_time


async def test_nothing_is_written_when_nothing_differs(
    webs: WebServers, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults) as operator:
        await webs.create()
        web = await webs.serves()
        await faults.rest()
        written, reconciled = faults.writes, reconciles(operator)
        for number in range(5):
            web = await webs.client.patch(web, MergePatch({"metadata": {"annotations": {"note": str(number)}}}))
            await eventually(has_reconciled, operator, reconciled + number + 1)
        assert faults.writes == written


async def test_a_restart_writes_nothing(webs: WebServers, account: Config, new_operator: NewOperator) -> None:
    async with new_operator():
        await webs.create()
        await webs.serves()
    faults = Faults(account)
    async with new_operator(faults) as second:
        await eventually(has_reconciled, second, 1)
    assert faults.writes == 0


async def test_changes_are_recorded_as_events(webs: WebServers, operator: Manager) -> None:
    web = await webs.create(replicas=3)
    await webs.serves(replicas=3)
    await webs.change(replicas=4)
    await webs.serves(replicas=4)

    async def are_recorded() -> None:
        events = await webs.client.list(Event, namespace=webs.namespace)
        own = {each.note for each in events if each.regarding is not None and each.regarding.uid == web.metadata.uid}
        assert own == {
            "Created Deployment web",
            "Created Service web-service",
            "Deployment web: spec.replicas from 3 to 4",
        }

    await eventually(are_recorded)


async def test_changes_are_logged_with_the_object_and_both_values(
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


async def has_reconciled(operator: Manager, times: int) -> None:
    assert reconciles(operator) >= times
