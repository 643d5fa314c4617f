"""The package on docs/packages.md is valid, and asks for nothing that the page does not show."""

from __future__ import annotations

import re
from pathlib import Path

from docs.snippets import ROOT
from kubewright.packages import Package, verify
from kudo.files import write_package

PAGE = (ROOT / "docs/packages.md").read_text()
FILE = re.compile(r"^`web/([^`]+)`[^\n]*\n\n```yaml\n(.*?)```", re.MULTILINE | re.DOTALL)


def test_the_first_package_is_valid(tmp_path: Path) -> None:
    files = dict(FILE.findall(PAGE))
    assert list(files) == ["operator.yaml", "params.yaml", "templates/server.yaml"]
    package = Package.load(write_package(tmp_path / "web", files))
    assert verify(package) == []
    assert [each.name for each in package.params.parameters] == ["REPLICAS"]
