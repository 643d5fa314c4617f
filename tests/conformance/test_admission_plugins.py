"""Admission plugins that complete objects from others."""

from __future__ import annotations

import secrets
from typing import Any

from conformance.rawapi import API, until

CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"


async def test_an_ingress_without_a_class_gets_the_newest_default(api: API, ns: str) -> None:
    ingresses = ns.replace("/api/v1", "/apis/networking.k8s.io/v1") + "/ingresses?dryRun=All"
    backend = {"service": {"name": "web", "port": {"number": 80}}}

    def ingress(**annotations: str) -> dict[str, Any]:
        return {"metadata": {"name": "web", "annotations": annotations}, "spec": {"defaultBackend": backend}}

    async def has_class(name: str | None) -> bool:
        created = (await api.post(ingresses, ingress())).expect(201).json
        return created["spec"].get("ingressClassName") == name

    await until(lambda: has_class(None))
    name = f"default-{secrets.token_hex(4)}"
    marked = {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    (await api.post(CLASSES, {"metadata": marked, "spec": {"controller": "example.com/c"}})).expect(201)
    try:
        await until(lambda: has_class(name))
        old = ingress(**{"kubernetes.io/ingress.class": "nginx"})
        assert "ingressClassName" not in (await api.post(ingresses, old)).expect(201).json["spec"]
    finally:
        await api.delete(f"{CLASSES}/{name}")


async def test_a_pod_gets_zone_and_region_of_its_node(api: API, ns: str) -> None:
    node = f"zoned-{secrets.token_hex(4)}"
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    labels = {zone: "z1", region: "r1", "example.com/rack": "7"}
    (await api.post("/api/v1/nodes", {"metadata": {"name": node, "labels": labels}})).expect(201)
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody", "terminationGracePeriodSeconds": 0}
    body = {"metadata": {"name": "p", "labels": {zone: "mine"}}, "spec": {**spec, "nodeName": node}}

    async def is_known() -> bool:
        created = (await api.post(f"{ns}/pods?dryRun=All", body)).expect(201).json
        return bool(created["metadata"]["labels"] == {zone: "z1", region: "r1"})

    await until(is_known)
    (await api.post(f"{ns}/pods", {**body, "spec": spec})).expect(201)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}
    (await api.post(f"{ns}/pods/p/binding", binding)).expect(201)
    bound = (await api.get(f"{ns}/pods/p")).expect(200).json
    assert bound["metadata"]["labels"] == {zone: "z1", region: "r1"}
    await api.delete(f"{ns}/pods/p?gracePeriodSeconds=0")
    await api.delete(f"/api/v1/nodes/{node}")
