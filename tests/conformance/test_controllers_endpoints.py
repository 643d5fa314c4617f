"""Endpoints of Services without a selector, which become EndpointSlices."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API, until


async def test_endpoints_of_a_service_without_a_selector_are_mirrored(api: API, ns: str) -> None:
    slices = ns.replace("/api/v1", "/apis/discovery.k8s.io/v1") + "/endpointslices"

    async def mirrored(count: int, **labels: str) -> list[dict[str, Any]]:
        """Wait for this number of slices that have the labels, and return them by family and ports."""

        async def check() -> list[dict[str, Any]] | None:
            found = (await api.get(slices)).expect(200).json["items"]
            right = [each for each in found if labels.items() <= each["metadata"]["labels"].items()]
            right.sort(key=lambda each: (each["addressType"], each["ports"][0]["port"]))
            return right if len(right) == len(found) == count else None

        return (await until(check)) or []

    ports = [{"port": 80, "targetPort": 8080}]
    (await api.post(f"{ns}/services", {"metadata": {"name": "db"}, "spec": {"ports": ports}})).expect(201)
    subsets: list[dict[str, Any]] = [
        {
            "addresses": [{"ip": "192.0.2.1", "hostname": "a"}, {"ip": "2001:db8::1"}],
            "notReadyAddresses": [{"ip": "192.0.2.2"}],
            "ports": [{"name": "sql", "port": 5432}],
        },
        {"addresses": [{"ip": "192.0.2.3"}], "ports": [{"port": 9000, "protocol": "UDP"}]},
    ]
    metadata = {"name": "db", "labels": {"team": "x"}, "annotations": {"note": "y"}}
    (await api.post(f"{ns}/endpoints", {"metadata": metadata, "subsets": subsets})).expect(201)
    first, second, third = await mirrored(3, team="x")
    assert first["metadata"]["generateName"] == "db-"
    assert first["metadata"]["labels"] == {
        "team": "x",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert first["metadata"]["annotations"]["note"] == "y"
    [owner] = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Endpoints", "db", True)
    assert first["ports"] == [{"name": "sql", "port": 5432, "protocol": "TCP"}]
    found = sorted(first["endpoints"], key=lambda each: str(each["addresses"]))
    assert found == [
        {"addresses": ["192.0.2.1"], "conditions": {"ready": True}, "hostname": "a"},
        {"addresses": ["192.0.2.2"], "conditions": {"ready": False}},
    ]
    assert (second["addressType"], second["ports"]) == ("IPv4", [{"name": "", "port": 9000, "protocol": "UDP"}])
    assert (third["addressType"], third["endpoints"][0]["addresses"]) == ("IPv6", ["2001:db8::1"])

    (await api.patch(f"{ns}/endpoints/db", {"subsets": subsets[1:], "metadata": {"labels": {"team": "z"}}})).expect(200)
    [left] = await mirrored(1, team="z")
    assert left["metadata"]["name"] == second["metadata"]["name"]
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    (await api.patch(f"{ns}/endpoints/db", {"metadata": {"labels": skip}})).expect(200)
    await mirrored_none(api, slices)
    skip = {"endpointslice.kubernetes.io/skip-mirror": None}
    (await api.patch(f"{ns}/endpoints/db", {"metadata": {"labels": skip}})).expect(200)
    await mirrored(1, team="z")
    (await api.delete(f"{ns}/services/db")).expect(200)
    await mirrored_none(api, slices)


async def mirrored_none(api: API, slices: str) -> None:
    async def check() -> bool:
        return not (await api.get(slices)).expect(200).json["items"]

    await until(check)
