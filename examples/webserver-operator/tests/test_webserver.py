"""The behavior of WebServer, as users see it: a Deployment and a Service."""

import asyncio
import sys
import urllib.request
from http.client import HTTPException
from pathlib import Path

import pytest
from kubewright.apis.core.v1 import Service
from kubewright.client import MergePatch, Propagation
from kubewright.machinery import yaml
from kubewright.models import Object, codec
from kubewright.testing import Cluster, eventually, gone
from kubewright_controlplane import STAND_INS

from webserver_operator.api.v1.webserver import WebServer
from webservers import NEW, OLD, WebServers, ready_condition

pytestmark = pytest.mark.usefixtures("operator")

SAMPLE = Path(__file__).parents[1] / "config/samples/my_v1_webserver.yaml"
LABELS = {"app": "webserver", "webserver_cr": "web"}


async def test_the_sample_becomes_ready(webs: WebServers) -> None:
    sample = codec.from_dict(WebServer, yaml.load(SAMPLE.read_text()))
    sample.metadata.namespace = webs.namespace
    await webs.client.create(sample, field_validation="Strict")
    await webs.serves("webserver-sample", replicas=3, image="nginx:1.23.1")


async def test_a_webserver_gets_its_deployment(webs: WebServers) -> None:
    web = await webs.create(replicas=3)
    deployment = await eventually(webs.deployment)
    assert is_controlled_by(deployment, web)
    assert deployment.metadata.labels == LABELS
    assert deployment.spec.replicas == 3
    assert deployment.spec.selector.match_labels == LABELS
    assert deployment.spec.template.metadata.labels == LABELS
    [container] = deployment.spec.template.spec.containers
    assert (container.name, container.image) == ("webserver", OLD)
    assert [port.container_port for port in container.ports] == [80]


async def test_a_webserver_gets_its_service(webs: WebServers) -> None:
    web = await webs.create()
    service = await eventually(webs.service)
    assert is_controlled_by(service, web)
    assert service.spec.type == "NodePort"
    assert service.spec.selector == LABELS
    assert ports_of(service) == [(80, 80, 30010)]


async def test_a_webserver_is_scaled(webs: WebServers) -> None:
    await webs.create(replicas=3)
    await webs.serves(replicas=3)
    await webs.change(replicas=4)
    await webs.serves(replicas=4)
    await webs.change(replicas=0)
    await webs.serves(replicas=0)


async def test_a_new_image_is_rolled_out_by_a_second_replica_set(webs: WebServers) -> None:
    await webs.create(image=OLD)
    await webs.serves(image=OLD)
    await webs.change(image=NEW)
    await webs.serves(image=NEW)
    sets = await webs.replica_sets()
    templates = [(each.spec.template, each.spec.replicas) for each in sets]
    sizes = {template.spec.containers[0].image: replicas for template, replicas in templates if template}
    assert sizes == {OLD: 0, NEW: 3}


async def test_a_webserver_is_not_ready_before_all_replicas_have_the_new_image(webs: WebServers) -> None:
    await webs.create(image=OLD)
    await webs.serves(image=OLD)

    async def is_ready_anew() -> set[str | None]:
        """Return the images of the Pods once the status reports Ready for the current spec."""
        web = await webs.get()
        ready = ready_condition(web)
        assert (ready.status, ready.observed_generation) == ("True", web.metadata.generation)
        return {pod.spec.containers[0].image for pod in await webs.pods() if not pod.metadata.deletion_timestamp}

    await webs.change(image=NEW)
    assert await eventually(is_ready_anew) == {NEW}


async def test_a_deleted_service_is_recreated(webs: WebServers) -> None:
    await webs.create()
    lost = await eventually(webs.service)
    await webs.client.delete(lost)
    await eventually(is_replaced, webs, lost)
    assert ports_of(await webs.service()) == [(80, 80, 30010)]


