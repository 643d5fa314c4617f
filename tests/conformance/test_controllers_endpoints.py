"""Endpoints of Services: without a selector, they become EndpointSlices; otherwise they name the change behind them."""

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


async def test_endpoints_name_the_time_of_the_change_that_they_follow(api: API, ns: str) -> None:
    annotation = "endpoints.kubernetes.io/last-change-trigger-time"
    slices = ns.replace("/api/v1", "/apis/discovery.k8s.io/v1") + "/endpointslices"

    async def named(time: str | None, addresses: int) -> None:
        """Wait until both forms have this number of addresses, and name the time."""

        async def check() -> bool:
            found = await api.get(f"{ns}/endpoints/web")
            items = (await api.get(slices)).expect(200).json["items"]
            if found.status != 200 or len(items) != 1:
                return False
            subsets = found.json.get("subsets") or []
            counts = {sum(len(each["addresses"]) for each in subsets), len(items[0]["endpoints"] or [])}
            times = [each["metadata"].get("annotations", {}).get(annotation) for each in (found.json, items[0])]
            return counts == {addresses} and times == [time, time]

        await until(check)

    spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = (await api.post(f"{ns}/services", {"metadata": {"name": "web"}, "spec": spec})).expect(201).json
    await named(service["metadata"]["creationTimestamp"], 0)
    # a node that is not simulated: nothing else writes the status of its Pods
    node = ns.rpartition("/")[2]
    body: dict[str, Any] = {"metadata": {"name": node, "labels": {"kubewright.dev/processes": "true"}}}
    (await api.post("/api/v1/nodes", body)).expect(201)
    pod = {"containers": [{"name": "c", "image": "nginx:1"}], "nodeName": node}
    body = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": pod}
    (await api.post(f"{ns}/pods", body)).expect(201)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    status = {"phase": "Running", "podIP": "10.9.8.7", "podIPs": [{"ip": "10.9.8.7"}], "conditions": [ready]}
    (await api.patch(f"{ns}/pods/p/status", {"status": status})).expect(200)
    await named("2026-01-31T12:00:00Z", 1)
    (await api.patch(f"{ns}/services/web", {"metadata": {"labels": {"tier": "front"}}})).expect(200)
    await named(None, 1)
    (await api.delete(f"/api/v1/nodes/{node}")).expect(200)
