"""What is taken by somebody else is told, and had as soon as it is free: the node port, and names of children."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from kubewright import Config, Manager, ObjectMeta
from kubewright.apis.core.v1 import ResourceQuota, ResourceQuotaSpec, Service, ServicePort, ServiceSpec
from kubewright.apis.events.v1 import Event
from kubewright.client import MergePatch
from kubewright.testing import Cluster, Faults, eventually, running

from webserver_operator.api.v1.webserver import WebServer, WebServerSpec
from webserver_operator.controller.children import deployment_for
from webservers import OLD, WebServers, ready_condition

pytestmark = [pytest.mark.usefixtures("faults"), pytest.mark.xdist_group("node port 30010")]


@pytest_asyncio.fixture
async def faults(account: Config, new_operator: Callable[..., Manager]) -> AsyncIterator[Faults]:
    """What goes wrong for the operator, which is at work."""
    faults = Faults(account)
    async with running(new_operator(faults)):
        yield faults


async def test_a_second_webserver_is_told_who_has_the_port_and_gets_it_when_it_is_free(webs: WebServers) -> None:
    await webs.create("first")
    await webs.serves("first")
    await webs.create("second", replicas=1)
    await eventually(is_told, webs, "second", "NodePortTaken", f'taken by Service "{webs.namespace}/first-service"')
    assert (await webs.deployment("second")).spec.replicas == 1
    await webs.delete("first")
    await webs.serves("second", replicas=1, image=OLD)


async def test_a_service_of_somebody_in_another_namespace_has_the_port_until_it_is_given_another(
    cluster: Cluster, webs: WebServers
) -> None:
    async with cluster.namespace() as elsewhere:
        port = ServicePort(port=80, node_port=30010)
        spec = ServiceSpec(type="NodePort", selector={"app": "another"}, ports=[port])
        other = await webs.client.create(Service(metadata=ObjectMeta(name="other", namespace=elsewhere), spec=spec))
        await webs.create()
        await eventually(is_told, webs, "web", "NodePortTaken", f'taken by Service "{elsewhere}/other"')
        await webs.client.patch(other, MergePatch({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
        await webs.serves()


@pytest.mark.parametrize("lag", [0, 5], ids=["known", "not yet in the cache"])
async def test_a_deployment_of_somebody_is_left_alone(webs: WebServers, faults: Faults, lag: float) -> None:
    other = deployment_for(WebServer(metadata=ObjectMeta(name="web"), spec=WebServerSpec(image="other")))
    other.metadata.namespace = webs.namespace
    faults.lag = lag
    made = await webs.client.create(other)
    await asyncio.sleep(lag / 10)  # now its event is on its way, late
    faults.lag = 0
    await webs.create()
    await eventually(is_told, webs, "web", "NameTaken", f'Deployment "{webs.namespace}/web" exists and has no controlling owner')
    present = await webs.deployment()
    assert present.spec.template.spec.containers[0].image == "other"
    assert not present.metadata.owner_references
    await webs.client.delete(made)
    await webs.serves()


async def test_what_a_quota_forbids_is_told(webs: WebServers) -> None:
    metadata = ObjectMeta(name="none", namespace=webs.namespace)
    hard = {"count/deployments.apps": "0"}
    quota = await webs.client.create(ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard=hard)))

    async def is_in_force() -> None:
        assert (await webs.client.get(ResourceQuota, "none", namespace=webs.namespace)).status.hard == hard

    await eventually(is_in_force)
    await webs.create()
    await eventually(is_told, webs, "web", "Refused", "exceeded quota: none")
    await webs.client.delete(quota)
    await webs.change(replicas=1)
    await webs.serves(replicas=1)


async def test_a_service_of_somebody_is_left_alone(webs: WebServers) -> None:
    spec = ServiceSpec(selector={"app": "another"}, ports=[ServicePort(port=8080)])
    metadata = ObjectMeta(name="web-service", namespace=webs.namespace)
    made = await webs.client.create(Service(metadata=metadata, spec=spec))
    await webs.create()
    await eventually(is_told, webs, "web", "NameTaken", f'Service "{webs.namespace}/web-service" exists and has no')
    assert (await webs.service()).spec.selector == {"app": "another"}
    await webs.client.delete(made)
    await webs.serves()


async def is_told(webs: WebServers, name: str, reason: str, message: str) -> None:
    """The WebServer says so, and one Event of it."""
    web = await webs.get(name)
    ready = ready_condition(web)
    assert (ready.status, ready.reason) == ("False", reason)
    assert message in ready.message
    assert ready.observed_generation == web.status.observed_generation == web.metadata.generation
    events = await webs.client.list(Event, namespace=webs.namespace)
    told = [
        (each.type, each.reason, each.regarding and each.regarding.uid) for each in events if each.note == ready.message
    ]
    assert told == [("Warning", reason, web.metadata.uid)]
