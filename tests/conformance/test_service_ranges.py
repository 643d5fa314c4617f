"""ServiceCIDRs and IPAddresses, and answers that have no rows."""

from __future__ import annotations

from typing import Any

from conformance.rawapi import API

NETWORKING = "/apis/networking.k8s.io/v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARENT = {"resource": "services", "namespace": "default", "name": "web"}


def address(name: str, parent: dict[str, Any] | None = PARENT) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {} if parent is None else {"parentRef": parent}}


async def test_the_default_range_of_services_exists(api: API) -> None:
    found = (await api.get(f"{NETWORKING}/servicecidrs/kubernetes")).expect(200).json
    assert len(found["spec"]["cidrs"]) >= 1
    status = (await api.get(f"{NETWORKING}/servicecidrs/kubernetes/status")).expect(200).json
    assert status["metadata"]["uid"] == found["metadata"]["uid"]
    changed = (await api.patch(f"{NETWORKING}/servicecidrs/kubernetes", {"spec": {"cidrs": ["10.1.0.0/16"]}})).expect(
        422
    )
    assert changed.causes == [
        ("FieldValueInvalid", "spec.cidrs[0]", 'Invalid value: "10.1.0.0/16": field is immutable')
    ]


async def test_a_range_of_services_is_validated(api: API) -> None:
    target = f"{NETWORKING}/servicecidrs?dryRun=All"
    for cidrs, field in (
        ([], "spec.cidrs"),
        (["odd"], "spec.cidrs[0]"),
        (["10.1.0.0/16", "10.2.0.0/16"], "spec.cidrs"),
    ):
        answer = (await api.post(target, {"metadata": {"name": "a"}, "spec": {"cidrs": cidrs}})).expect(422)
        assert [each[1] for each in answer.causes] == [field]
    (await api.post(target, {"metadata": {"name": "a"}, "spec": {"cidrs": ["10.7.0.0/16", "fd00:7::/112"]}})).expect(
        201
    )


async def test_an_ip_address_is_named_by_its_address(api: API) -> None:
    target = f"{NETWORKING}/ipaddresses?dryRun=All"
    for name in ("203.0.113.7", "fe80::42:1dff:fe84:f9e2"):
        (await api.post(target, address(name))).expect(201)
    for name in ("web", "fe80:0::1", "FE80::1"):
        answer = (await api.post(target, address(name))).expect(422)
        assert [each[1] for each in answer.causes] == ["metadata.name"]
    assert (await api.post(target, address("203.0.113.7", None))).expect(422).causes[0][1] == "spec.parentRef"


async def test_the_parent_of_an_ip_address_is_immutable(api: API) -> None:
    target = f"{NETWORKING}/ipaddresses"
    (await api.post(target, address("203.0.113.8"))).expect(201)
    (await api.patch(f"{target}/203.0.113.8", {"metadata": {"annotations": {"k": "v"}}})).expect(200)
    answer = await api.patch(f"{target}/203.0.113.8", {"spec": {"parentRef": {"name": "other"}}})
    (await api.delete(f"{target}/203.0.113.8")).expect(200)
    assert answer.expect(422).causes[0][1] == "spec.parentRef"


async def test_a_review_is_not_acceptable_as_a_table(api: API) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = (await api.post(target, body, accept=TABLE)).expect(406)
    assert answer.message.startswith("only the following media types are accepted: application/json")
    (await api.post(target, body)).expect(201)
