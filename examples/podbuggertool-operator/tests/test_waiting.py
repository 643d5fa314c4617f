"""The wait for a Pod that is not Ready, and its timeout."""

from datetime import datetime, timedelta

from kubewright import Manager
from kubewright.client import MergePatch
from kubewright.machinery.time import format
from kubewright.testing import eventually

from podbuggertools import NewOperator, Podbuggertools, SetClock, has_reconciled, installed_condition, reconciles

LATE = "it was not Ready within 120 s; it gets the tool when it becomes Ready"


async def test_a_timeout_is_reported_after_120_seconds(tools: Podbuggertools, new_operator: NewOperator) -> None:
    clock = SetClock(await begin_to_wait(tools))
    began = clock.time
    async with new_operator(clock=clock) as operator:
        await tools.pending("NotReady")
        clock.time = began + timedelta(seconds=119)
        await has_looked_again(operator)
        await tools.pending("NotReady")
        assert await tools.events("pod", "TimedOut") == []
        clock.time = began + timedelta(seconds=120)
        tool = await tools.pending("TimedOut")
        assert installed_condition(tool).message == f'0 of 1 Pods with app=payment have it; Pod "pod": {LATE}'
        assert await tools.event_note("tool", "TimedOut") == f'Pod "pod": {LATE}'
        assert await tools.event_note("pod", "TimedOut") == f'Podbuggertool "tool": {LATE}'


async def test_a_pod_that_becomes_ready_after_the_timeout_gets_the_tool(
    tools: Podbuggertools, new_operator: NewOperator
) -> None:
    clock = SetClock(await begin_to_wait(tools) + timedelta(seconds=120))
    async with new_operator(clock=clock):
        await tools.pending("TimedOut")
        await tools.let_start()
        await tools.installed()
        await tools.has(["ephemeral-busybox"])


async def test_a_restart_does_not_restart_the_wait(tools: Podbuggertools, new_operator: NewOperator) -> None:
    clock = SetClock(await begin_to_wait(tools))
    async with new_operator(clock=clock):
        await tools.pending("NotReady")
    clock.time += timedelta(seconds=120)
    async with new_operator(clock=clock):
        await tools.pending("TimedOut")
        await tools.event_note("tool", "TimedOut")
        await tools.event_note("pod", "TimedOut")
    async with new_operator(clock=clock) as operator:
        await eventually(has_reconciled, operator, 1)
    assert len(await tools.events("pod", "TimedOut")) == 1
    assert len(await tools.events("tool", "TimedOut")) == 1


async def test_the_wait_starts_when_the_pod_was_last_ready(tools: Podbuggertools, new_operator: NewOperator) -> None:
    ready_until = await begin_to_wait(tools) + timedelta(minutes=5)
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": format(ready_until)}
    await tools.client.patch(
        await tools.pod(), MergePatch({"status": {"conditions": [condition]}}), subresource="status"
    )
    clock = SetClock(ready_until + timedelta(seconds=119))
    async with new_operator(clock=clock):
        await tools.pending("NotReady")
        clock.time += timedelta(seconds=1)
        await tools.pending("TimedOut")


async def test_waiting_holds_no_worker(tools: Podbuggertools, operator: Manager) -> None:
    """More tools wait than there are workers, and another tool is still added."""
    await tools.create_pod("slow", app="slow", gated=True)
    for number in range(20):
        await tools.create(f"waits-{number}", label="app=slow", image=f"example.com/tool-{number}")
    for number in range(20):
        await tools.pending("NotReady", f"waits-{number}", pod="slow")
    await tools.create_pod()
    await tools.create()
    await tools.installed()


async def begin_to_wait(tools: Podbuggertools) -> datetime:
    """Create a tool, and a Pod that does not become Ready. Returns when the wait starts."""
    tool, pod = await tools.create(), await tools.create_pod(gated=True)
    assert tool.metadata.creation_timestamp is not None
    assert pod.metadata.creation_timestamp is not None
    return max(tool.metadata.creation_timestamp, pod.metadata.creation_timestamp)


async def has_looked_again(operator: Manager) -> None:
    """Wait for another reconcile."""
    await eventually(has_reconciled, operator, reconciles(operator) + 1)
