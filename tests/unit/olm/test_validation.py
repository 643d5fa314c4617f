"""Bundles and catalogs with one mistake each: Kubewright finds what Go's validators find, and says what to do.

The answers of Go are recorded in `outcomes.json`. `tests/clients/test_olm.py` asks Go again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubewright_cli.main import cli
from kubewright_cli.olm.semver import Range, Version
from kubewright_cli.olm.validation import validate_bundle, validate_catalog
from unit.olm.cases import BUNDLES, CATALOGS, CSV, GO, GOLDEN, catalog_differences, differences, golden, outcomes, write
from unit.olm.cases import validated as validated

ALL = [("bundle", name) for name in BUNDLES] + [("catalog", name) for name in CATALOGS]


@pytest.mark.parametrize(("what", "name"), ALL)
def test_findings_are_those_of_the_validators_in_go(what: str, name: str, tmp_path: Path) -> None:
    found = validated(what, name, tmp_path)
    compare = differences if what == "bundle" else catalog_differences
    assert not compare(found, outcomes()[what][name])
    assert {each.rule for each in found} == (BUNDLES if what == "bundle" else CATALOGS)[name].rules
    assert all(each.problem and each.remedy for each in found)


def test_each_rule_has_a_bundle_or_a_catalog_that_breaks_it() -> None:
    broken = {rule for cases in (BUNDLES, CATALOGS) for case in cases.values() for rule in case.rules}
    assert broken == set(GO)


@pytest.mark.parametrize("bundle", ["full/bundle", "minimal/bundle", "namespaced/bundle", "full/bundles/1.1.0"])
def test_a_generated_bundle_breaks_no_rule_but_those_about_settings(bundle: str) -> None:
    found = validate_bundle(GOLDEN / bundle, ["all"])
    assert {each.rule for each in found} <= {"provider", "icon-missing"}


def test_a_generated_catalog_is_valid() -> None:
    assert not validate_catalog(GOLDEN / "full/catalog")


def test_a_finding_names_file_field_and_value(tmp_path: Path) -> None:
    files = golden()
    files[CSV]["spec"]["minKubeVersion"] = "1.30"
    write(files, tmp_path)
    done = CliRunner().invoke(cli, ["bundle", "validate", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output == f'Error: {CSV}: spec.minKubeVersion "1.30": not a semantic version; write one like "1.30.0"\n'


def test_findings_are_printed_as_json(tmp_path: Path) -> None:
    files = golden()
    del files[CSV]["spec"]["icon"]
    write(files, tmp_path)
    done = CliRunner().invoke(cli, ["bundle", "validate", str(tmp_path), "--suite", "operatorhub", "-o", "json"])
    printed = json.loads(done.output)
    assert done.exit_code == 0, "a warning does not fail"
    assert printed["valid"]
    assert [(each["level"], each["rule"], each["suite"]) for each in printed["findings"]] == [
        ("warning", "icon-missing", "operatorhubv2")
    ]


def test_a_folder_that_does_not_exist_is_named() -> None:
    for command in ("bundle", "catalog"):
        done = CliRunner().invoke(cli, [command, "validate", "nowhere"])
        assert done.exit_code == 1
        assert "there is no folder nowhere" in done.output


def test_categories_can_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = tmp_path / "categories.json"
    allowed.write_text('{"categories": ["Ships"]}')
    monkeypatch.setenv("OPERATOR_BUNDLE_CATEGORIES", str(allowed))
    found = validate_bundle(GOLDEN / "full/bundle", ["categories"])
    assert [(each.rule, each.value) for each in found] == [("categories", "Developer Tools")]


@pytest.mark.parametrize(
    ("versions", "inside", "outside"),
    [
        (">=1.0.0 <2.0.0", ["1.0.0", "1.9.9", "2.0.0-rc.1"], ["0.9.0", "2.0.0"]),
        ("<1.0.0 || >= 2.0.0", ["0.1.0", "2.0.0"], ["1.0.0", "1.5.0"]),
        ("1.2.x", ["1.2.0", "1.2.9"], ["1.3.0"]),
        (">1.x !2.1.0", ["2.0.0", "3.0.0"], ["1.9.0", "2.1.0"]),
    ],
)
def test_a_range_contains_versions(versions: str, inside: list[str], outside: list[str]) -> None:
    found = Range.parse(versions)
    assert all(Version.parse(each) in found for each in inside)
    assert not any(Version.parse(each) in found for each in outside)
