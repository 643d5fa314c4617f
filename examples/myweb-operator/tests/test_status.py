"""The status of a MyWeb, and the number of writes."""

import logging

import pytest
from kubewright import Config, Manager, ObjectMeta
from kubewright.apis.core.v1 import ResourceQuota, ResourceQuotaSpec
from kubewright.client import MergePatch
from kubewright.testing import Faults, eventually

from mywebs import OTHER_IMAGE, OTHER_PAGE, PORT, MyWebs, NewOperator


async def test_a_myweb_is_completed_only_when_its_pods_serve(
    webs: MyWebs, operator: Manager, kubewright_target: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("only the embedded control plane holds Pods back when it is asked to")
    await webs.create()
    await webs.completes()
    await webs.hold_pods_back("NotReady")
    await eventually(webs.is_held_up, "RollingOut", "1 new and 1 old Pods, 1 of them serve")
    await webs.hold_pods_back(None)
    await webs.completes()


async def test_a_myweb_is_not_completed_during_a_rollout(webs: MyWebs, operator: Manager) -> None:
    await webs.create()
    await webs.completes()
    deployment = await webs.deployment()
    await webs.client.patch(deployment, MergePatch({"spec": {"paused": True}}))
    await webs.change(pageContentHtml=OTHER_PAGE)
    await eventually(webs.is_held_up, "RollingOut", "")
    assert (await webs.config_map()).data == {"index.html": OTHER_PAGE}
    await webs.client.patch(deployment, MergePatch({"spec": {"paused": None}}))
    await webs.completes(page=OTHER_PAGE)


async def test_a_failed_rollout_is_reported_with_the_message_of_kubernetes(webs: MyWebs, operator: Manager) -> None:
    quota = await webs.client.create(nothing_of("pods", webs.namespace))
    await eventually(is_in_force, webs, quota)
    await webs.create()
    web = await eventually(webs.is_held_up, "RolloutFailed", "exceeded quota: pods")
    await eventually(webs.warns, "RolloutFailed", web)


async def test_a_rejected_child_is_reported_with_the_message_of_the_api_server(webs: MyWebs, operator: Manager) -> None:
    quota = await webs.client.create(nothing_of("services.nodeports", webs.namespace))
    await eventually(is_in_force, webs, quota)
    await webs.create()
    await eventually(webs.is_held_up, "ServiceRefused", "exceeded quota: services.nodeports")
    assert (await webs.deployment()).metadata.name == "web"
    await webs.client.delete(quota)
    await webs.completes()


async def test_each_completed_spec_is_recorded_as_an_event(webs: MyWebs, operator: Manager) -> None:
    await webs.create()
    await webs.completes()
    await webs.change(nodePortNumber=PORT + 1)
    await webs.completes(port=PORT + 1)

    async def both_are_recorded() -> None:
        recorded = {(each.type, each.reason, each.note) for each in await webs.events()}
        for port in (PORT, PORT + 1):
            assert ("Normal", "Completed", f"the page is served on port {port} of every node") in recorded

    await eventually(both_are_recorded)


async def test_a_change_is_logged_with_both_values(
    webs: MyWebs, operator: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    await webs.create()
    await webs.completes()
    caplog.set_level(logging.INFO, "kubewright")
    await webs.change(image=OTHER_IMAGE)
    await webs.completes(image=OTHER_IMAGE)
    [line] = [each.getMessage() for each in caplog.records if "image change" in each.getMessage()]
    assert line.startswith("Deployment spec.template.spec.containers[0].image change")
    assert line.endswith("object=web before=nginx:1.23.1 after=nginx:1.23.0")


async def test_nothing_is_written_when_nothing_differs(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    faults = Faults(account)
    async with new_operator(faults) as operator:
        await webs.create()
        web = await webs.completes()
        await faults.rest()
        written, reconciled = faults.writes, reconciles(operator)
        for number in range(5):
            web = await webs.client.patch(web, MergePatch({"metadata": {"annotations": {"note": str(number)}}}))
            await eventually(has_reconciled, operator, reconciled + number + 1)
        assert faults.writes == written


async def test_a_restart_writes_nothing(webs: MyWebs, new_operator: NewOperator, account: Config) -> None:
    async with new_operator(account):
        await webs.create()
        await webs.completes()
    faults = Faults(account)
    async with new_operator(faults) as second:
        await eventually(has_reconciled, second, 1)
    assert faults.writes == 0


def reconciles(operator: Manager) -> int:
    return sum(operator.metrics.controllers["myweb"].outcomes.values())


async def has_reconciled(operator: Manager, times: int) -> None:
    assert reconciles(operator) >= times


def nothing_of(resource: str, namespace: str) -> ResourceQuota:
    """Create a quota that allows no `resource`."""
    metadata = ObjectMeta(name=resource, namespace=namespace)
    return ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard={resource: "0"}))


async def is_in_force(webs: MyWebs, quota: ResourceQuota) -> None:
    now = await webs.client.get(ResourceQuota, quota.metadata.name, namespace=webs.namespace)
    assert now.status.hard == quota.spec.hard
