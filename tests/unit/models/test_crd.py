"""CRDs: those of `tests/golden/crd` are what controller-gen 0.19 wrote for the same types in Go."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kubewright.apis.core.v1 import PodTemplateSpec
from kubewright.machinery import yaml
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource, Model, codec, custom_resource_definition, field

GOLDEN = Path(__file__).parents[2] / "golden" / "crd"


def load_declared() -> ModuleType:
    spec = importlib.util.spec_from_file_location("declared", GOLDEN / "declared.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["declared"] = module
    spec.loader.exec_module(module)
    return module


declared = load_declared()


def schema_of(cls: type[CustomResource]) -> JSONObject:
    schema: JSONObject = custom_resource_definition(cls)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize(
    ("cls", "file"),
    [(declared.WebServer, "my.domain_webservers.yaml"), (declared.Sample, "my.domain_samples.yaml")],
)
def test_a_crd_is_what_controller_gen_writes(cls: type[CustomResource], file: str) -> None:
    golden = yaml.load((GOLDEN / file).read_text())
    del golden["metadata"]["annotations"]  # names controller-gen's own version
    assert yaml.dump(custom_resource_definition(cls)) == yaml.dump(golden)


def test_a_crd_is_the_same_when_it_is_read_back_from_yaml() -> None:
    crd = custom_resource_definition(declared.Sample)
    assert yaml.load(yaml.dump(crd)) == crd


def test_an_object_of_the_declared_kind_has_the_fields_of_its_crd() -> None:
    spec = declared.SampleSpec(
        parts=[declared.Part(name="a", min=1, max=2)], note=None, fixed=2, size=declared.Size.SMALL, port=80
    )
    written = codec.to_dict(declared.Sample(spec=spec))["spec"]
    properties = schema_of(declared.Sample)["properties"]["spec"]["properties"]
    assert written.keys() <= properties.keys()
    assert written["note"] is None
    assert written["port"] == 80


class First(CustomResource, group="example.com", version="v1alpha1", kind="Thing", storage=False, deprecated=True):
    size: int = 1


class Second(CustomResource, group="example.com", version="v1", kind="Thing", short_names=[]):
    size: int = 1


def test_versions_of_a_kind_make_one_crd() -> None:
    crd = custom_resource_definition(First, Second)
    versions = [(each["name"], each["storage"], each.get("deprecated", False)) for each in crd["spec"]["versions"]]
    assert crd["metadata"]["name"] == "things.example.com"
    assert versions == [("v1", True, False), ("v1alpha1", False, True)]


def test_versions_that_do_not_fit_one_crd_are_rejected() -> None:
    class Other(CustomResource, group="example.com", version="v2", storage=False):
        size: int = 1

    class Stored(CustomResource, group="example.com", version="v2", kind="Thing"):
        size: int = 1

    class Unserved(CustomResource, group="example.com", version="v1", kind="Thing", served=False):
        size: int = 1

    for classes, message in (
        ((), "pass the class of a custom resource"),
        (
            (Second, Other),
            r"Other \(v2\) and .*Second \(v1\) are versions of one kind but differ: kind is 'Other'",
        ),
        ((Second, Stored), "exactly one version must be the storage version, but v1 and v2 are; set storage=False"),
        ((First,), "exactly one version must be the storage version, but none is; remove storage=False"),
        ((Second, Second), "two classes define the same version"),
        ((Unserved,), "no version is served"),
    ):
        with pytest.raises(ModelError, match=message):
            custom_resource_definition(*classes)


def test_a_description_is_the_string_under_the_field_or_else_the_docstring_of_its_type() -> None:
    class Part(Model):
        """A part."""

        size: int
        """How big it is,

        in metres.
        """

    class Whole(CustomResource, group="example.com", version="v1"):
        """A whole."""

        left: Part
        right: Part
        """The right one."""

    schema = schema_of(Whole)
    left, right = schema["properties"]["left"], schema["properties"]["right"]
    assert (schema["description"], left["description"], right["description"]) == (
        "A whole.",
        "A part.",
        "The right one.",
    )
    assert left["properties"]["size"]["description"] == "How big it is,\n\nin metres."


def test_a_class_without_source_has_a_crd_without_descriptions_of_fields() -> None:
    names: dict[str, Any] = {"__name__": "nowhere", "CustomResource": CustomResource}
    exec(
        "class Gone(CustomResource, group='example.com', version='v1'):\n  'Docs.'\n  size: int\n  'How big it is.'",
        names,
    )
    schema = schema_of(names["Gone"])
    assert schema["description"] == "Docs."
    assert schema["properties"]["size"] == {"type": "integer"}


def test_defaults_of_nested_models_are_defaults_of_the_crd_but_not_those_of_the_status() -> None:
    class Part(Model):
        size: int = 3

    class Whole(CustomResource, group="example.com", version="v1"):
        part: Part = field(default_factory=Part)
        status: Part = field(default_factory=Part)

    properties = schema_of(Whole)["properties"]
    assert properties["part"]["default"] == {"size": 3}
    assert "default" not in properties["status"]


def test_a_built_in_struct_in_a_crd_brings_its_list_keys_and_formats() -> None:
    class PodSet(CustomResource, group="example.com", version="v1"):
        template: PodTemplateSpec

    pod = schema_of(PodSet)["properties"]["template"]["properties"]["spec"]
    containers = pod["properties"]["containers"]
    ports = containers["items"]["properties"]["ports"]
    assert pod["required"] == ["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["containerPort"]["format"] == "int32"
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"


def test_a_built_in_struct_that_contains_itself_is_rejected() -> None:
    from kubewright.apis.apiextensions.v1 import JSONSchemaProps

    class Form(CustomResource, group="example.com", version="v1"):
        form: JSONSchemaProps

    with pytest.raises(ModelError, match="JSONSchemaProps"):
        custom_resource_definition(Form)
