"""The cluster IPs of an embedded control plane, which this machine can listen on."""

from __future__ import annotations

import sys
from ipaddress import IPv4Network, ip_address
from pathlib import Path

import pytest

from kubewright.apis.core.v1 import Service
from kubewright.apis.networking.v1 import ServiceCIDR
from kubewright.testing import Cluster
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
