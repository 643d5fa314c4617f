"""The validators of OLM's Go modules, asked about the bundles and catalogs of `unit/olm`.

The program is in `olm/`. The tests build it, and are skipped without Go. Building it takes minutes the first time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clients.goprograms import BUILD_SECONDS, go_program
from unit.olm.cases import ask, catalog_differences, differences, validated

SOURCE = Path(__file__).with_name("olm")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found"),
    pytest.mark.timeout(2 * BUILD_SECONDS + 300),
]


def test_go_says_the_same_about_every_bundle_and_catalog(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    answers = ask(go_program(tmp_path_factory, SOURCE), tmp_path / "asked")
    found: dict[str, list[str]] = {}
    for what, compare in (("bundle", differences), ("catalog", catalog_differences)):
        for place, (name, outcome) in enumerate(answers[what].items()):
            findings = validated(what, name, tmp_path / f"{what}{place}")
            if different := compare(findings, outcome):
                found[f"{what}: {name}"] = different
    assert not found
