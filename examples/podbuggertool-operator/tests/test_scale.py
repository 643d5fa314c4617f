"""A thousand Pods, and a thousand tools; many tools for the same Pods."""

from typing import Final

import pytest
from kubewright import Config
from kubewright.apis.core.v1 import Pod
from kubewright.testing import Faults, eventually

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertools import NewOperator, Podbuggertools, has_reconciled, reconciles, waits

PODS: Final = 1000
TEAMS: Final = 10


@pytest.mark.timeout(600)
async def test_a_thousand_pods_get_a_thousand_tools_and_then_nothing_is_written(
    tools: Podbuggertools, account: Config, new_operator: NewOperator
) -> None:
    """Ten tools match a hundred Pods each. Each other tool matches one Pod or none."""
    for number in range(PODS):
        await tools.create_pod(f"pod-{number:03}", team=str(number % TEAMS), number=str(number))
    for team in range(TEAMS):
        await tools.create(f"team-{team}", label=f"team={team}")
    for number in range(PODS - TEAMS):
        await tools.create(f"one-{number}", label=f"number={2 * number}", image="alpine")
    faults = Faults(account)
    async with new_operator(faults) as operator:
        await tools.rest(faults)
        for team in range(TEAMS):
            await tools.installed(f"team-{team}", pods=[f"pod-{number:03}" for number in range(team, PODS, TEAMS)])
        for number in range(PODS - TEAMS):
            if 2 * number < PODS:
                await tools.installed(f"one-{number}", pods=[f"pod-{2 * number:03}"])
            else:
                await tools.nothing_matches(f"one-{number}")
        for pod in await tools.client.list(Pod, namespace=tools.namespace):
            own = [] if int(pod.metadata.labels["number"]) % 2 else ["ephemeral-alpine"]
            assert sorted(each.name for each in pod.spec.ephemeral_containers) == [*own, "ephemeral-busybox"]
        await tools.rest(faults)
        written, before = faults.writes, reconciles(operator)
        for tool in await tools.client.list(Podbuggertool, namespace=tools.namespace):
            await tools.touch(tool.metadata.name)
        await eventually(has_reconciled, operator, before + PODS)
        assert faults.writes == written


async def test_tools_of_the_same_pods_do_not_wait_for_each_other(
    tools: Podbuggertools, new_operator: NewOperator
) -> None:
    pods = [f"pod-{number}" for number in range(10)]
    images = [f"tool-{number:02}" for number in range(20)]
    await tools.create_all(pods, images)
    for pod in pods:
        await tools.ready(pod)
    async with new_operator() as operator:
        await tools.all_installed(pods, images)
        assert waits(operator) == 0
