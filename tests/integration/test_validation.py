"""`CustomResource.validate` returns the errors of an API server, word for word."""

from typing import Annotated, Any

import pytest

from kubewright import Client, CustomResource, Model, ObjectMeta, field
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.meta.v1 import IntOrString, Quantity
from kubewright.client._dynamic import Unstructured
from kubewright.machinery.errors import Invalid, ModelError
from kubewright.machinery.json import JSONObject
from kubewright.markers import (
    Enum,
    ExactlyOneOf,
    Format,
    Immutable,
    ListMapKey,
    ListType,
    MaxItems,
    MaxLength,
    MaxProperties,
    Minimum,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    XValidation,
)
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster


class Part(
    Model, markers=[XValidation("self.min <= self.max", message_expression="'min is above %d'.format([self.max])")]
):
    name: Annotated[str, MinLength(1), MaxLength(5), Pattern("^[a-z]*$")]
    min: Annotated[int, Minimum(0)] = 0
    max: Annotated[int, MultipleOf(2)] = 10


class Source(Model, markers=[ExactlyOneOf("url", "file")]):
    url: Annotated[str | None, Format("uri")] = None
    file: str | None = None


class JudgedSpec(Model):
    parts: Annotated[list[Part], ListType("map"), ListMapKey("name"), MinItems(1), MaxItems(3)]
    source: Source | None = None
    color: Annotated[str | None, Enum("red", "green")] = None
    tags: Annotated[list[str], ListType("set")] = field(default_factory=list)
    labels: Annotated[dict[str, str], MaxProperties(1)] = field(default_factory=dict)
    memory: Quantity | None = None
    port: IntOrString | None = None
    owner: Annotated[str, Immutable()] = "nobody"
    size: Annotated[int, XValidation("self >= oldSelf", message="cannot shrink", reason="FieldValueForbidden")] = 1


class Judged(CustomResource, group="validation.test", version="v1"):
    """Judged has constraints of each type."""

    spec: JudgedSpec


Document = Unstructured.of(Judged.__api__)
"""A Judged without constraints."""


@pytest.fixture
async def client(cluster: Cluster) -> Client:
    await cluster.install(Judged)
    return cluster.client


def document(namespace: str, spec: JSONObject) -> Unstructured:
    content = {"spec": {"parts": [{"name": "a"}], **spec}}
    return Document(metadata=ObjectMeta(name="one", namespace=namespace), content=content)


def told(answer: Invalid) -> list[str]:
    """Return the causes, sorted: a real API server lists the faults of an object in random order."""
    return sorted(f"{cause.field}: {cause.message}" for cause in answer.causes)


@pytest.mark.parametrize(
    "spec",
    [
        {"parts": []},
        {"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]},
        {"parts": [{"name": "a"}, {"name": "a"}]},
        {"parts": [{"name": ""}]},
        {"parts": [{"name": "abcdefg"}]},
        {"parts": [{"name": "A"}]},
        {"parts": [{"min": 1}]},
        {"parts": [{"name": "a", "min": -1, "max": 3}]},
        {"parts": [{"name": "a", "min": 5, "max": 2}]},
        {"parts": "a"},
        {"source": {}},
        {"source": {"url": "http://a", "file": "b"}},
        {"source": {"url": "::"}},
        {"color": "blue"},
        {"tags": ["x", "x"]},
        {"labels": {"a": "b", "c": "d"}},
        {"memory": "1Zi"},
        {"port": True},
        {"owner": 3, "size": "many"},
        {"color": "blue", "parts": [{"name": "A", "min": -1}], "tags": ["x", "x"]},
    ],
    ids=str,
)
async def test_a_create_is_rejected_with_the_same_messages(client: Client, namespace: str, spec: JSONObject) -> None:
    refused = document(namespace, spec)
    with pytest.raises(Invalid) as answer:
        await client.create(refused)
    assert sorted(map(str, Judged.validate(refused.content))) == told(answer.value)


@pytest.mark.parametrize(
    "spec",
    [{"owner": "me"}, {"size": 1}, {"owner": "me", "size": 1, "color": "blue"}],
    ids=str,
)
async def test_an_update_is_rejected_with_the_same_messages(client: Client, namespace: str, spec: JSONObject) -> None:
    old = document(namespace, {"size": 2, "owner": "you"})
    made = await client.create(old)
    made["spec"].update(spec)
    with pytest.raises(Invalid) as answer:
        await client.update(made)
    assert sorted(map(str, Judged.validate(made.content, old.content))) == told(answer.value)


async def test_a_valid_object_is_accepted(client: Client, namespace: str) -> None:
    spec: dict[str, Any] = {"source": Source(url="http://a.example"), "memory": "1Gi", "port": "http"}
    obj = Judged(metadata=ObjectMeta(name="one", namespace=namespace), spec=JudgedSpec(parts=[Part(name="a")], **spec))
    assert Judged.validate(obj) == []
    assert (await client.create(obj)).spec == obj.spec


class Pair(Model):
    a: str
    b: str


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, Pattern("(")],
        Annotated[int, XValidation("self.size() > 1")],
        Annotated[int, XValidation("self > 'a'")],
        Annotated[int, XValidation("self > 1", message_expression="self")],
        Annotated[int, XValidation("self > 1", optional_old_self=True)],
        Annotated[list[str], XValidation("self.all(a, self.all(b, a.contains(b)))")],
        list[Annotated[str, Immutable()]],
        Annotated[list[Pair], ListType("set")],
        Annotated[Part, XValidation("has(self.nothing)")],
    ],
    ids=range(9),
)
async def test_a_kind_is_rejected_for_the_same_reason_as_its_crd(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, annotation: Any
) -> None:
    fields = {"__annotations__": {"x": annotation}, "__module__": __name__}
    kind = type(CustomResource)("Faulty", (CustomResource,), fields, group="faulty.test", version="v1")
    with monkeypatch.context() as without_rules:
        without_rules.setattr("kubewright.models._crd.find_spec", lambda name: None)  # as in an operator's image
        crd = codec.from_dict(CustomResourceDefinition, custom_resource_definition(kind))
    with pytest.raises(Invalid) as answer:
        await cluster.client.create(crd, dry_run=True)
    with pytest.raises(ModelError) as refusal:
        custom_resource_definition(kind)
    reasons = [cause.message.partition(" within ")[0] for cause in answer.value.causes]  # the position follows
    assert [reason for reason in reasons if reason not in str(refusal.value)] == []
