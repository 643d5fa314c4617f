"""An operator is killed at any moment, and its successor converges all objects."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from kubewright import Manager
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import Pod, Service
from kubewright.testing import Cluster, eventually
from robustness.processes import operator
from robustness.webservers import Churn
from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.controller.webserver import reconcile

pytestmark = pytest.mark.timeout(1200)

SEED = 20261120


@pytest.mark.parametrize(("kills", "objects"), [(10, 15), pytest.param(50, 100, marks=pytest.mark.long)])
async def test_objects_converge_although_the_operator_is_killed_many_times(
    cluster: Cluster, namespace: str, tmp_path: Path, kills: int, objects: int
) -> None:
    await cluster.install(WebServer)
    chance = random.Random(SEED)
    churn = Churn(cluster.client, namespace, objects, chance)
    async with cluster.service_account(Manager([reconcile]).rbac_rules(), namespace=namespace) as account:
        kubeconfig = cluster.kubeconfig(account)
        churning = asyncio.create_task(churn.run())
        for number in range(kills):
            await live_shortly(kubeconfig, tmp_path / f"{number}.log", chance)
        churning.cancel()
        await asyncio.wait([churning])
        assert churning.cancelled(), churning.exception()
        assert set(churn.done) == {"created", "changed", "deleted", "damaged"}
        async with operator("webserver_operator.main", kubeconfig, tmp_path / "last.log") as last:
            await eventually(is_as_specified, cluster, namespace)
            assert last.status is None, last.log
            assert "Traceback" not in last.log


async def live_shortly(kubeconfig: Path, log: Path, chance: random.Random) -> None:
    """Run an operator and kill it, sometimes before its first reconcile, mostly during a reconcile."""
    async with operator("webserver_operator.main", kubeconfig, log) as process:
        if chance.random() < 0.8:
            await eventually(process.works)
        await asyncio.sleep(chance.uniform(0.0, 0.4))
    assert "Traceback" not in process.log, process.log


async def is_as_specified(cluster: Cluster, namespace: str) -> None:
    """Assert that each WebServer has its dependents, that one has the node port, and that nothing else exists."""
    client = cluster.client
    webs = {web.metadata.name: web for web in await client.list(WebServer, namespace=namespace)}
    deployments = await client.list(Deployment, namespace=namespace)
    wanted = {name: ([web.metadata.uid], web.spec.replicas, web.spec.image) for name, web in webs.items()}
    assert {each.metadata.name: described(each) for each in deployments} == wanted
    assert len(deployments) == len(webs)

    services = await client.list(Service, namespace=namespace)
    assert len(services) == 1
    [service] = services
    holder = service.metadata.name.removesuffix("-service")
    assert [owner.uid for owner in service.metadata.owner_references] == [webs[holder].metadata.uid]

    for name, web in webs.items():
        reason = "AllReplicasAvailable" if name == holder else "NodePortTaken"
        told = [(condition.reason, condition.observed_generation) for condition in web.status.conditions]
        assert told == [(reason, web.metadata.generation)]
        assert web.status.available_replicas == web.spec.replicas

    sets = {each.metadata.uid for each in await client.list(ReplicaSet, namespace=namespace)}
    pods = await client.list(Pod, namespace=namespace)
    assert {owner.uid for pod in pods for owner in pod.metadata.owner_references} <= sets
    running = Counter((pod.metadata.labels["webserver_cr"], pod.spec.containers[0].image) for pod in pods)
    assert running == Counter({(name, web.spec.image): web.spec.replicas for name, web in webs.items()})


def described(deployment: Deployment) -> tuple[list[str], int | None, str | None]:
    owners = [owner.uid for owner in deployment.metadata.owner_references]
    return owners, deployment.spec.replicas, deployment.spec.template.spec.containers[0].image
