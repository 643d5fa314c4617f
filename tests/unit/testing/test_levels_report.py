"""The report of a measurement: the level that follows from the claims, JSON and HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubewright.machinery.errors import ConfigError
from kubewright.testing.levels import CLAIMS, Change, Claim, Declaration, Evidence, Level, Outcome, Report
from kubewright.testing.levels._report import level_of


def claims(**outcomes: Outcome) -> tuple[Claim, ...]:
    """Return all claims as held, but those of some levels: `II="failed"`."""
    return tuple(
        Claim(each.id, each.level, each.title, outcomes.get(each.id.partition(".")[0], "held"), "Summary.", "Do this.")
        for each in CLAIMS
    )


def report(**outcomes: Outcome) -> Report:
    found = claims(**outcomes)
    level = level_of(found)
    return Report(
        operator="store-operator",
        version="1.0.0",
        measured_at="2026-11-01T12:00:00Z",
        level=level,
        capability=level.capability,
        claims=found,
    )


@pytest.mark.parametrize(
    ("outcomes", "level"),
    [
        ({}, Level.AUTO_PILOT),
        ({"I": "failed"}, Level.NONE),
        ({"V": "missing"}, Level.DEEP_INSIGHTS),
        ({"II": "missing", "III": "held"}, Level.BASIC_INSTALL),
        ({"II": "not applicable", "IV": "failed"}, Level.FULL_LIFECYCLE),
    ],
)
def test_a_level_needs_its_claims_and_those_of_all_levels_below(outcomes: dict[str, Outcome], level: Level) -> None:
    assert level_of(claims(**outcomes)) == level


def test_the_names_of_the_levels_are_those_of_olm() -> None:
    names = [each.capability for each in Level]
    assert names == ["", "Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"]


def test_a_report_says_what_the_next_level_needs() -> None:
    found = report(III="missing", IV="failed")
    assert {each.level for each in found.missing} == {3}
    with pytest.raises(AssertionError, match=r"has level II, not III:\n- III.backup: Summary. Do this.\n- III.rolling"):
        found.require(Level.FULL_LIFECYCLE)
    found.require(Level.SEAMLESS_UPGRADES)


def test_a_report_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "levels.json"
    path.write_bytes(report(II="failed").json())
    assert Report.read(path) == report(II="failed")
    path.write_text('{"format": "kubewright.dev/levels/v1"}')
    with pytest.raises(ConfigError, match=r"levels.json: not a report of capability levels: .*; measure again"):
        Report.read(path)


def test_the_schema_describes_each_field_of_a_report() -> None:
    schema = Report.schema()
    document = msgspec.json.decode(report().json())
    assert document.keys() <= schema["$defs"]["Report"]["properties"].keys()
    assert document["claims"][0].keys() <= schema["$defs"]["Claim"]["properties"].keys()


def test_the_page_shows_all_claims_and_escapes_what_objects_say() -> None:
    found = report(II="failed")
    told = Claim("I.install", 1, "Title", "failed", "Use `<x>`", evidence=(Evidence(1.5, "saw", "<script>", "Pod/a"),))
    page = msgspec.structs.replace(found, claims=(told, *found.claims[1:])).html()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<code>&lt;x&gt;</code>" in page
    assert all(each.id in page for each in CLAIMS[7:])
    assert "Missing for level II" in page
    assert "src=" not in page
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"scaling": "spec.replicas"}, "Declaration.scaling: must be Scaling(kind, field), got 'spec.replicas'"),
        ({"changes": Change("Store", {})}, "Declaration.changes: must be a list, got Change("),
        ({"changes": ["x"]}, "Declaration.changes: must be a list of Change(kind, spec), got 'x'"),
        ({"dashboards": "*.json"}, "Declaration.dashboards: must be a list, got '*.json'; put it in [ ]"),
        ({"heals": True}, "Declaration.heals: must be an async function, got True"),
    ],
)
def test_a_declaration_of_a_wrong_type_is_rejected(mistake: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        Declaration(**mistake)
