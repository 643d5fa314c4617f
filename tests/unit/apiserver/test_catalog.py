"""The facts about the built-in kinds."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright_controlplane.apiserver import catalog

CORE = GroupVersion("", "v1")
APPS = GroupVersion("apps", "v1")


def schema(name: str) -> Any:
    return catalog.components()[name]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_core_group_comes_first_and_every_group_version_has_resources() -> None:
    assert catalog.group_versions()[0] == CORE
    assert all(catalog.resources(gv) for gv in catalog.group_versions())
    assert {"apps", "batch", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} <= {
        group.name for group in catalog.groups()
    }


def test_a_group_version_that_is_not_built_in_has_no_resources() -> None:
    assert catalog.resources(GroupVersion("my.domain", "v1")) == ()


def test_deployments_have_the_facts_of_discovery() -> None:
    (deployments,) = (each for each in catalog.resources(APPS) if each.resource.resource == "deployments")
    assert deployments.kind == GroupVersionKind("apps", "v1", "Deployment")
    assert deployments.list_kind == "DeploymentList"
    assert deployments.singular == "deployment"
    assert deployments.namespaced
    assert deployments.short_names == ("deploy",)
    assert deployments.categories == ("all",)
    assert deployments.storage_version_hash
    assert set(deployments.verbs) == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip
    kinds = {each.name: str(each.kind) for each in deployments.subresources}
    assert kinds == {"scale": "autoscaling/v1, Kind=Scale", "status": "apps/v1, Kind=Deployment"}


def test_every_resource_has_a_schema_and_every_reference_resolves() -> None:
    for gv in catalog.group_versions():
        for resource in catalog.resources(gv):
            for kind in (resource.kind, *(each.kind for each in resource.subresources)):
                if not kind.kind.endswith("Options"):  # options of exec and similar subresources: queries, not objects
                    assert catalog.schema_ref(kind).startswith("#/components/schemas/io.k8s.")
    known = {f"#/components/schemas/{name}" for name in catalog.components()}
    assert set(references(dict(catalog.components()))) <= known


def test_a_kind_that_is_not_built_in_has_no_schema() -> None:
    with pytest.raises(KeyError):
        catalog.schema_ref(GroupVersionKind("my.domain", "v1", "WebServer"))


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("core.v1.Container", "terminationMessagePath", "/dev/termination-log"),
        ("core.v1.PodSpec", "restartPolicy", "Always"),
        ("core.v1.Probe", "periodSeconds", 10),
        ("core.v1.ServicePort", "protocol", "TCP"),
        ("apps.v1.DeploymentSpec", "replicas", 1),
        ("rbac.v1.RoleRef", "apiGroup", "rbac.authorization.k8s.io"),
    ],
)
def test_schemas_contain_the_servers_defaults(name: str, field: str, value: object) -> None:
    assert schema(f"io.k8s.api.{name}")["properties"][field]["default"] == value


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("core.v1.Container", "name"),  # published as a default of ""
        ("core.v1.Container", "imagePullPolicy"),  # depends on the image's tag
        ("core.v1.ServiceSpec", "clusterIP"),  # allocated
        ("core.v1.PodSpec", "enableServiceLinks"),  # set in Pods, not in templates
        ("core.v1.ObjectMeta", "creationTimestamp"),
    ],
)
def test_schemas_contain_no_placeholder_defaults(name: str, field: str) -> None:
    package = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" if "ObjectMeta" in name else f"io.k8s.api.{name}"
    assert "default" not in schema(package)["properties"][field]


def test_merge_keys_and_list_types_are_in_the_schemas() -> None:
    containers = schema("io.k8s.api.core.v1.PodSpec")["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-list-type"] == "map"


def test_pods_have_the_columns_that_kubectl_shows() -> None:
    columns = catalog.columns(GroupVersionResource("", "v1", "pods"))
    assert [each.name for each in columns if each.priority == 0] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [each.name for each in columns if each.priority > 0] == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    assert columns[0].format == "name"


def test_every_resource_that_can_be_listed_has_columns() -> None:
    for gv in catalog.group_versions():
        for resource in catalog.resources(gv):
            if "list" in resource.verbs:
                assert "Name" in [column.name for column in catalog.columns(resource.resource)]


def test_openapi_documents_match_their_hashes() -> None:
    for path, digest in catalog.openapi_paths().items():
        document = catalog.openapi_v3(path)
        assert hashlib.sha512(document.json).hexdigest().upper() == digest == document.hash
        assert gzip.decompress(document.gzip) == document.json


def test_every_group_version_has_an_openapi_document_with_descriptions() -> None:
    for gv in catalog.group_versions():
        schemas = json.loads(catalog.openapi_v3(gv.path[1:]).json)["components"]["schemas"]
        assert any(each.get("description") for each in schemas.values())


def test_a_missing_openapi_document_raises_key_error() -> None:
    with pytest.raises(KeyError):
        catalog.openapi_v3("apis/my.domain/v1")


def test_a_new_cluster_has_namespaces_roles_and_priority_classes() -> None:
    objects = catalog.bootstrap_objects()
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert {("Namespace", "default"), ("Namespace", "kube-system")} <= names
    assert {("ClusterRole", "cluster-admin"), ("ClusterRoleBinding", "cluster-admin")} <= names
    assert ("PriorityClass", "system-node-critical") in names


def test_bootstrap_objects_come_after_their_namespace() -> None:
    seen = set[str]()
    for each in catalog.bootstrap_objects():
        if each["kind"] == "Namespace":
            seen.add(each["metadata"]["name"])
        assert each["metadata"].get("namespace", "default") in seen


def test_bootstrap_objects_have_no_server_assigned_fields() -> None:
    for each in catalog.bootstrap_objects():
        assert not {"uid", "resourceVersion", "creationTimestamp", "managedFields"} & each["metadata"].keys()


def test_the_version_is_that_of_the_extracted_server() -> None:
    assert catalog.version()["gitVersion"] == "v1.36.1"
