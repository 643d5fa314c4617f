"""Requests that no client should send: each is answered like any other mistake, and harms nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from conformance.definitions import CRDS, crd
from conformance.rawapi import API, until

YAML = {"content-type": "application/yaml"}
ALIASES = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)


@pytest.mark.parametrize("below", ["namespaces", "namespaces/kube-system", "nodes"])
async def test_cluster_scoped_objects_are_not_served_below_a_namespace(api: API, ns: str, below: str) -> None:
    (await api.get(f"{ns}/{below}")).expect(404)
    (await api.patch(f"{ns}/{below}", {"metadata": {"labels": {"a": "b"}}})).expect(404)


async def test_permissions_in_a_namespace_do_not_reach_other_namespaces(api: API, ns: str) -> None:
    name = ns.rpartition("/")[2]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}"
    role = {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    subject = {"kind": "User", "name": f"owner-of-{name}", "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"kind": "Role", "name": "all", "apiGroup": "rbac.authorization.k8s.io"}
    (await api.post(f"{rbac}/roles", role)).expect(201)
    binding = {"metadata": {"name": "all"}, "subjects": [subject], "roleRef": ref}
    (await api.post(f"{rbac}/rolebindings", binding)).expect(201)
    owner = {"impersonate_user": subject["name"]}

    async def is_bound() -> bool:
        return (await api.get(f"{ns}/pods", **owner)).status == 200

    await until(is_bound)
    (await api.get("/api/v1/namespaces/kube-system", **owner)).expect(403)
    (await api.get(f"{ns}/namespaces", **owner)).expect(404)
    (await api.get(f"{ns}/namespaces/kube-system", **owner)).expect(404)
    (await api.post(f"{ns}/namespaces", {"metadata": {"name": f"{name}-more"}}, **owner)).expect(404)
    (await api.delete(f"{ns}/namespaces/kube-system", **owner)).expect(404)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"a: {'[' * 20_000}{']' * 20_000}", "yaml: exceeded max depth of "),
        (f"{'{a: ' * 20_000}{'}' * 20_000}", "yaml: exceeded max depth of "),
        (ALIASES, "yaml: document contains excessive aliasing (61303a20266130"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself (613a202661205b2a615d)"),
        ("a: *b", "yaml: unknown anchor 'b' referenced (613a202a62)"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int (613a202121696e742078)"),
        ("a: {[1]: 2}", "yaml: invalid map key: "),
        ("<<: 5", "yaml: map merge requires map or sequence of maps as the value (3c3c3a2035)"),
        ("a: .inf", "json: unsupported value: "),
    ],
    ids=lambda each: each[:10],
)
async def test_yaml_that_costs_too_much_is_rejected(api: API, ns: str, text: str, why: str) -> None:
    answer = (await api.send("POST", f"{ns}/configmaps", text.encode(), headers=YAML)).expect(400)
    prefix = "the object provided is unrecognized (must be of type ConfigMap): "
    assert answer.message.startswith(prefix + why)


async def test_numbers_and_tags_of_yaml_are_read_as_go_reads_them(api: API, ns: str) -> None:
    text = f"metadata: {{name: a}}\ndata:\n  a: !!binary aGk=\n  b: !own 5\n  c: !!str 5\nbig: {'9' * 5000}\n"
    made = (await api.send("POST", f"{ns}/configmaps", text.encode(), headers=YAML)).expect(201)
    assert made.json["data"] == {"a": "hi", "b": "5", "c": "5"}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"limit={'9' * 20}", f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        (f"timeoutSeconds={'9' * 20}", f'strconv.ParseInt: parsing "{"9" * 20}": value out of range'),
        ("limit=%D9%A1", 'strconv.ParseInt: parsing "\u0661": invalid syntax'),
        (
            f"timeout={'1' * 20_000}s",
            f'invalid timeout specified in the request URL - time: invalid duration "{"1" * 20_000}s"',
        ),
        (
            f"resourceVersion={'9' * 30}",
            f'invalid resource version: resourceVersion: Invalid value: "{"9" * 30}": '
            f'strconv.ParseUint: parsing "{"9" * 30}": value out of range',
        ),
    ],
    ids=lambda each: each[:8],
)
async def test_numbers_with_too_many_digits_are_rejected(api: API, ns: str, query: str, message: str) -> None:
    assert (await api.get(f"{ns}/configmaps?{query}")).expect(400).message == message


@pytest.mark.parametrize(
    ("options", "field", "kind"),
    [
        ({"gracePeriodSeconds": "abc"}, "string into Go struct field DeleteOptions.gracePeriodSeconds", "int64"),
        ({"dryRun": 5}, "number into Go struct field DeleteOptions.dryRun", "[]string"),
        ({"preconditions": "x"}, "string into Go struct field DeleteOptions.preconditions", "v1.Preconditions"),
        ({"orphanDependents": "x"}, "string into Go struct field DeleteOptions.orphanDependents", "bool"),
    ],
    ids=lambda each: str(each)[:15],
)
async def test_delete_options_of_a_wrong_type_are_rejected(
    api: API, ns: str, options: Any, field: str, kind: str
) -> None:
    answer = (await api.delete(f"{ns}/configmaps/none", options)).expect(400)
    assert answer.message == f"json: cannot unmarshal {field} of type {kind}"


async def test_an_apply_whose_version_is_a_number_is_rejected(api: API, ns: str) -> None:
    answer = await api.patch(f"{ns}/configmaps/a?fieldManager=x", b"apiVersion: 5\nkind: ConfigMap\n", "apply")
    assert answer.expect(400).message == "invalid object type: /, Kind=ConfigMap"


async def test_forged_field_ownership_is_dropped(api: API, ns: str) -> None:
    forged = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    for number, fields in enumerate(({"f:a": {"x": 5}}, {"f:a": 5}, {"k:{": {}}, {"i:x": {}})):
        metadata = {"name": f"a{number}", "managedFields": [{**forged, "fieldsV1": fields}]}
        made = (await api.post(f"{ns}/configmaps", {"metadata": metadata})).expect(201).json
        assert "m" not in [each["manager"] for each in made["metadata"].get("managedFields", [])]


@pytest.mark.parametrize("zone", ["../../../etc/passwd", "/etc/passwd", "a\0b", "Nowhere/Land", "a" * 15])
async def test_a_time_zone_that_does_not_exist_is_invalid(api: API, ns: str, zone: str) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    spec = {"schedule": "* * * * *", "timeZone": zone, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    path = f"{ns.replace('/api/v1', '/apis/batch/v1')}/cronjobs"
    answer = (await api.post(path, {"metadata": {"name": "a"}, "spec": spec})).expect(422)
    assert [cause[:2] for cause in answer.causes] == [("FieldValueInvalid", "spec.timeZone")]
    assert "unknown time zone " in answer.message


@pytest.mark.parametrize(
    ("volume", "field", "why"),
    [
        ({"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}, "path", "must not contain '..'"),
        ({"items": [{"path": "/x", "fieldRef": {"fieldPath": "metadata.name"}}]}, "path", "must be a relative path"),
        ({"items": [{"path": "x"}]}, "", "one of fieldRef and resourceFieldRef is required"),
        ({"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.nodeName"}}]}, "fieldRef.fieldPath", "supported"),
        ({"items": [{"path": "x", "fieldRef": {"fieldPath": "no"}}]}, "fieldRef.fieldPath", "not supported: no"),
        (
            {"items": [{"path": "x", "resourceFieldRef": {"resource": "limits.cpu"}}]},
            "resourceFieldRef.containerName",
            "Required value",
        ),
    ],
)
async def test_files_of_the_downward_api_stay_in_their_volume(
    api: API, ns: str, volume: Any, field: str, why: str
) -> None:
    await rejected(api, ns, {"downwardAPI": volume}, f"downwardAPI{'.' * bool(field)}{field}", why)
    projected = {"projected": {"sources": [{"downwardAPI": volume}]}}
    await rejected(api, ns, projected, f"projected.sources[0].downwardAPI{'.' * bool(field)}{field}", why)


async def test_a_token_stays_in_its_volume(api: API, ns: str) -> None:
    projected = {"projected": {"sources": [{"serviceAccountToken": {"path": "../t"}}]}}
    await rejected(api, ns, projected, "projected.path", "must not contain '..'")


async def rejected(api: API, ns: str, source: Any, field: str, why: str) -> None:
    """See that a Pod with this volume is invalid."""
    spec = {"containers": [{"name": "a", "image": "b"}], "volumes": [{"name": "v", **source}]}
    answer = (await api.post(f"{ns}/pods", {"metadata": {"name": "a"}, "spec": spec})).expect(422)
    [(_, at, text)] = answer.causes
    assert at == f"spec.volumes[0].{field}"
    assert why in text


DIGITS = "9" * 5000


async def test_numbers_with_thousands_of_digits_are_invalid_everywhere(api: API, ns: str) -> None:
    policies = ns.replace("/api/v1", "/apis/policy/v1") + "/poddisruptionbudgets"
    budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": f"{DIGITS}%", "selector": {}}}
    answer = (await api.post(policies, budget)).expect(422)
    [(_, field, text)] = answer.causes
    assert (field, text.endswith("must not be greater than 100%")) == ("spec.minAvailable", True)
    (await api.post(policies, budget | {"spec": {"minAvailable": f"{'0' * 5000}100%"}})).expect(201)
    group = f"{ns.rpartition('/')[2]}.example.com"
    body = crd("digits", group)
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"].setdefault("properties", {})
    properties["text"] = {"type": "string", "x-kubernetes-validations": [{"rule": f"size(self) < {DIGITS}"}]}
    answer = (await api.post(CRDS, body)).expect(422)
    assert "invalid int literal" in answer.message
    properties["text"] = {"type": "string", "x-kubernetes-validations": [{"rule": f"self == '' || {DIGITS}u > 1u"}]}
    assert "invalid uint literal" in (await api.post(CRDS, body)).expect(422).message
    properties["text"] = {"type": "string", "format": "ipv4"}
    (await api.post(CRDS, body)).expect(201)
    path = f"{ns.replace('/api/v1', f'/apis/{group}/v1')}/digits"

    async def is_served() -> bool:
        return (await api.get(path)).status == 200

    await until(is_served)
    digits = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "a"}, "text": f"1.2.3.{DIGITS}"}
    answer = await api.post(path, digits)
    assert "in body must be of type ipv4" in answer.expect(422).message
    await api.delete(f"{CRDS}/digits.{group}")


@pytest.mark.parametrize(
    ("subresource", "patch", "lists"),
    [
        ("", {"metadata": {"finalizers": [{"a": 5}]}}, "[[a.b/c] [map[a:5]]]"),
        ("", {"metadata": {"finalizers": ["x", 5]}}, "[[a.b/c] [x 5]]"),
        ("", {"metadata": {"$deleteFromPrimitiveList/finalizers": [5]}}, "[[a.b/c] [5]]"),
        ("", {"spec": {"containers": [5]}}, "[[map[image:b "),
        ("", {"spec": {"containers": [None]}}, "[[map[image:b "),
        ("/status", {"status": {"podIPs": [{"ip": "1.2.3.4"}, 2147483648]}}, "[[map[ip:5.6.7.8]] [map[ip:1.2.3.4] 2"),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_a_strategic_patch_does_not_merge_values_of_different_types(
    api: API, ns: str, subresource: str, patch: Any, lists: str
) -> None:
    spec = {"containers": [{"name": "a", "image": "b"}], "schedulerName": "none"}
    pod = f"{ns}/pods/a"
    (await api.post(f"{ns}/pods", {"metadata": {"name": "a", "finalizers": ["a.b/c"]}, "spec": spec})).expect(201)
    (await api.patch(f"{pod}/status", {"status": {"podIP": "5.6.7.8", "podIPs": [{"ip": "5.6.7.8"}]}})).expect(200)
    answer = (await api.patch(f"{pod}{subresource}", patch, "strategic")).expect(500)
    assert answer.message.startswith(f"list element types are not identical: {lists}")
    (await api.patch(pod, {"metadata": {"finalizers": None}})).expect(200)


@pytest_asyncio.fixture
async def bigs(api: API, ns: str) -> AsyncIterator[str]:
    """The path of objects with any fields, and large defaults."""
    group = f"{ns.rpartition('/')[2]}.example.com"
    default = {"type": "string", "default": "x" * 1000}
    many = {"type": "array", "items": {"type": "object", "properties": {"a": default}}}
    schema = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"many": {"type": "array", "items": many}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "bigs", "kind": "Big"}
    crd = {
        "metadata": {"name": f"bigs.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (await api.post(crds, crd)).expect(201)
    path = f"{ns.replace('/api/v1', f'/apis/{group}/v1')}/bigs"

    async def is_served() -> bool:
        return (await api.get(path)).status == 200

    await until(is_served)
    yield path
    await api.delete(f"{crds}/bigs.{group}")


def big(bigs: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{bigs.split('/')[2]}/v1", "kind": "Big", "metadata": {"name": name}, **fields}


async def test_an_object_is_at_most_as_large_as_etcd_allows(api: API, bigs: str) -> None:
    (await api.post(bigs, big(bigs, "most", x="y" * 1_571_000))).expect(201)
    answer = (await api.post(bigs, big(bigs, "more", x="y" * 1_580_000))).expect(500)
    assert (answer.reason, answer.message) == (None, "etcdserver: request is too large")
    answer = await api.patch(f"{bigs}/most", {"z": "y" * 10_000})
    assert answer.expect(500).message == "etcdserver: request is too large"
    (await api.get(f"{bigs}/more")).expect(404)
    (await api.delete(f"{bigs}/most")).expect(200)


async def test_defaults_do_not_make_an_object_larger_than_that(api: API, bigs: str) -> None:
    answer = await api.post(bigs, big(bigs, "a", many=[[{}] * 100] * 100))
    assert answer.status in (413, 500), answer.body[:300]
    (await api.get(f"{bigs}/a")).expect(404)
    (await api.post(bigs, big(bigs, "a", many=[[{}] * 100]))).expect(201)
