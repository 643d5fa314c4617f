"""docs/cli.md matches `--help`, and docs/project-files.md names the generated files."""

from __future__ import annotations

import re

from docs.snippets import ROOT

MINIMAL = ROOT / "tests/golden/projects/minimal"


def test_the_page_names_exactly_the_generated_files() -> None:
    text = (ROOT / "docs/project-files.md").read_text().partition("## Left out")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {path for row in rows for path in re.findall("`([^`]+)`", row)}
    later = {"dist/install.yaml", "dist/chart", "config/samples/my_v1_webserver.yaml"}
    later |= {path for path in named if "webhook" in path or "conversion" in path}  # of `create webhook`
    assert [path for path in sorted(named - later) if not (MINIMAL / path).exists()] == []
    files = {
        str(path.relative_to(MINIMAL)) for path in MINIMAL.rglob("*") if path.is_file() and "cache" not in str(path)
    }
    unnamed = {path for path in files if not path.endswith("__init__.py") and not path.startswith(tuple(named))}
    assert unnamed == set()


def test_the_program_has_the_stated_length() -> None:
    lines = (MINIMAL / "src/webserver_operator/main.py").read_text().splitlines()
    assert f"{len(lines)} lines" in (ROOT / "docs/project-files.md").read_text()
