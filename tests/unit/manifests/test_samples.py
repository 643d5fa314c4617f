"""First samples: what a schema asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kubewright import CustomResource, Model, field
from kubewright import markers as m
from kubewright.apis.meta.v1 import IntOrString
from kubewright_cli.manifests.samples import missing, sample


class Crew(Model):
    size: Annotated[int, m.Minimum(1, exclusive=True), m.MultipleOf(5)]
    nickname: str | None = None


class Spec(Model):
    port: IntOrString
    home: Annotated[str, m.MinLength(9)]
    flag: Annotated[str, m.Example("jolly roger")]
    crew: Crew
    decks: Annotated[list[str], m.MinItems(2)]
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


class Port(CustomResource, group="fleet.test", version="v1"): ...


class OtherPort(CustomResource, group="fleet.example.com", version="v1", kind="Port"): ...


class Retired(CustomResource, group="fleet.test", version="v1alpha1", storage=False, served=False): ...


def test_samples_are_made_for_what_is_served_and_has_none(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("apiVersion: fleet.test/v1\nkind: Ship\nmetadata: {name: argo}\n")
    assert list(missing([Ship, Port, Retired], tmp_path)) == ["fleet_v1_port.yaml"]
    (tmp_path / "fleet_v1_port.yaml").write_text("# nothing yet\n")
    assert missing([Ship, Port, Retired], tmp_path) == {}


def test_kinds_of_one_name_in_groups_that_begin_alike_have_samples_of_their_own(tmp_path: Path) -> None:
    found = missing([Ship, Port, OtherPort], tmp_path)
    assert list(found) == ["fleet_v1_ship.yaml", "fleet.test_v1_port.yaml", "fleet.example.com_v1_port.yaml"]
