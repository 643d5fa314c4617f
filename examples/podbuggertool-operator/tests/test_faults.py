"""Each Pod gets each tool exactly once, whatever fails."""

import random

from kubewright import Config
from kubewright.apis.core.v1 import Pod
from kubewright.client import MergePatch
from kubewright.http.message import Request, Response
from kubewright.testing import Faults, eventually, failure, gone, killed_after_each_write

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertools import NewOperator, Podbuggertools, has_reconciled, reconciles, waits

PODS = [f"pod-{number}" for number in range(10)]
IMAGES = ["alpine", "busybox", "netshoot"]


async def test_the_tool_is_added_once_wherever_the_operator_is_killed(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    """The next process finds a new image in the spec, and reports the previous one."""
    pods = PODS[:2]
    async for faults in killed_after_each_write(account):
        for pod in pods:
            await tools.create_pod(pod)
        await tools.create(image="busybox")
        async with new_operator(faults):
            await faults.died_or(tools.installed, pods=pods)
        before = {pod: await tools.tools_in(pod) for pod in pods}
        await tools.change(image="alpine")
        async with new_operator():
            tool = await tools.installed(pods=pods)
        for pod in pods:
            await tools.has(["ephemeral-alpine", *before[pod]], pod=pod)
        if any(before.values()):
            assert [each.image for each in tool.status.earlier] == ["busybox"]
        await start_over(tools)


async def test_a_pod_that_changes_at_the_last_moment_gets_nothing(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    await tools.create_pod()
    await tools.ready()
    await tools.create()
    faults = Overtaken(account, tools)
    async with new_operator(faults):
        await tools.nothing_matches()
    assert faults.overtaken
    await tools.has([])


async def test_a_conflict_is_retried_at_once(tools: Podbuggertools, account: Config, new_operator: NewOperator) -> None:
    await tools.create_pod()
    await tools.ready()
    await tools.create()
    faults, conflicts = Faults(account), [failure(409, "Conflict")] * 3
    faults.answer = lambda request: conflicts.pop() if conflicts and adds(request) else None
    async with new_operator(faults) as operator:
        await tools.installed()
        assert waits(operator) == 0
    assert not conflicts


async def test_nothing_is_added_twice_with_a_lagging_watch(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    faults.lag = 0.5
    async with new_operator(faults):
        await tools.create_all(PODS, IMAGES)
        await tools.all_installed(PODS, IMAGES)


async def test_each_pod_gets_each_tool_despite_random_faults(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    faults = Faults(account)
    async with new_operator(faults) as operator:
        faults.storm(random.Random(20261122))
        await tools.create_all(PODS, IMAGES)
        await eventually(has_reconciled, operator, 10)
        await tools.delete_pod(PODS[0])
        await gone(tools.pod, PODS[0])
        await tools.create_pod(PODS[0])
        await eventually(has_reconciled, operator, reconciles(operator) + 1)
        faults.calm()
        for image in IMAGES:
            await tools.touch(image)  # or the wait after so many failures would be as long as the storm
        await tools.all_installed(PODS, IMAGES)
        await tools.rest(faults)
        written, before = faults.writes, reconciles(operator)
        for image in IMAGES:
            await tools.touch(image)
        await eventually(has_reconciled, operator, before + len(IMAGES))
        assert faults.writes == written


class Overtaken(Faults):
    """When the operator adds a tool to the Pod for the first time, another client removes the label just before."""

    def __init__(self, account: Config, tools: Podbuggertools) -> None:
        super().__init__(account)
        self.overtaken = False
        self._tools = tools

    async def send(
        self,
        request: Request,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - transports have it
        stream: bool = False,
    ) -> Response:
        if adds(request) and not self.overtaken:
            self.overtaken = True
            other = MergePatch({"metadata": {"labels": {"app": "shop"}}})
            await self._tools.client.patch(await self._tools.pod(), other)
        return await super().send(request, timeout=timeout, stream=stream)


def adds(request: Request) -> bool:
    return request.path.endswith("/ephemeralcontainers")


async def start_over(tools: Podbuggertools) -> None:
    """Delete all Podbuggertools and Pods of the namespace."""
    for kind in (Podbuggertool, Pod):
        for each in await tools.client.list(kind, namespace=tools.namespace):
            await tools.client.delete(each, grace_period=0)
            await gone(tools.client.get, kind, each.metadata.name, namespace=tools.namespace)
