"""Taken node ports and names of children are reported, and used once they are free."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from kubewright import Config, Manager, ObjectMeta
from kubewright.apis.core.v1 import ResourceQuota, ResourceQuotaSpec, Service, ServicePort, ServiceSpec
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.testing import Cluster, Faults, eventually

from webserver_operator.api.v1.webserver import WebServer, WebServerSpec
from webserver_operator.controller.children import deployment_for
from webservers import OLD, WebServers, ready_condition

pytestmark = pytest.mark.usefixtures("faults")


@pytest_asyncio.fixture
async def faults(account: Config, new_operator: Callable[..., Manager]) -> AsyncIterator[Faults]:
    """Faults of the running operator."""
    faults = Faults(account)
    async with new_operator(faults):
        yield faults


async def test_a_taken_port_is_reported_and_used_once_it_is_free(webs: WebServers) -> None:
    await webs.create("first")
    await webs.serves("first")
    await webs.create("second", replicas=1)
    await eventually(is_reported, webs, "second", "NodePortTaken", f'taken by Service "{webs.namespace}/first-service"')
    assert (await webs.deployment("second")).spec.replicas == 1
    await webs.delete("first")
    await webs.serves("second", replicas=1, image=OLD)


async def test_a_port_of_a_service_in_another_namespace_is_reported_and_used_once_it_is_free(
    cluster: Cluster, webs: WebServers
) -> None:
    async with cluster.namespace() as elsewhere:
        port = ServicePort(port=80, node_port=30010)
        spec = ServiceSpec(type="NodePort", selector={"app": "another"}, ports=[port])
        other = await webs.client.create(Service(metadata=ObjectMeta(name="other", namespace=elsewhere), spec=spec))
        await webs.create()
        await eventually(is_reported, webs, "web", "NodePortTaken", f'taken by Service "{elsewhere}/other"')
        await webs.client.patch(other, MergePatch({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
        await webs.serves()


@pytest.mark.parametrize("lag", [0, 5], ids=["known", "not yet in the cache"])
async def test_a_foreign_deployment_is_left_alone(webs: WebServers, faults: Faults, lag: float) -> None:
    other = deployment_for(WebServer(metadata=ObjectMeta(name="web"), spec=WebServerSpec(image="other")))
    other.metadata.namespace = webs.namespace
    faults.lag = lag
    made = await webs.client.create(other)
    await asyncio.sleep(lag / 10)  # now its event is on its way, late
    faults.lag = 0
    await webs.create()
    await eventually(
        is_reported, webs, "web", "NameTaken", f'Deployment "{webs.namespace}/web" exists and has no controlling owner'
    )
    present = await webs.deployment()
    assert present.spec.template.spec.containers[0].image == "other"
    assert not present.metadata.owner_references
    await webs.client.delete(made)
    await webs.serves()


async def test_an_exceeded_quota_is_reported(webs: WebServers) -> None:
    metadata = ObjectMeta(name="none", namespace=webs.namespace)
    hard = {"count/deployments.apps": "0"}
    quota = await webs.client.create(ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard=hard)))

    async def is_in_force() -> None:
        assert (await webs.client.get(ResourceQuota, "none", namespace=webs.namespace)).status.hard == hard

    await eventually(is_in_force)
    await webs.create()
    await eventually(is_reported, webs, "web", "Refused", "exceeded quota: none")
    await webs.client.delete(quota)
    await webs.change(replicas=1)
    await webs.serves(replicas=1)


async def test_a_foreign_service_is_left_alone(webs: WebServers) -> None:
    spec = ServiceSpec(selector={"app": "another"}, ports=[ServicePort(port=8080)])
    metadata = ObjectMeta(name="web-service", namespace=webs.namespace)
    made = await webs.client.create(Service(metadata=metadata, spec=spec))
    await webs.create()
    await eventually(is_reported, webs, "web", "NameTaken", f'Service "{webs.namespace}/web-service" exists and has no')
    assert (await webs.service()).spec.selector == {"app": "another"}
    await webs.client.delete(made)
    await webs.serves()


async def is_reported(webs: WebServers, name: str, reason: str, message: str) -> None:
    """Assert that the status and one Event report this."""
    web = await webs.get(name)
    ready = ready_condition(web)
    assert (ready.status, ready.reason) == ("False", reason)
    assert message in ready.message
    assert ready.observed_generation == web.status.observed_generation == web.metadata.generation
    events = await webs.client.list(Event, namespace=webs.namespace)
    recorded = [
        (each.type, each.reason, each.regarding and each.regarding.uid) for each in events if each.note == ready.message
    ]
    assert recorded == [("Warning", reason, web.metadata.uid)]
