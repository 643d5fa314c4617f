"""First samples: what a schema asks for."""

from __future__ import annotations

from typing import Annotated

from kubewright import CustomResource, Example, Minimum, MinItems, MinLength, Model, MultipleOf, field
from kubewright.manifests.samples import sample
from kubewright.models.meta import IntOrString


class Crew(Model):
    size: Annotated[int, Minimum(1, exclusive=True), MultipleOf(5)]
    nickname: str | None = None


class Spec(Model):
    port: IntOrString
    home: Annotated[str, MinLength(9)]
    flag: Annotated[str, Example("jolly roger")]
    crew: Crew
    decks: Annotated[list[str], MinItems(2)]
    afloat: bool
    sails: int = 3


class Status(Model):
    speed: int = 0


class Ship(CustomResource, group="fleet.test", version="v1"):
    spec: Spec
    status: Status = field(default_factory=Status)


def test_a_sample_has_what_must_be_there_and_what_has_a_default() -> None:
    assert sample(Ship) == {
        "apiVersion": "fleet.test/v1",
        "kind": "Ship",
        "metadata": {"name": "ship-sample"},
        "spec": {
            "port": 80,
            "home": "example--",
            "flag": "jolly roger",
            "crew": {"size": 5},
            "decks": ["example", "example"],
            "afloat": False,
            "sails": 3,
        },
    }


def test_an_api_server_takes_a_sample_as_it_stands() -> None:
    assert Ship.validate(sample(Ship)) == []
