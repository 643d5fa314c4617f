"""Markers: each row of docs/markers.md holds, and controller-gen has no marker that the page does not name."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from kubewright import markers
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource, Model, PrintColumn, Scale, custom_resource_definition, field
from markers_page import PAGE, Row, kind_with_arguments, kind_with_field, kind_with_model, rows

CONTROLLER_GEN = [
    "Minimum", "Maximum", "ExclusiveMinimum", "ExclusiveMaximum", "MultipleOf", "MinLength", "MaxLength", "Pattern",
    "MinItems", "MaxItems", "UniqueItems", "MinProperties", "MaxProperties", "Enum", "Format", "Type", "items:",
    "XValidation", "messageExpression", "reason", "fieldPath", "optionalOldSelf", "XIntOrString",
    "XEmbeddedResource", "EmbeddedResource", "XPreserveUnknownFields", "pruning:PreserveUnknownFields",
    "AtMostOneOf", "ExactlyOneOf", "AtLeastOneOf", "Required", "Optional", "Schemaless", "required", "optional",
    "nullable", "default", "kubebuilder:default", "kubebuilder:example", "kubebuilder:title", "externalDocs",
    "listType", "listMapKey", "mapType", "structType", "subresource:status", "subresource:scale", "printcolumn",
    "resource:path", "resource:shortName", "resource:categories", "resource:singular", "resource:scope",
    "storageversion", "unservedversion", "deprecatedversion", "selectablefield", "metadata:labels",
    "metadata:annotations", "skipversion", "kubebuilder:skip",
]  # fmt: skip
"""The markers of controller-gen 0.19 that concern CRDs, and AtLeastOneOf, which came later."""


def version_of(kind: type[CustomResource]) -> JSONObject:
    version: JSONObject = custom_resource_definition(kind)["spec"]["versions"][0]
    return version


def by_marker(row: Row) -> str:
    return row.marker


@pytest.mark.parametrize("name", CONTROLLER_GEN)
def test_the_page_names_each_marker_of_controller_gen(name: str) -> None:
    assert name in PAGE.read_text()


@pytest.mark.parametrize("row", rows("Fields"), ids=by_marker)
def test_a_field_has_the_documented_schema(row: Row) -> None:
    schema = version_of(kind_with_field(row))["schema"]["openAPIV3Schema"]
    assert schema["properties"]["x"] == row.expected
    if row.note:
        assert row.note == ("required" if "x" in schema.get("required", ()) else "not required")


@pytest.mark.parametrize("row", rows("Models"), ids=by_marker)
def test_a_model_has_the_documented_schema(row: Row) -> None:
    schema = version_of(kind_with_model(row))["schema"]["openAPIV3Schema"]["properties"]["x"]
    del schema["type"], schema["properties"]
    assert schema == row.expected


@pytest.mark.parametrize("row", rows("Kinds"), ids=by_marker)
def test_a_kind_has_the_documented_crd(row: Row) -> None:
    kind = kind_with_arguments(row)
    ((path, expected),) = row.expected.items()
    found: Any = version_of(kind) if path.startswith(".") else custom_resource_definition(kind)
    for step in path.removeprefix(".").split("."):
        found = found[step]
    assert found == expected


def test_a_version_that_is_not_served_stays_in_the_crd() -> None:
    class Old(CustomResource, group="example.com", version="v1", kind="Thing", served=False, storage=False):
        size: int = 1

    class New(CustomResource, group="example.com", version="v2", kind="Thing"):
        size: int = 1

    versions = custom_resource_definition(Old, New)["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1", False, False),
        ("v2", True, True),
    ]


def test_reserved_field_names_in_a_union_are_escaped_for_cel() -> None:
    rule = markers.ExactlyOneOf("namespace", "a").keywords["x-kubernetes-validations"][0]["rule"]
    assert rule == "[has(self.__namespace__),has(self.a)].filter(x,x==true).size() == 1"


def test_a_union_of_unknown_fields_is_rejected() -> None:
    with pytest.raises(ModelError, match="names \"pod_ip\", which is not a field; did you mean 'podIp'"):

        class Choice(Model, markers=[markers.ExactlyOneOf("hostIp", "pod_ip")]):
            host_ip: str | None = None
            pod_ip: str | None = None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"columns": [PrintColumn("Size", "spec.size")]},
            'JSON path of column "Size" is "spec.size"; it must start with .',
        ),
        ({"scale": Scale(replicas=".status.size")}, 'Scale.replicas is ".status.size"; it must start with .spec.'),
        ({"scale": Scale(status_replicas=".spec.size")}, "Scale.status_replicas is .* it must start with .status."),
        ({"scale": Scale(selector="app")}, 'Scale.selector is "app"; it must start with .spec. or .status.'),
        ({"selectable_fields": ["spec.size"]}, 'selectable field "spec.size" is "spec.size"; it must start with .'),
        ({"deprecated": "x" * 257}, "must not exceed 256 characters"),
    ],
)
def test_a_kind_that_an_api_server_would_not_serve_is_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):

        class Thing(CustomResource, group="example.com", version="v1", **arguments):
            size: int = 1


def test_a_status_without_its_subresource_is_written_with_the_rest() -> None:
    class Status(Model):
        seen: bool = False

    class Thing(CustomResource, group="example.com", version="v1", status_subresource=False):
        status: Status = field(default_factory=Status)

    assert "subresources" not in version_of(Thing)
    assert Thing.__api__.subresources == ()


def test_a_group_of_kubernetes_needs_the_approval_annotation() -> None:
    approval = {"api-approved.kubernetes.io": "https://example.com/1"}

    class Approved(CustomResource, group="things.k8s.io", version="v1", annotations=approval):
        size: int = 1

    assert custom_resource_definition(Approved)["metadata"]["annotations"] == approval
    with pytest.raises(ModelError, match=r"annotation api-approved\.kubernetes\.io"):

        class Other(CustomResource, group="things.k8s.io", version="v1"):
            size: int = 1


def test_an_explicit_default_of_the_status_is_in_the_crd() -> None:
    class Status(Model):
        phase: str | None = None

    class Thing(CustomResource, group="example.com", version="v1"):
        status: Annotated[Status | None, markers.Default({"phase": "Waiting"})] = None

    schema = version_of(Thing)["schema"]["openAPIV3Schema"]
    assert schema["properties"]["status"]["default"] == {"phase": "Waiting"}
