"""Services: allocation, validation and release of addresses, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from unit.apiserver.harness import API, MERGE

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def node_port(name: str, port: int) -> dict[str, Any]:
    return service(name, type="NodePort", ports=[{"port": 80, "nodePort": port}])


async def test_a_service_gets_a_cluster_ip_and_defaults(api: API) -> None:
    created = await api.ok("POST", SERVICES, service("a"))
    spec = created["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")


async def test_two_services_never_share_a_cluster_ip(api: API) -> None:
    created = [await api.ok("POST", SERVICES, service(f"s{i}", type="NodePort")) for i in range(20)]
    assert len({each["spec"]["clusterIP"] for each in created}) == 20
    assert len({each["spec"]["ports"][0]["nodePort"] for each in created}) == 20
    assert all(30000 <= each["spec"]["ports"][0]["nodePort"] <= 32767 for each in created)


async def test_a_node_port_in_use_is_rejected_until_it_is_released(api: API) -> None:
    await api.ok("POST", SERVICES, node_port("first", 30010))
    status = await api.rejected(422, "POST", SERVICES, node_port("second", 30010))
    assert status["message"] == (
        'Service "second" is invalid: spec.ports[0].nodePort: Invalid value: 30010: provided port is already allocated'
    )
    await api.ok("DELETE", f"{SERVICES}/first")
    await api.ok("POST", SERVICES, node_port("second", 30010))


async def test_changing_the_type_releases_the_node_port(api: API) -> None:
    await api.ok("POST", SERVICES, node_port("first", 30010))
    changed = await api.ok("PATCH", f"{SERVICES}/first", {"spec": {"type": "ClusterIP"}}, content_type=MERGE)
    assert "nodePort" not in changed["spec"]["ports"][0]
    await api.ok("POST", SERVICES, node_port("second", 30010))


async def test_an_update_that_omits_allocated_values_keeps_them(api: API) -> None:
    created = await api.ok("POST", SERVICES, service("a", type="NodePort"))
    updated = await api.ok("PUT", f"{SERVICES}/a", service("a", type="NodePort", selector={"x": "y"}))
    assert updated["spec"]["clusterIP"] == created["spec"]["clusterIP"]
    assert updated["spec"]["ports"] == created["spec"]["ports"]


async def test_a_dry_run_allocates_no_address(api: API) -> None:
    await api.ok("POST", f"{SERVICES}?dryRun=All", node_port("dry", 30020))
    await api.ok("POST", SERVICES, node_port("real", 30020))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 99}]},
            "spec.ports[0].nodePort: Invalid value: 99: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767",
        ),
        (
            {"clusterIP": "1.2.3.4"},
            'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: '
            "the provided network does not match the current range",
        ),
        ({"clusterIP": "10.96.0.1"}, "provided IP is already allocated"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
            "this cluster is not configured for dual-stack services",
        ),
        ({"ports": []}, "spec.ports: Required value"),
        ({"type": "ExternalName", "ports": []}, "spec.externalName: Required value"),
        (
            {"type": "Foo"},
            'spec.type: Unsupported value: "Foo": supported values: '
            '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        ),
        ({"ports": [{"port": 80}, {"port": 81}]}, "spec.ports[0].name: Required value"),
        (
            {"ports": [{"port": 80, "nodePort": 30001}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
    ],
)
async def test_invalid_services_are_rejected(api: API, spec: dict[str, Any], message: str) -> None:
    status = await api.rejected(422, "POST", SERVICES, service("bad", **spec))
    assert message in status["message"]


async def test_a_cluster_ip_is_immutable(api: API) -> None:
    await api.ok("POST", SERVICES, service("a", clusterIP="10.96.0.50"))
    change = {"spec": {"clusterIP": "10.96.0.51"}}
    status = await api.rejected(422, "PATCH", f"{SERVICES}/a", change, content_type=MERGE)
    assert status["message"] == (
        'Service "a" is invalid: spec.clusterIPs[0]: Invalid value: ["10.96.0.51"]: may not change once set'
    )


async def test_a_headless_service_has_no_cluster_ip(api: API) -> None:
    created = await api.ok("POST", SERVICES, service("h", clusterIP="None", selector={"a": "b"}))
    assert created["spec"]["clusterIPs"] == ["None"]


async def test_changing_to_an_external_name_releases_the_cluster_ip(api: API) -> None:
    created = await api.ok("POST", SERVICES, service("a"))
    change = {"spec": {"type": "ExternalName", "externalName": "x.y"}}
    changed = await api.ok("PATCH", f"{SERVICES}/a", change, content_type=MERGE)
    assert "clusterIP" not in changed["spec"]
    await api.ok("POST", SERVICES, service("b", clusterIP=created["spec"]["clusterIP"]))


async def test_services_are_selected_by_type(api: API) -> None:
    await api.ok("POST", SERVICES, service("np", type="NodePort"))
    found = await api.ok("GET", f"{SERVICES}?fieldSelector=spec.type%3DNodePort")
    assert [each["metadata"]["name"] for each in found["items"]] == ["np"]
