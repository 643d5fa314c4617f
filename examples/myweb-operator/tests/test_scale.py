"""A thousand MyWebs."""

import pytest
from kubewright import Config, Manager
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Pod, Service
from kubewright.testing import Faults, eventually

from mywebs import MyWebs, NewOperator, node_ports

COUNT = 1000
FIRST_PORT = 31000


@pytest.mark.timeout(900)
async def test_a_thousand_are_completed_and_then_nothing_is_written(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    ports = {f"web-{number}": FIRST_PORT + number for number in range(COUNT)}
    async with new_operator(account):
        for name, port in ports.items():
            await webs.create(name, port=port)
        for name in ports:
            await eventually(is_completed, webs, name)
    services = await webs.client.list(Service, namespace=webs.namespace)
    assert {each.metadata.name: node_ports(each) for each in services} == {name: [ports[name]] for name in ports}
    for kind, count in ((ConfigMap, COUNT + 1), (Deployment, COUNT), (Pod, COUNT)):  # one is kube-root-ca.crt
        assert len(await webs.client.list(kind, namespace=webs.namespace)) == count

    faults = Faults(account)
    async with new_operator(faults) as second:
        await eventually(has_reconciled_all, second)
        await faults.rest()
    assert faults.writes == 0


async def is_completed(webs: MyWebs, name: str) -> None:
    assert (await webs.get(name)).status.completed


async def has_reconciled_all(operator: Manager) -> None:
    assert sum(operator.metrics.controllers["myweb"].outcomes.values()) >= COUNT
