"""Models: valid declarations, and errors at the class statement."""

from __future__ import annotations

import enum
import types
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

import annotated_types
import msgspec
import pytest

from kubewright import markers
from kubewright.apis.core.v1 import Pod
from kubewright.apis.meta.v1 import Condition, IntOrString
from kubewright.machinery.errors import ModelError
from kubewright.markers import (
    EmbeddedResource,
    Enum,
    ListMapKey,
    ListType,
    Maximum,
    MaxItems,
    Minimum,
    Pattern,
    PreserveUnknownFields,
    XValidation,
)
from kubewright.models import UNSET, CustomResource, Model, PrintColumn, Scale, UnsetType, field
from kubewright.models._schema import struct_schema


class Nothing(Model):
    """Has no fields."""


def sent(model: Model) -> Any:
    return msgspec.json.decode(msgspec.json.encode(model))


def test_names_are_snake_case_in_python_and_camel_case_on_the_wire() -> None:
    class Names(Model):
        node_port_number: int
        from_: str
        pod_ips: list[str] = field(default_factory=list, name="podIPs")

    assert sent(Names(node_port_number=1, from_="a", pod_ips=["x"])) == {
        "nodePortNumber": 1,
        "from": "a",
        "podIPs": ["x"],
    }


def test_a_default_is_sent_so_that_an_apply_owns_it() -> None:
    class Color(enum.Enum):
        RED = "red"

    class Defaults(Model):
        number: int = 0
        text: str = ""
        flag: bool = False
        color: Color = Color.RED
        items: list[str] = ["a"]  # noqa: RUF012 - each model gets a list of its own
        nested: Nothing = field(default_factory=Nothing)

    assert sent(Defaults()) == {
        "number": 0,
        "text": "",
        "flag": False,
        "color": "red",
        "items": ["a"],
        "nested": {},
    }


def test_none_and_empty_lists_and_maps_are_not_sent() -> None:
    class Absent(Model):
        text: str | None = None
        items: list[str] = field(default_factory=list)
        typed: list[str] = field(default_factory=list[str], name="typedItems")
        labels: dict[str, str] = field(default_factory=dict)

    assert sent(Absent()) == {}


def test_null_and_absent_are_different_if_the_type_allows_both() -> None:
    class Nullable(Model):
        required: int | None
        maybe: int | UnsetType | None = UNSET

    assert sent(Nullable(required=None)) == {"required": None}
    assert sent(Nullable(required=None, maybe=None)) == {"required": None, "maybe": None}


def test_a_mutable_default_is_not_shared() -> None:
    class Lists(Model):
        items: list[str] = ["a"]  # noqa: RUF012 - each model gets a list of its own
        empty: list[str] = []  # noqa: RUF012

    one, two = Lists(), Lists()
    one.items.append("b")
    one.empty.append("b")
    assert (two.items, two.empty) == (["a"], [])


def test_a_class_variable_is_not_a_field() -> None:
    class WithConstant(Model):
        LIMIT: ClassVar[int] = 3
        size: int = 1

    assert (WithConstant.LIMIT, sent(WithConstant())) == (3, {"size": 1})


def test_a_model_in_a_function_resolves_local_models() -> None:
    class Inner(Model):
        size: int

    class Outer(Model):
        inner: list[Inner]

    assert msgspec.json.decode(b'{"inner":[{"size":1}]}', type=Outer) == Outer(inner=[Inner(size=1)])


def test_a_nested_model_is_resolved_in_its_model() -> None:
    class Outer(Model):
        class Inner(Model):
            size: int

        inner: Inner

    assert msgspec.json.decode(b'{"inner":{"size":1}}', type=Outer).inner.size == 1


def test_a_model_inherits_the_fields_of_its_parent() -> None:
    class Base(Model):
        size: int = 1

    class Derived(Base):
        name: str

    assert sent(Derived(name="a")) == {"size": 1, "name": "a"}


def make(annotation: Any, **default: Any) -> type[Model]:
    """Return a model `Spec` with one field `x`."""
    return type(Model)("Spec", (Model,), {"__annotations__": {"x": annotation}, "__module__": __name__, **default})


