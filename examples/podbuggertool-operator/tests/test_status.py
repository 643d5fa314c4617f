"""The status of a Podbuggertool, and the number of writes."""

from kubewright import Config, Manager
from kubewright.client import MergePatch
from kubewright.testing import Cluster, Faults, eventually

from podbuggertool_operator.main import manager
from podbuggertools import NewOperator, Podbuggertools, has_reconciled, installed_condition


async def test_the_status_counts_and_lists_the_pods(tools: Podbuggertools, operator: Manager) -> None:
    for name in ("b", "a"):
        await tools.create_pod(name)
    await tools.create_pod("c", gated=True)
    await tools.create()

    async def says_so() -> None:
        tool = await tools.pending("NotReady", pod="c")
        assert (tool.status.pods, tool.status.installed_pods, tool.status.pending_pods) == (["a", "b"], 2, 1)
        assert installed_condition(tool).message == '2 of 3 Pods with app=payment have it; Pod "c": it is not Ready yet'

    await eventually(says_so)


async def test_the_status_reports_that_no_pod_matches(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create()

    async def says_so() -> None:
        condition = installed_condition(await tools.get())
        assert (condition.status, condition.reason) == ("False", "NoPods")
        assert condition.message == "no Pod with app=payment exists in this namespace"

    await eventually(says_so)


async def test_an_addition_is_recorded_for_the_pod_and_the_tool(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.create()
    await tools.installed()
    assert await tools.event_note("tool", "Added") == 'ephemeral-busybox was added to Pod "pod"'
    assert (
        await tools.event_note("pod", "Added") == 'Podbuggertool "tool" added ephemeral-busybox with the image busybox'
    )


async def test_the_status_lists_at_most_a_hundred_pods(tools: Podbuggertools, operator: Manager) -> None:
    for number in range(105):
        await tools.create_pod(f"pod-{number:03}", gated=number < 2)
    await tools.create()

    async def says_so() -> None:
        status = (await tools.get()).status
        assert (status.installed_pods, status.pending_pods) == (103, 2)
        assert status.pods == [f"pod-{number:03}" for number in range(2, 102)]

    await eventually(says_so)


async def test_a_restart_writes_nothing(tools: Podbuggertools, new_operator: NewOperator, account: Config) -> None:
    async with new_operator():
        await tools.create_pod()
        await tools.create()
        await tools.installed()
        before = (await tools.get()).metadata.resource_version
    faults = Faults(account)
    async with new_operator(faults) as second:
        await eventually(has_reconciled, second, 1)
        await tools.client.patch(await tools.pod(), MergePatch({"metadata": {"labels": {"note": "read"}}}))
        await eventually(has_reconciled, second, 2)
    assert faults.writes == 0
    assert (await tools.get()).metadata.resource_version == before


async def test_an_erased_status_is_written_again(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.create()
    tool = await tools.installed()
    await tools.client.patch(tool, MergePatch({"status": None}), subresource="status")
    await tools.installed()


async def test_a_rejection_is_reported_and_retried(
    cluster: Cluster, tools: Podbuggertools, new_operator: NewOperator
) -> None:
    await tools.create_pod()
    await tools.ready()
    less = [rule for rule in manager.rbac_rules() if "pods/ephemeralcontainers" not in rule.resources]
    async with (
        cluster.service_account(less, namespace=tools.namespace) as powerless,
        new_operator(powerless),
    ):
        await tools.create()
        tool = await tools.pending("Refused")
        assert 'cannot patch resource "pods/ephemeralcontainers"' in installed_condition(tool).message
        assert 'cannot patch resource "pods/ephemeralcontainers"' in await tools.event_note("pod", "Refused")
    async with new_operator():
        await tools.installed()
