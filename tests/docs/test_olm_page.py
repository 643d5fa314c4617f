"""docs/olm.md lists all settings of bundles and catalogs with their defaults, and all suites."""

from __future__ import annotations

import json
import re

import msgspec

from docs.snippets import ROOT
from kubewright_cli.manifests.olmsettings import BundleSettings, CatalogSettings
from kubewright_cli.olm.validation import SUITES

PAGE = (ROOT / "docs/olm.md").read_text()


def table(header: str) -> list[list[str]]:
    """Return the rows below a header."""
    lines = PAGE.partition(f"\n| {header} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def defaults(settings: BundleSettings | CatalogSettings) -> list[tuple[str, str]]:
    found = [(each.encode_name, getattr(settings, each.name)) for each in msgspec.structs.fields(settings)]
    return [
        (key, value if isinstance(value, str) else json.dumps(value) if value is not None else "")
        for key, value in found
    ]


def test_every_setting_is_in_its_table_with_its_default() -> None:
    for header, settings in (("setting", BundleSettings()), ("catalog setting", CatalogSettings())):
        shown = [(cells[0].strip("`"), cells[1].strip("`")) for cells in table(header)]
        assert shown == [(key, "<project>" if key == "package" else value) for key, value in defaults(settings)]


def test_every_suite_is_in_the_table() -> None:
    shown = [re.sub("`", "", cells[0]) for cells in table("`--suite`")]
    assert sorted(shown) == sorted(SUITES)