class Plain:
    """A class that is not derived from Model."""

    size: int = 1


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (str | int, 'Spec.x: a CRD field has one type; "str | int" is several. Use IntOrString'),
        (float, 'Spec.x: "float" cannot be in a CRD; .* use int in a smaller unit, or Quantity, or, .*Type'),
        (set[str], r'Spec.x: "set\[str\]" cannot be in a CRD; use list with m.ListType'),
        (tuple[int, str], "use list, or a Model with a field for each part"),
        (timedelta, "use str in the form"),
        (list, r"add the type of its items, like list\[str\]"),
        (dict[int, str], r"Spec.x: the keys of a map must be strings, got .* Use dict\[str, ...\]"),
        (Any, "Spec.x: the API server drops fields that the schema does not name.*PreserveUnknownFields"),
        (dict[str, Any], r"Annotated\[dict\[str, Any\], m.PreserveUnknownFields\(\)\]"),
        (list[float], r'Spec.x\[\]: "float"'),
        (object, "use Any with m.PreserveUnknownFields"),
        (Pod, "Spec.x: Pod is a kind, and an object cannot contain another"),
        (Plain, r'Spec.x: "Plain" cannot be in a CRD; derive it from Model: class Plain\(Model\)'),
        (list[Plain], r'Spec.x\[\]: "Plain" cannot be in a CRD; derive it from Model'),
        (complex, 'Spec.x: "complex" cannot be in a CRD; make it a Model'),
        (Literal["a", 1], "or all must be integers"),
        ("Missing", 'Spec.x: "Missing" is not defined here. Define it above the class'),
        ("list[Spec]", "Spec.x: a CRD cannot express a type that contains itself"),
        (Annotated[str, Minimum(0)], "Spec.x: Minimum is for type integer or number, not string"),
        (Annotated[int, Pattern("a")], "Spec.x: Pattern is for type string, not integer"),
        (Annotated[list[Condition], ListType("map")], r'add m.ListMapKey\("name"\)'),
        (Annotated[list[Condition], ListMapKey("type")], r'ListMapKey requires ListType\("map"\)'),
        (Annotated[list[Condition], ListType("map"), ListMapKey("id")], 'ListMapKey "id" is not a field of Condition'),
        (Annotated[list[Condition], ListType("map"), ListMapKey("observedGeneration")], "may be absent from Condition"),
        (Annotated[list[str], ListType("map"), ListMapKey("id")], r'for scalars use m.ListType\("set"\)'),
    ],
)
def test_a_type_that_a_crd_cannot_express_is_rejected_with_an_alternative(annotation: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make(annotation)


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (
            Annotated[int, Minimum(0)],
            -1,
            "Spec.x: the default -1 violates the field's own limits: it must be at least 0",
        ),
        (Annotated[int, Maximum(5, exclusive=True)], 5, "must be below 5"),
        (Annotated[str, Pattern("^a+$")], "b", 'must match "\\^a\\+\\$"'),
        (Annotated[list[str], MaxItems(1)], ["a", "b"], "must have at most 1 items"),
        (Annotated[str, Enum("a", "b")], "c", "must be one of"),
    ],
)
def test_a_default_that_violates_the_constraints_of_its_field_is_rejected(
    annotation: Any, default: Any, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        make(annotation, x=default)


@pytest.mark.parametrize(
    "annotation",
    [
        IntOrString,
        Annotated[Any, PreserveUnknownFields()],
        Annotated[dict[str, Any], EmbeddedResource()],
        dict[str, list[Condition]],
        Annotated[list[Condition], ListType("map"), ListMapKey("type")],
        Literal["a", "b"],
        Literal[1, 2],
        Annotated[IntOrString | None, XValidation("true")],
    ],
)
def test_a_type_that_a_crd_can_express_is_accepted(annotation: Any) -> None:
    assert issubclass(make(annotation), Model)


def test_two_fields_with_the_same_json_name_are_rejected() -> None:
    with pytest.raises(ModelError, match="Spec: Multiple fields rename to the same name"):

        class Spec(Model):
            node_port: int
            nodePort: int


def test_a_default_of_another_type_is_rejected() -> None:
    for annotation, default in ((int, "3"), (int, True), (str, 3), (bool, 1), (list[str], {"a": "b"})):
        with pytest.raises(ModelError, match=r"Spec\.x: the default .* it must be of type "):
            make(annotation, x=default)


def test_a_value_without_an_annotation_is_rejected() -> None:
    with pytest.raises(
        ModelError,
        match=r"Spec\.size: a field needs a type, as in `size: int = 1`; for a constant write `size: ClassVar",
    ):

        class Spec(Model):
            size = 5

    class Constant(Model):
        limit: ClassVar[int] = 5
        size: int = limit

        @property
        def doubled(self) -> int:
            return self.size * 2

    assert Constant().doubled == 10


def test_a_shared_struct_as_a_default_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"Spec.x: all objects would share one Nothing; use field\(default_factory"):
        make(Nothing, x=Nothing())


