"""The cluster IPs of an embedded control plane, which this machine can listen on."""

from __future__ import annotations

import asyncio
import sys
from ipaddress import IPv4Network, ip_address
from pathlib import Path

import pytest

from integration.servicenet import refuses
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Service, ServicePort, ServiceSpec
from kubewright.apis.discovery.v1 import Endpoint, EndpointPort, EndpointSlice
from kubewright.apis.networking.v1 import ServiceCIDR
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import ControlPlaneOptions, Environment, ServerOptions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")


async def range_of(cluster: Cluster) -> IPv4Network:
    """Return the range of cluster IPs, after a look at the Service `kubernetes`."""
    found = await cluster.client.get(ServiceCIDR, "kubernetes")
    service = await cluster.client.get(Service, "kubernetes", namespace="default")
    network = IPv4Network(found.spec.cidrs[0])
    assert ip_address(service.spec.cluster_ip or "") == network[1]
    return network


async def test_control_planes_on_one_machine_have_different_ranges_and_keep_them(tmp_path: Path) -> None:
    async with Environment(server=ServerOptions(data=tmp_path)) as cluster:
        first = await range_of(cluster)
        assert first.is_loopback
        async with Environment() as other:
            assert not first.overlaps(await range_of(other))
    async with Environment(server=ServerOptions(data=tmp_path)) as cluster:
        assert await range_of(cluster) == first


@pytest.mark.parametrize(
    "environment",
    [
        Environment(controllers=False),
        Environment(options=ControlPlaneOptions(disabled=["kube-proxy"])),
    ],
    ids=["API server alone", "without kube-proxy"],
)
async def test_without_a_proxy_the_range_is_that_of_other_clusters(environment: Environment) -> None:
    async with environment as cluster:
        assert await range_of(cluster) == IPv4Network("10.96.0.0/16")


async def test_a_chosen_range_is_used() -> None:
    async with Environment(server=ServerOptions(service_cidr="10.7.0.0/24")) as cluster:
        assert await range_of(cluster) == IPv4Network("10.7.0.0/24")


async def test_connections_of_a_deleted_service_end_with_the_control_plane() -> None:
    silent = Endpoint(addresses=["192.0.2.1"])  # RFC 5737: nobody answers there
    async with Environment() as cluster:
        spec = ServiceSpec(ports=[ServicePort(name="tcp", port=8000)])
        service = await cluster.client.create(Service(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
        labels = {"kubernetes.io/service-name": "web"}
        await cluster.client.create(
            EndpointSlice(
                metadata=ObjectMeta(name="web", namespace="default", labels=labels),
                address_type="IPv4",
                endpoints=[silent],
                ports=[EndpointPort(name="tcp", port=9000)],
            )
        )
        host = service.spec.cluster_ip or ""
        writer = await eventually(connected, host, 8000)
        await cluster.client.delete(service)
        await eventually(refuses, host, 8000)
        assert forwarding()
    assert not forwarding()
    writer.close()


async def connected(host: str, port: int) -> asyncio.StreamWriter:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise AssertionError(str(error)) from None
    return writer


def forwarding() -> list[str]:
    """Return the names of the tasks that forward connections."""
    return [each.get_name() for each in asyncio.all_tasks() if each.get_name().startswith("proxy ")]