async def test_a_deleted_deployment_is_recreated(webs: WebServers) -> None:
    await webs.create()
    await webs.serves()
    lost = await webs.deployment()
    await webs.client.delete(lost)
    await eventually(is_replaced, webs, lost)
    await webs.serves()


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"type": "ClusterIP"}, id="type"),
        pytest.param({"selector": {"app": "another"}}, id="selector"),
        pytest.param({"selector": {"webserver_cr": None}}, id="selector-less"),
        pytest.param({"ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30010}]}, id="target"),
        pytest.param({"ports": [{"name": "http", "port": 80, "targetPort": 80, "nodePort": 30011}]}, id="node-port"),
        pytest.param({"ports": [{"name": "http", "port": 81, "targetPort": 80, "nodePort": 30010}]}, id="port"),
        pytest.param(
            {"ports": [{"name": "http", "port": 80, "nodePort": 30010}, {"name": "https", "port": 443}]}, id="one-more"
        ),
        pytest.param({"type": "ClusterIP", "ports": [{"port": 8080}]}, id="type-and-port"),
        pytest.param({"ports": [{"name": "dns", "port": 80, "protocol": "UDP"}]}, id="protocol"),
    ],
)
async def test_an_edited_service_is_restored(webs: WebServers, edit: dict[str, object]) -> None:
    await webs.create()
    edited = await webs.client.patch(await eventually(webs.service), MergePatch({"spec": edit}))

    async def is_back() -> None:
        service = await webs.service()
        assert service.metadata.uid == edited.metadata.uid
        assert service.spec.type == "NodePort"
        assert service.spec.selector == LABELS
        assert ports_of(service) == [(80, 80, 30010)]

    await eventually(is_back)


async def test_an_edited_deployment_is_restored(webs: WebServers) -> None:
    await webs.create()
    await webs.serves()
    other = {"name": "webserver", "image": "busybox"}
    edit = {"replicas": 7, "template": {"spec": {"containers": [other]}}}
    await webs.client.patch(await webs.deployment(), MergePatch({"spec": edit}))
    await webs.serves()
    [container] = (await webs.deployment()).spec.template.spec.containers
    assert [port.container_port for port in container.ports] == [80]


@pytest.mark.xdist_group("node port 30010")
@pytest.mark.skipif(sys.platform != "linux", reason="no node port opens here, see docs/controlplane.md")
async def test_the_node_port_serves_the_image(cluster: Cluster, webs: WebServers, kubewright_target: str) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("its nodes have images of their own")

    def page() -> str:
        with urllib.request.urlopen("http://127.0.0.1:30010", timeout=5) as answer:
            return str(answer.read(), "utf-8")

    async def is_served(image: str) -> None:
        try:
            assert f"<h1>{image}</h1>" in await asyncio.to_thread(page)
        except (OSError, HTTPException) as error:
            raise AssertionError("nothing is served") from error

    async with cluster.images(STAND_INS):
        await webs.create(replicas=2, image=OLD)
        await webs.serves(replicas=2, image=OLD)
        await eventually(is_served, OLD)
        await webs.change(image=NEW)
        await webs.serves(replicas=2, image=NEW)
        await eventually(is_served, NEW)
        await webs.delete()
        await eventually(no_pod_is_left, webs)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_all_children_are_deleted_with_the_webserver(webs: WebServers, propagation: Propagation) -> None:
    await webs.create()
    await webs.serves()
    await webs.delete(propagation=propagation)
    await gone(webs.service)
    await gone(webs.deployment)
    await gone(webs.get)

    async def nothing_is_left() -> None:
        assert not await webs.replica_sets()
        assert not await webs.pods()

    await eventually(nothing_is_left)


async def no_pod_is_left(webs: WebServers) -> None:
    assert not await webs.pods()


async def is_replaced(webs: WebServers, lost: Object) -> None:
    now = await webs.client.get(type(lost), lost.metadata.name, namespace=webs.namespace)
    assert now.metadata.uid != lost.metadata.uid


def is_controlled_by(child: Object, web: WebServer) -> bool:
    [owner] = child.metadata.owner_references
    described = (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
    return described == ("my.domain/v1", "WebServer", web.metadata.name, web.metadata.uid, True)


def ports_of(service: Service) -> list[tuple[int, object, int | None]]:
    return [(each.port, each.target_port, each.node_port) for each in service.spec.ports]