def test_a_default_without_required_fields_is_rejected() -> None:
    class Part(Model):
        size: int

    with pytest.raises(ModelError, match=r"Whole\.part: cannot create the default: Missing required argument 'size'"):

        class Whole(Model):
            part: Part = field(default_factory=Part)


def test_a_version_can_inherit_the_fields_of_another() -> None:
    class First(CustomResource, group="example.com", version="v1", kind="Thing"):
        size: int = 1
        status: Nothing = field(default_factory=Nothing)

    class Second(First, group="example.com", version="v2", kind="Thing", storage=False):
        colour: str = "red"

    thing = Second(size=2)
    assert (thing.api_version, thing.kind, thing.size, thing.colour) == ("example.com/v2", "Thing", 2, "red")
    assert Second.__api__.subresources == ("status",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "v1"}, r"Web: a kind needs a group and a version; write class Web\(CustomResource"),
        ({"group": "example.com"}, "a kind needs a group and a version"),
        ({"group": "example", "version": "v1"}, 'group "example" is not a domain of at least two parts'),
        ({"group": "apps.k8s.io", "version": "v1"}, "is reserved for Kubernetes"),
        (
            {"group": "example.com", "version": "1"},
            'version "1" must start with a letter',
        ),
        ({"group": "example.com", "version": "v1", "kind": "web"}, 'kind "web" must be CamelCase'),
        ({"group": "example.com", "version": "v1", "plural": "Webs"}, 'plural "Webs"'),
        ({"group": "example.com", "version": "v1", "short_names": ["W"]}, 'short name "W"'),
    ],
)
def test_a_kind_with_an_invalid_name_is_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        type(CustomResource)("Web", (CustomResource,), {"__module__": __name__}, **arguments)


def test_a_kind_does_not_define_a_field_that_every_kind_has() -> None:
    with pytest.raises(ModelError, match=r"Web\.metadata: every kind has this field"):

        class Web(CustomResource, group="example.com", version="v1"):
            metadata: Nothing


class Replicas(Model):
    replicas: int = 1


def test_names_of_a_kind_are_derived_unless_they_are_given() -> None:
    class Podbuggertool(CustomResource, group="ualter.com", version="v1beta1", short_names=["pbt"]):
        spec: Nothing

    class NetworkPolicy(CustomResource, group="example.com", version="v1", namespaced=False, scale=Scale()):
        spec: Replicas
        status: Replicas = field(default_factory=Replicas)

    guessed, other = Podbuggertool.__api__, NetworkPolicy.__api__
    assert (guessed.kind, guessed.plural, guessed.singular) == ("Podbuggertool", "podbuggertools", "podbuggertool")
    assert (guessed.short_names, guessed.subresources, guessed.namespaced) == (("pbt",), (), True)
    assert (other.plural, other.subresources, other.namespaced) == ("networkpolicies", ("status", "scale"), False)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Box", "boxes"), ("Gateway", "gateways"), ("Proxy", "proxies"), ("Batch", "batches"), ("Analysis", "analyses")],
)
def test_plurals_follow_the_usual_rules(kind: str, plural: str) -> None:
    cls = type(CustomResource)(kind, (CustomResource,), {"__module__": __name__}, group="example.com", version="v1")
    assert cls.__api__.plural == plural


def test_an_unknown_class_argument_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(ModelError, match=r"Web: a kind has no class argument 'shortnames'; did you mean 'short_names'"):
        types.new_class("Web", (CustomResource,), {"group": "example.com", "version": "v1", "shortnames": ["w"]})


