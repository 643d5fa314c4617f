"""Validation of objects and kinds without an API server.

tests/integration/test_validation.py compares it with the validation of an API server.
"""

from __future__ import annotations

from typing import Annotated

import pytest

from kubewright import markers as m
from kubewright.machinery.errors import ModelError
from kubewright.markers import Immutable, Maximum, Pattern, XValidation
from kubewright.models import CustomResource, Model, custom_resource_definition


class Range(Model, markers=[XValidation("self.low <= self.high", message="low is above high")]):
    low: int = 0
    high: Annotated[int, Maximum(100)] = 10


class Gauge(CustomResource, group="example.com", version="v1"):
    range: Range
    unit: Annotated[str, Immutable("a gauge keeps its unit")] = "m"


def faults(obj: Gauge | dict[str, object], old: Gauge | dict[str, object] | None = None) -> list[str]:
    return [str(fault) for fault in Gauge.validate(obj, old)]


def test_a_valid_object_has_no_faults() -> None:
    assert faults(Gauge(range=Range())) == []


def test_constraints_and_rules_are_checked_and_reported_as_by_the_api_server() -> None:
    too_high = "range.high: Invalid value: 200: range.high in body should be less than or equal to 100"
    assert faults(Gauge(range=Range(high=200))) == [too_high]
    [broken] = faults(Gauge(range=Range(low=11)))
    assert broken.startswith("range: Invalid value:")
    assert broken.endswith(": low is above high")


def test_a_plain_document_is_validated_with_defaults_and_not_modified() -> None:
    document: dict[str, object] = {"range": {"low": 11}, "unknown": 1}
    assert len(faults(document)) == 1
    assert document == {"range": {"low": 11}, "unknown": 1}
    assert faults({})[0] == "range: Required value"


def test_an_update_is_validated_against_the_previous_object() -> None:
    old = Gauge(range=Range(high=200))
    assert faults(Gauge(range=Range(high=200)), old) == []
    assert faults(Gauge(range=Range(), unit="ft"), old) == ['unit: Invalid value: "ft": a gauge keeps its unit']


class Costly(Model):
    names: Annotated[list[str], XValidation("self.all(a, self.all(b, a.contains(b)))")]


class Wrong(Model):
    size: Annotated[int, XValidation("self.foo > 1")]


class Faulty(Model):
    parts: list[Annotated[str, Pattern("(")]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Wrong, r"Thing\.spec\.size\.x-kubernetes-validations\[0\]\.rule: Invalid value: .*compilation failed"),
        (Costly, r"Thing\.spec\.names\.x-kubernetes-validations\[0\]\.rule: Forbidden: estimated rule cost exceeds"),
        (Faulty, r"Thing\.spec\.parts\[\]\.pattern: .* must be a valid regular expression"),
    ],
)
def test_a_kind_that_an_api_server_would_reject_is_rejected_with_the_field(spec: type[Model], message: str) -> None:
    thing = type(CustomResource)(
        "Thing",
        (CustomResource,),
        {"__annotations__": {"spec": spec}, "__module__": __name__},
        group="example.com",
        version="v1",
    )
    with pytest.raises(ModelError, match=message):
        custom_resource_definition(thing)
    with pytest.raises(ModelError, match=message):
        thing.validate({"spec": {}})


def test_a_selectable_field_must_exist_and_be_a_scalar() -> None:
    class Thing(CustomResource, group="example.com", version="v1", selectable_fields=[".name"]):
        name: list[str]

    with pytest.raises(ModelError, match=r'Thing: the selectable field ".name" is not a field of type str'):
        custom_resource_definition(Thing)


def test_a_rule_with_the_python_name_of_a_field_names_the_one_on_the_wire() -> None:
    class Sized(Model, markers=[m.XValidation("self.max_size > 1")]):
        max_size: int = 2

    class Thing(CustomResource, group="example.com", version="v1"):
        spec: Sized

    with pytest.raises(ModelError, match="Rules use the names on the wire: maxSize"):
        custom_resource_definition(Thing)
