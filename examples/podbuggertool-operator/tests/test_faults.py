"""Each Pod has each tool once, whatever goes wrong meanwhile."""

import random

from kubewright import Config, MergePatch
from kubewright.apis.core.v1 import Pod
from kubewright.testing import Faults, eventually, gone, killed_after_each_write, running

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertools import NewOperator, Podbuggertools, has_reconciled, reconciles

PODS = [f"pod-{number}" for number in range(10)]
IMAGES = ["alpine", "busybox", "netshoot"]


async def test_it_may_die_after_any_write(tools: Podbuggertools, account: Config, new_operator: NewOperator) -> None:
    """The one after it finds another image in the spec, and knows what to say of the one before."""
    pods = PODS[:2]
    async for faults in killed_after_each_write(account):
        for pod in pods:
            await tools.create_pod(pod)
        await tools.create(image="busybox")
        async with running(new_operator(faults)):
            await faults.died_or(tools.installed, pods=pods)
        before = {pod: await tools.tools_in(pod) for pod in pods}
        await tools.change(image="alpine")
        async with running(new_operator()):
            tool = await tools.installed(pods=pods)
        for pod in pods:
            await tools.has(["ephemeral-alpine", *before[pod]], pod=pod)
        if any(before.values()):
            assert [each.image for each in tool.status.earlier] == ["busybox"]
        await start_over(tools)


async def test_what_changed_meanwhile_gets_nothing_from_an_operator_that_has_not_seen_it(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with running(new_operator(faults)) as operator:
        await tools.create()
        await tools.create_pod(gated=True)
        await tools.pending("NotReady")
        faults.lag = 2.0
        await tools.let_start()
        pod = await tools.ready()
        await tools.client.patch(pod, MergePatch({"metadata": {"labels": {"app": "shop"}}}))
        before = reconciles(operator)
        await tools.nothing_matches()
        assert reconciles(operator) > before
        await tools.has([])


async def test_nothing_is_added_twice_though_the_watch_lags(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    faults.lag = 0.5
    async with running(new_operator(faults)):
        await tools.create_all(PODS, IMAGES)
        await tools.all_installed(PODS, IMAGES)


async def test_a_storm_leaves_each_pod_with_each_tool_and_then_there_is_rest(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with running(new_operator(faults)) as operator:
        faults.storm(random.Random(20261122))
        await tools.create_all(PODS, IMAGES)
        await eventually(has_reconciled, operator, 10)
        await tools.delete_pod(PODS[0])
        await gone(tools.pod, PODS[0])
        await tools.create_pod(PODS[0])
        await eventually(has_reconciled, operator, reconciles(operator) + 1)
        faults.calm()
        await tools.all_installed(PODS, IMAGES)
        await tools.rest(faults)
        written, before = faults.writes, reconciles(operator)
        for image in IMAGES:
            await tools.touch(image)
        await eventually(has_reconciled, operator, before + len(IMAGES))
        assert faults.writes == written


async def start_over(tools: Podbuggertools) -> None:
    """Without Podbuggertools and Pods."""
    for kind in (Podbuggertool, Pod):
        for each in await tools.client.list(kind, namespace=tools.namespace):
            await tools.client.delete(each, grace_period=0)
            await gone(tools.client.get, kind, each.metadata.name, namespace=tools.namespace)
