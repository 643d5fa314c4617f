"""How long a Pod that is not Ready is waited for, and what is said when that is over."""

from datetime import timedelta

from kubewright import Manager, MergePatch
from kubewright.machinery.time import format
from kubewright.testing import eventually, running

from podbuggertools import Ahead, NewOperator, Podbuggertools, has_reconciled, installed_condition, reconciles

LATE = "it was not Ready within 120 s; it gets the tool when it is"


async def test_after_120_seconds_somebody_is_told(tools: Podbuggertools, new_operator: NewOperator) -> None:
    clock = Ahead()
    async with running(new_operator(clock=clock)) as operator:
        await tools.create()
        await tools.create_pod(gated=True)
        await tools.pending("NotReady")
        clock.by = timedelta(seconds=90)
        await has_looked_again(operator)
        await tools.pending("NotReady")
        assert await tools.events("pod", "TimedOut") == []
        clock.by = timedelta(seconds=120)
        tool = await tools.pending("TimedOut")
        assert installed_condition(tool).message == f'0 of 1 Pods with app=payment have it; Pod "pod": {LATE}'
        assert await tools.told("tool", "TimedOut") == f'Pod "pod": {LATE}'
        assert await tools.told("pod", "TimedOut") == f'Podbuggertool "tool": {LATE}'


async def test_a_pod_that_is_ready_after_all_gets_the_tool(tools: Podbuggertools, new_operator: NewOperator) -> None:
    clock = Ahead()
    clock.by = timedelta(seconds=125)
    async with running(new_operator(clock=clock)):
        await tools.create()
        await tools.create_pod(gated=True)
        await tools.pending("TimedOut")
        await tools.let_start()
        await tools.installed()
        await tools.has(["ephemeral-busybox"])


async def test_a_restart_does_not_begin_the_wait_again(tools: Podbuggertools, new_operator: NewOperator) -> None:
    async with running(new_operator()):
        await tools.create()
        await tools.create_pod(gated=True)
        await tools.pending("NotReady")
    clock = Ahead()
    clock.by = timedelta(seconds=120)
    async with running(new_operator(clock=clock)):
        await tools.pending("TimedOut")
        await tools.told("pod", "TimedOut")
    async with running(new_operator(clock=clock)) as operator:
        await eventually(has_reconciled, operator, 1)
    assert len(await tools.events("pod", "TimedOut")) == 1
    assert len(await tools.events("tool", "TimedOut")) == 1


async def test_a_pod_is_waited_for_from_when_it_was_last_ready(
    tools: Podbuggertools, new_operator: NewOperator
) -> None:
    clock = Ahead()
    async with running(new_operator(clock=clock)) as operator:
        await tools.create()
        pod = await tools.create_pod(gated=True)
        ready_until = format(clock.now() + timedelta(minutes=5))
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": ready_until}
        await tools.client.patch(pod, MergePatch({"status": {"conditions": [condition]}}), subresource="status")
        clock.by = timedelta(minutes=6)
        await has_looked_again(operator)
        await tools.pending("NotReady")
        clock.by = timedelta(minutes=8)
        await tools.pending("TimedOut")


async def test_no_worker_waits(tools: Podbuggertools, operator: Manager) -> None:
    """More tools wait than there are workers, and another one gets its Pod."""
    await tools.create_pod("slow", app="slow", gated=True)
    for number in range(20):
        await tools.create(f"waits-{number}", label="app=slow", image=f"example.com/tool-{number}")
    for number in range(20):
        await tools.pending("NotReady", f"waits-{number}", pod="slow")
    await tools.create_pod()
    await tools.create()
    await tools.installed()


async def has_looked_again(operator: Manager) -> None:
    """Wait for one more reconcile."""
    await eventually(has_reconciled, operator, reconciles(operator) + 1)
