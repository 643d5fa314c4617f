"""Declared types with a control plane: the CRD is enforced, and values survive a round trip."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest

from kubewright import Client, Condition, CustomResource, Model, ObjectMeta, field
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import Container, ContainerPort, PodSpec, PodTemplateSpec
from kubewright.apis.meta.v1 import Int32, IntOrString, MicroTime, Quantity, RawExtension, Time
from kubewright.machinery.errors import ConfigError, Invalid
from kubewright.markers import (
    EmbeddedResource,
    Enum,
    ListMapKey,
    ListType,
    MaxLength,
    Minimum,
    MinItems,
    Pattern,
    PreserveUnknownFields,
    XValidation,
)
from kubewright.testing import Cluster


class Color(StrEnum):
    RED = "red"
    GREEN = "green"


class Part(Model):
    name: Annotated[str, Pattern("^[a-z]+$"), MaxLength(5)]
    size: Annotated[Int32, Minimum(0)] = 1


class EverythingSpec(Model):
    parts: Annotated[list[Part], ListType("map"), ListMapKey("name"), MinItems(1)]
    tags: Annotated[list[str], ListType("set")] = field(default_factory=list)
    color: Color = Color.RED
    letter: Annotated[str | None, Enum("a", "b")] = None
    port: IntOrString | None = None
    memory: Quantity | None = None
    at: Time | None = None
    exactly: MicroTime | None = None
    data: bytes | None = None
    note: str | None
    labels: dict[str, str] = field(default_factory=dict)
    anything: Annotated[Any, PreserveUnknownFields()] = None
    some_object: Annotated[RawExtension, EmbeddedResource()] | None = None
    template: PodTemplateSpec | None = None


class EverythingStatus(Model):
    conditions: Annotated[list[Condition], ListType("map"), ListMapKey("type")] = field(default_factory=list)


class Everything(CustomResource, group="types.test", version="v1"):
    """Everything has a field of each type."""

    spec: EverythingSpec
    status: EverythingStatus = field(default_factory=EverythingStatus)


class OldSpec(Model):
    note: str | None = None


class OldEverything(CustomResource, group="types.test", version="v1", kind="Everything", plural="everythings"):
    """Everything as an old program knows it, without most of its fields."""

    spec: OldSpec


@pytest.fixture
async def client(cluster: Cluster) -> Client:
    await cluster.install(Everything)
    return cluster.client


def everything(namespace: str, **fields: Any) -> Everything:
    spec = EverythingSpec(**{"parts": [Part(name="a")], "note": None, **fields})
    return Everything(metadata=ObjectMeta(name="one", namespace=namespace), spec=spec)


async def test_a_value_of_each_type_survives_a_round_trip(client: Client, namespace: str) -> None:
    container = Container(name="web", image="nginx", ports=[ContainerPort(container_port=80, protocol="TCP")])
    written = everything(
        namespace,
        parts=[Part(name="a", size=0), Part(name="b")],
        tags=["x", "y"],
        color=Color.GREEN,
        letter="b",
        port="http",
        memory="1Gi",
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        exactly=MicroTime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        data=b"\x00\xff",
        labels={"k": "v"},
        anything={"deep": [1, None, {"x": True}]},
        some_object={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}},
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels={"app": "web"}, annotations={"a.example/b": "c"}, name="web"),
            spec=PodSpec(containers=[container]),
        ),
    )
    made = await client.create(written)
    assert made.spec == written.spec
    assert (await client.apply(everything(namespace, **{**_fields(written.spec)}))).spec == written.spec


def _fields(spec: EverythingSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


async def test_the_server_sets_the_defaults_of_the_type(client: Client, namespace: str) -> None:
    sparse = OldEverything(metadata=ObjectMeta(name="one", namespace=namespace), spec=OldSpec(note="x"))
    with pytest.raises(Invalid, match=r"spec\.parts: Required value"):
        await client.create(sparse)
    made = await client.create(everything(namespace, note="x"))
    assert (made.spec.color, made.spec.parts[0].size) == (Color.RED, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parts": []}, r"spec\.parts: Invalid value: 0: .* at least 1 items"),
        ({"parts": [Part(name="A")]}, r"spec\.parts\[0\]\.name: Invalid value"),
        ({"parts": [Part(name="abcdef")]}, r"spec\.parts\[0\]\.name: Too long"),
        ({"parts": [Part(name="a", size=-1)]}, r"spec\.parts\[0\]\.size: Invalid value"),
        ({"parts": [Part(name="a"), Part(name="a")]}, r"spec\.parts\[1\]: Duplicate value"),
        ({"tags": ["x", "x"]}, r"spec\.tags\[1\]: Duplicate value"),
        ({"letter": "c"}, r"spec\.letter: Unsupported value"),
        ({"some_object": {"apiVersion": "v1"}}, r"spec\.someObject\.kind: Required value"),
    ],
)
async def test_the_server_rejects_values_that_the_type_does_not_allow(
    client: Client, namespace: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await client.create(everything(namespace, **fields))


async def test_an_update_by_an_older_program_keeps_unknown_fields(client: Client, namespace: str) -> None:
    made = await client.create(everything(namespace, note="x", labels={"k": "v"}, memory="1Gi"))
    old = await client.get(OldEverything, "one", namespace=namespace)
    old.spec.note = "y"
    old.metadata.labels["seen"] = "yes"
    await client.update(old)
    found = await client.get(Everything, "one", namespace=namespace)
    made.spec.note = "y"
    assert found.spec == made.spec
    assert found.metadata.labels == {"seen": "yes"}


class MeasuredSpec(Model):
    size: Annotated[
        Quantity,
        MaxLength(10),
        XValidation("quantity(string(self)).isGreaterThan(quantity('1Gi'))", message="is too small"),
        XValidation("sign(quantity(string(self))) == 1"),
    ] = "10Gi"


class Measured(CustomResource, group="types.test", version="v1"):
    """Measured has rules on a quantity, whose length in a rule is limited although it may be a number."""

    spec: MeasuredSpec


async def test_a_quantity_can_be_compared_in_a_rule(cluster: Cluster, namespace: str) -> None:
    await cluster.install(Measured)
    metadata = ObjectMeta(name="one", namespace=namespace)
    for size, fault in (("1Mi", "is too small"), ("00000000010Gi", "Too long: may not be more than 10")):
        with pytest.raises(Invalid, match=fault):
            await cluster.client.create(Measured(metadata=metadata, spec=MeasuredSpec(size=size)))
    assert (await cluster.client.create(Measured(metadata=metadata, spec=MeasuredSpec(size="2Gi")))).spec.size == "2Gi"


class Kettle(CustomResource, group="names.test", version="v1", plural="kettles"):
    """Kettle takes the names first."""


class Pot(CustomResource, group="names.test", version="v1", plural="pots", short_names=["kettle"]):
    """Pot has one of the same names."""


async def test_a_kind_with_the_names_of_another_kind_is_rejected_and_the_other_is_named(cluster: Cluster) -> None:
    await cluster.install(Kettle)
    try:
        with pytest.raises(ConfigError) as error:
            await cluster.install(Pot)
        assert 'CustomResourceDefinition "pots.names.test" is not served' in str(error.value)
        assert "already in use" in str(error.value)
        assert "has these names in kettles.names.test already" in str(error.value)
    finally:
        for kind in (Pot, Kettle):
            await cluster.client.delete(CustomResourceDefinition, f"{kind.__api__.plural}.names.test")
