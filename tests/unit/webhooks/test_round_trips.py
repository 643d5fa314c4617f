"""The test kit for conversions, and the generator of its objects."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest

from kubewright import CustomResource, Model
from kubewright import markers as m
from kubewright.apis.meta.v1 import Condition, IntOrString, ObjectMeta, Quantity
from kubewright.models import codec
from kubewright.testing import check_round_trips
from kubewright.testing._examples import Examples
from kubewright.webhooks import Conversion, Spoke

from .versions import V1, V1Beta1, V1Spec, conversion, from_v1beta1, to_v1beta1


def test_lossless_conversions_pass() -> None:
    check_round_trips(conversion())


def test_a_loss_is_shown_with_a_small_object() -> None:
    with pytest.raises(AssertionError) as caught:
        check_round_trips(conversion(lossless=False))
    text = str(caught.value)
    assert text.startswith("Web v1 -> v1beta1 -> v1: the object is not the same, example 0 of seed 0\n  spec.")
    assert '"metadata"' not in text
    assert "use Spoke(lossless=True)" in text


def test_objects_of_your_own_are_converted_first() -> None:
    own = V1(metadata=ObjectMeta(name="own"), spec=V1Spec(image="nginx", tags=["a"]))
    with pytest.raises(AssertionError, match=r"an object of your own\n  spec\.tags: \[\"a\"\] -> absent"):
        check_round_trips(conversion(lossless=False), count=0, objects=[own])


def test_an_exception_says_which_object_it_is_about() -> None:
    def broken(old: V1Beta1) -> V1:
        raise KeyError("size")

    made = Conversion(V1, Spoke(V1Beta1, convert_to=broken, convert_from=to_v1beta1))
    with pytest.raises(KeyError) as caught:
        check_round_trips(made)
    [note] = caught.value.__notes__
    assert note.startswith("Web v1 -> v1beta1 -> v1: the conversion fails, example 0 of seed 0\nobject: {")
    assert '"metadata"' not in note
    assert "refuse them in the types" in note


def test_a_function_that_changes_a_field_is_found() -> None:
    def wrong(new: V1) -> V1Beta1:
        made = to_v1beta1(new)
        made.spec.size = min(made.spec.size, 3)
        return made

    made = Conversion(V1, Spoke(V1Beta1, convert_to=from_v1beta1, convert_from=wrong, lossless=False))
    with pytest.raises(AssertionError, match=r"spec\.(replicas|ports|tags|labels)"):
        check_round_trips(made)


def test_a_field_that_does_not_reach_the_other_version_is_found() -> None:
    def forgets(new: V1) -> V1Beta1:
        made = to_v1beta1(new)
        made.spec.ports = []
        made.spec.image = "nginx"
        return made

    made = Conversion(V1, Spoke(V1Beta1, convert_to=from_v1beta1, convert_from=forgets))
    with pytest.raises(AssertionError) as caught:
        check_round_trips(made)
    assert str(caught.value) == (
        "Web v1 -> v1beta1: both versions have these fields, but their values in v1 do not reach v1beta1\n"
        '  spec.image: always "nginx" in v1beta1\n'
        "  spec.ports: always absent in v1beta1\n"
        'Convert them. If two fields only have the same name, pass unrelated=["spec.image","spec.ports"].'
    )
    check_round_trips(made, unrelated=["spec.image", "spec.ports"])


def test_values_may_differ_between_versions() -> None:
    def shorter(new: V1) -> V1Beta1:
        made = to_v1beta1(new)
        made.spec.image = new.spec.image[:1]
        return made

    check_round_trips(Conversion(V1, Spoke(V1Beta1, convert_to=from_v1beta1, convert_from=shorter)))


class PartSpec(Model):
    name: Annotated[str, m.Pattern("^[a-z][a-z0-9-]{2,5}$"), m.MaxLength(6)]
    size: Annotated[int, m.Minimum(10), m.Maximum(20), m.MultipleOf(5)]


class EverySpec(Model):
    mode: Literal["fast", "slow"]
    memory: Quantity
    port: IntOrString
    since: datetime
    data: bytes
    flags: Annotated[list[str], m.MinItems(2)]
    parts: Annotated[list[PartSpec], m.ListType("map"), m.ListMapKey("name")]
    labels: dict[str, str]
    anything: Annotated[dict[str, Any], m.PreserveUnknownFields()]
    maybe: int | None
    conditions: list[Condition]


class Every(CustomResource, group="shop.example.com", version="v1"):
    spec: EverySpec


def test_generated_objects_are_what_the_schema_allows() -> None:
    examples = Examples(Every, random.Random(1))
    for _ in range(100):
        obj = codec.from_dict(Every, examples.document())
        assert Every.validate(obj) == []


def test_the_same_seed_generates_the_same_objects() -> None:
    assert Examples(Every, random.Random(1)).document() == Examples(Every, random.Random(1)).document()
    assert Examples(Every, random.Random(1)).document() != Examples(Every, random.Random(2)).document()