def test_a_json_name_of_a_field_is_rejected_with_a_suggestion() -> None:
    class Sized(Model):
        max_size: int = 1

    with pytest.raises(TypeError, match=r"Sized has no field 'maxSize'; did you mean 'max_size'\?"):
        Sized(maxSize=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Missing required argument"):
        Condition(type="Ready")  # type: ignore[call-arg]


def test_a_dict_in_place_of_a_model_is_rejected_with_what_to_write() -> None:
    class Port(Model):
        number: int

    class Server(Model):
        main: Port
        others: Annotated[list[Port], MaxItems(3)] | None = None
        labels: dict[str, str] = field(default_factory=dict)

    wrong: Any = {"number": 80}
    with pytest.raises(TypeError, match=r"Server.main takes Port, got a dict: write main=Port\(\.\.\.\), or convert"):
        Server(main=wrong)
    with pytest.raises(TypeError, match=r"Server.others takes Port, got a list of dicts: write others=\[Port\("):
        Server(main=Port(number=80), others=[wrong])
    assert Server(main=Port(number=80), labels={"a": "b"}).labels == {"a": "b"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": Scale()}, r'Scale\.replicas is "\.spec\.replicas"; Spec has no field "replicas"'),
        ({"columns": [PrintColumn("Size", ".spec.sise")]}, r"has no field \"sise\"; did you mean 'size'"),
        ({"columns": [PrintColumn("Size", ".spek.size")]}, r'Thing has no field "spek"'),
        (
            {"columns": [PrintColumn("Size", ".spec.size", type="int")]},  # type: ignore[arg-type] # as at runtime
            r'Thing: the type of column "Size" is "int"; it must be boolean, date, integer, number or string',
        ),
        (
            {"columns": [PrintColumn("Size", ".spec.size", format="int16")]},  # type: ignore[arg-type]
            r'Thing: the format of column "Size" is "int16"; it must be byte, .* or password',
        ),
        ({"columns": [PrintColumn("", ".spec.size")]}, r'Thing: the column of ".spec.size" needs a name'),
        ({"selectable_fields": [".spec.color"]}, r'Spec has no field "color"'),
    ],
)
def test_a_path_to_a_field_that_does_not_exist_is_rejected(arguments: dict[str, Any], message: str) -> None:
    class Spec(Model):
        size: int = 1
        labels: dict[str, str] = field(default_factory=dict)

    with pytest.raises(ModelError, match=message):

        class Thing(CustomResource, group="example.com", version="v1", **arguments):
            spec: Spec
            status: Replicas = field(default_factory=Replicas)


def test_paths_into_metadata_maps_lists_and_filters_are_accepted() -> None:
    class Spec(Model):
        labels: dict[str, str] = field(default_factory=dict)

    class Status(Model):
        conditions: Annotated[list[Condition], markers.ListType("map"), markers.ListMapKey("type")] = field(
            default_factory=list
        )

    columns = [
        PrintColumn("Age", ".metadata.creationTimestamp", type="date"),
        PrintColumn("App", ".spec.labels.app"),
        PrintColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    ]

    class Thing(CustomResource, group="example.com", version="v1", columns=columns):
        spec: Spec
        status: Status = field(default_factory=Status)

    assert [each.name for each in Thing.__served_as__.columns] == ["Age", "App", "Ready"]


def test_constraints_of_annotated_types_and_msgspec_work_as_markers() -> None:
    class Spec(Model):
        size: Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)]
        names: Annotated[list[Annotated[str, annotated_types.MinLen(2)]], annotated_types.Len(1, 3)]
        ratio: Annotated[int, msgspec.Meta(ge=0, multiple_of=5, description="In percent")] = 5
        labels: Annotated[dict[str, str], annotated_types.MaxLen(4)] = field(default_factory=dict)

    properties = struct_schema(Spec)["properties"]
    assert properties["size"] == {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMaximum": True}
    assert properties["names"] == {
        "type": "array",
        "items": {"type": "string", "minLength": 2},
        "minItems": 1,
        "maxItems": 3,
    }
    ratio = {"type": "integer", "minimum": 0, "multipleOf": 5, "description": "In percent", "default": 5}
    assert properties["ratio"] == ratio
    assert properties["labels"]["maxProperties"] == 4


def test_annotations_of_other_libraries_are_ignored() -> None:
    class Spec(Model):
        size: Annotated[int, "a note"]

    assert struct_schema(Spec)["properties"]["size"] == {"type": "integer"}
