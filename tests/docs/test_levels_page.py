"""docs/levels.md lists all claims and all fields of a declaration."""

from __future__ import annotations

import re
from dataclasses import fields

from docs.snippets import ROOT
from kubewright.testing.levels import CLAIMS, Declaration

PAGE = (ROOT / "docs/levels.md").read_text()


def first_column(header: str) -> list[str]:
    table = PAGE.partition(f"\n| {header} |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_claim_is_in_the_table_with_its_experiment() -> None:
    assert sorted(first_column("claim")) == sorted(each.id for each in CLAIMS)


def test_every_field_of_a_declaration_is_in_the_table() -> None:
    assert first_column("field") == [each.name for each in fields(Declaration)]
