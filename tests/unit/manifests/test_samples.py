"""First samples follow the schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest

from kubewright import CustomResource, Model, field
from kubewright import markers as m
from kubewright.apis.batch.v1 import JobTemplateSpec
from kubewright.apis.meta.v1 import IntOrString
from kubewright.models import codec
from kubewright_cli.manifests.matching import example_of
from kubewright_cli.manifests.samples import invalid_samples, obsolete, planned, sample, text


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


def test_a_sample_has_required_fields_and_defaults() -> None:
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


def test_an_api_server_accepts_a_sample() -> None:
    assert Ship.validate(sample(Ship)) == []


class HarborSpec(Model):
    template: JobTemplateSpec


class Harbor(CustomResource, group="fleet.test", version="v1"):
    spec: HarborSpec


def test_a_sample_with_a_pod_template_is_accepted_also_as_its_class_sends_it() -> None:
    made = sample(Harbor)
    pod = {"spec": {"containers": [{"name": "example", "image": "nginx"}]}}
    assert made["spec"] == {"template": {"spec": {"template": pod}}}
    assert Harbor.validate(codec.from_dict(Harbor, made)) == []


class Port(CustomResource, group="fleet.test", version="v1"): ...


class OtherPort(CustomResource, group="fleet.example.com", version="v1", kind="Port"): ...


class Retired(CustomResource, group="fleet.test", version="v1alpha1", storage=False, served=False): ...


def test_each_served_version_without_a_sample_gets_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("apiVersion: fleet.test/v1\nkind: Ship\nmetadata: {name: argo}\n")
    assert list(planned([Ship, Port, Retired], tmp_path)) == ["fleet_v1_port.yaml"]
    (tmp_path / "fleet_v1_port.yaml").write_text("# nothing yet\n")
    assert planned([Ship, Port, Retired], tmp_path) == {}


def test_samples_of_equally_named_kinds_have_different_files(tmp_path: Path) -> None:
    found = planned([Ship, Port, OtherPort], tmp_path)
    assert list(found) == ["fleet_v1_ship.yaml", "fleet.test_v1_port.yaml", "fleet.example.com_v1_port.yaml"]


class S3(Model):
    bucket: Annotated[str, m.Pattern("^[a-z0-9][a-z0-9.-]{2,62}$")]


class Destination(Model, markers=[m.ExactlyOneOf("s3", "emptyDir")]):
    s3: S3 | None = None
    empty_dir: bool | None = None


class Tier(Model):
    name: str
    size: Annotated[int, m.Maximum(9)]


class BackupSpec(Model):
    schedule: Annotated[str, m.Pattern(r"^(\*|[0-9,-/*]+)( (\*|[0-9,-/*]+)){4}$")]
    contact: Annotated[str, m.Format("email")]
    plan: Annotated[str, m.Enum("Gold", "Silver")]
    code: Annotated[str, m.Pattern(r"^[A-Z]{3}-\d{4}(-[a-z]+)?$")]
    destination: Destination
    tiers: Annotated[list[Tier], m.ListType("map"), m.ListMapKey("name"), m.MinItems(2)]
    zones: Annotated[list[str], m.ListType("set"), m.MinItems(2)]


class Backup(CustomResource, group="fleet.test", version="v1"):
    spec: BackupSpec


class OddSpec(Model, markers=[m.XValidation("self.size > 41", message="must be more than 41")]):
    size: int


class Odd(CustomResource, group="fleet.test", version="v1"):
    spec: OddSpec


def test_a_sample_follows_patterns_formats_enums_and_unions() -> None:
    document = sample(Backup)
    assert Backup.validate(document) == []
    assert document["spec"]["schedule"] == "0 0 * * *"
    assert document["spec"]["contact"] == "user@example.com"
    assert document["spec"]["plan"] == "Gold"
    assert document["spec"]["destination"] == {"s3": {"bucket": "example"}}
    assert "TODO" not in text(Backup)


def test_a_rule_that_a_sample_cannot_follow_is_marked() -> None:
    assert "# TODO: spec: Invalid value: must be more than 41\n" in text(Odd)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{3}-\d{4}$",
        r"^(?:ab|cd)+[^a-z]x?$",
        r"^\w{5,}\.[[:alpha:]]+$",
        r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
        r"^arn:aws:iam::\d{12}:role/[\w+=,.@-]+$",
    ],
)
def test_a_text_for_a_pattern_matches_it(pattern: str) -> None:
    assert re.search(pattern.replace("[[:alpha:]]", "[a-z]"), example_of(pattern, 12))


def test_a_sample_is_updated_until_it_is_edited(tmp_path: Path) -> None:
    (first,) = planned([Odd], tmp_path).items()
    (tmp_path / first[0]).write_text(first[1])
    assert planned([Odd], tmp_path) == dict([first])
    assert list(invalid_samples([Odd], tmp_path)) == []

    class OtherSpec(Model):
        weight: int

    class Changed(CustomResource, group="fleet.test", version="v1", kind="Odd"):
        spec: OtherSpec

    assert "weight: 1" in planned([Changed], tmp_path)[first[0]]
    assert obsolete([Ship], tmp_path) == [first[0]]
    (tmp_path / first[0]).write_text(first[1].replace("size: 1", "size: 50"))
    assert planned([Changed], tmp_path) == {}
    assert obsolete([Ship], tmp_path) == []
    assert list(invalid_samples([Odd], tmp_path)) == []
    found = [str(each) for each in invalid_samples([Changed], tmp_path)]
    assert found == [
        f"config/samples/{first[0]} no longer fits Odd: spec.size: unknown field; edit the sample",
        f"config/samples/{first[0]} no longer fits Odd: spec.weight: Required value; edit the sample",
    ]
