"""The objects of a new cluster, and what a restart keeps of them."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.bootstrap import publish
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API, MERGE


async def test_a_new_cluster_has_the_bootstrap_objects(api: API) -> None:
    namespaces = await api.ok("GET", "/api/v1/namespaces")
    assert [each["metadata"]["name"] for each in namespaces["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    service = await api.ok("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    await api.ok("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
    await api.ok("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")


async def test_the_kubernetes_service_points_to_the_server(api: API) -> None:
    publish(api.server.resources, "192.0.2.1", 7000)
    publish(api.server.resources, "192.0.2.1", 7001)
    slice_ = await api.ok("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
    ports = [{"name": "https", "port": 7001, "protocol": "TCP"}]
    assert (slice_["endpoints"], slice_["ports"]) == (
        [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
        ports,
    )
    endpoints = await api.ok("GET", "/api/v1/namespaces/default/endpoints/kubernetes")
    assert endpoints["subsets"] == [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]
    service = await api.ok("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["ports"][0]["targetPort"] == 7001


async def test_a_restart_keeps_changed_bootstrap_objects(tmp_path: Path, clock: VirtualClock) -> None:
    options = ServerOptions(data=tmp_path, clock=clock, tokens={"admin": ADMIN})
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    first = APIServer(options)
    await first.start()
    await API(first, clock).ok("PATCH", role, {"metadata": {"labels": {"mine": "yes"}}}, content_type=MERGE)
    revision = (await API(first, clock).ok("GET", "/api/v1/namespaces"))["metadata"]["resourceVersion"]
    await first.close()
    second = APIServer(options)
    await second.start()
    assert (await API(second, clock).ok("GET", role))["metadata"]["labels"]["mine"] == "yes"
    again = (await API(second, clock).ok("GET", "/api/v1/namespaces"))["metadata"]["resourceVersion"]
    assert again == revision
    await second.close()


async def test_a_loopback_address_is_not_published_as_an_endpoint(api: API) -> None:
    """The address of this machine is, if it has one."""
    publish(api.server.resources, "127.0.0.1", 7000)
    slices = await api.ok("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
    addresses = [address for each in slices["items"] for point in each["endpoints"] for address in point["addresses"]]
    assert not any(ip_address(each).is_loopback for each in addresses)
