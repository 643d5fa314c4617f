"""Node ports of running Pods, as users of `kubewright up` open them in a browser."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.web import Web, closed, opened, page, shows
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import ConfigMap, Service
from kubewright.client._patch import MergePatch
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import STAND_INS, Image

pytestmark = pytest.mark.xdist_group("node port 31311")


@pytest_asyncio.fixture
async def web(cluster: Cluster, namespace: str, kubewright_target: str) -> AsyncIterator[Web]:
    if kubewright_target == "kubeconfig":
        pytest.skip("this cluster runs real images")
    async with cluster.images(STAND_INS):
        web = Web(cluster, namespace)
        await eventually(closed, web.port)  # the Service of an earlier test may still be terminating
        yield web


async def test_requests_are_distributed_among_ready_replicas(web: Web) -> None:
    await web.deploy(replicas=2)
    await web.expose()

    async def both() -> None:
        pages = {await page(web.port) for _ in range(4)}
        names = {pod.metadata.name for pod in await web.pods()}
        assert len(names) == 2
        assert all(any(f"Pod {name}" in each for each in pages) for name in names), pages

    await eventually(both)


async def test_a_mounted_config_map_and_its_changes_are_served(web: Web) -> None:
    content = ConfigMap(metadata=ObjectMeta(name="page", namespace=web.namespace), data={"index.html": "<h1>One</h1>"})
    await web.client.create(content)
    mounts = [{"name": "page", "mountPath": "/usr/share/nginx/html"}]
    await web.deploy(volumes=[{"name": "page", "configMap": {"name": "page"}}], volumeMounts=mounts)
    await web.expose()
    await eventually(shows, "<h1>One</h1>", web.port)
    await web.client.patch(
        ConfigMap, MergePatch({"data": {"index.html": "<h1>Two</h1>"}}), name="page", namespace=web.namespace
    )
    await eventually(shows, "<h1>Two</h1>", web.port)


async def test_a_port_follows_its_service_and_closes_with_it(web: Web) -> None:
    await web.deploy()
    service = await web.expose()
    await eventually(page, web.port)
    await web.client.patch(
        Service,
        MergePatch({"spec": {"ports": [{"port": 80, "nodePort": web.other}]}}),
        name="web",
        namespace=web.namespace,
    )
    await eventually(page, web.other)
    await eventually(closed, web.port)
    await web.client.delete(service)
    await eventually(closed, web.other)


async def test_a_target_port_can_be_a_name(web: Web) -> None:
    await web.deploy(ports=[{"name": "http", "containerPort": 80}])
    await web.expose({"name": "x", "port": 8080, "targetPort": "http", "nodePort": web.port}, type="LoadBalancer")
    await eventually(page, web.port)


async def test_a_port_can_move_from_one_service_to_another(web: Web) -> None:
    await web.deploy()
    await web.deploy(name="other", image="nginx:1.23.2")
    first = await web.expose()
    await eventually(shows, "nginx:1.23.1", web.port)
    await web.client.delete(first)
    await web.expose(name="second", app="other")
    await eventually(shows, "nginx:1.23.2", web.port)


async def test_nothing_listens_for_simulated_pods(web: Web) -> None:
    await web.deploy(image="registry.test/simulated")
    await web.expose()
    await eventually(web.is_available)
    await web.deploy(name="other")
    await web.expose({"port": 80, "nodePort": web.other}, name="other", app="other")
    await eventually(page, web.other)
    await closed(web.port)


async def test_a_program_that_is_still_starting_is_waited_for(web: Web) -> None:
    late = Image(("sh", "-c", f"sleep 0.5; exec {' '.join(STAND_INS['nginx:*'].command)}"), ports=(80,))
    async with web.cluster.images({"registry.test/late": late}):
        await web.deploy(image="registry.test/late", readinessProbe=None)
        await web.expose()
        await eventually(web.is_available)
        await eventually(opened, web.port)
        await shows("registry.test/late", web.port)


async def test_an_occupied_port_is_reported_and_opened_when_it_is_free(web: Web) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", web.port))
        taken.listen()
        await web.deploy()
        await web.expose()
        await web.event(f"Node port {web.port} can't be opened at 127.0.0.1: address already in use")
    await eventually(page, web.port)


async def test_other_protocols_are_reported(web: Web) -> None:
    await web.deploy()
    await web.expose({"port": 80, "nodePort": web.port, "protocol": "SCTP"})
    await web.event(f"Node port {web.port}/SCTP is not opened")


async def test_a_terminating_pod_gets_no_requests_while_its_replacement_starts(web: Web) -> None:
    await web.deploy(replicas=2)
    await web.expose()
    await eventually(page, web.port)
    gone = (await web.pods())[0]
    await web.client.delete(gone)

    async def replaced() -> None:
        await page(web.port)
        names = {pod.metadata.name for pod in await web.pods()}
        assert len(names) == 2
        assert gone.metadata.name not in names

    await eventually(replaced)
