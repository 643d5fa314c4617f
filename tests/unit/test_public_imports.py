"""What users copy imports public modules only: the examples, the pages, the templates of projects, generated code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "examples/**/*.py",
    "packages/*/README.md",
    "packages/kubewright-cli/src/kubewright_cli/templates/**/*.j2",
    "tests/golden/**/*.py",
)
PRIVATE_IMPORT = re.compile(r"\s*((from|import)\s+kubewright[\w.]*\._|from\s+kubewright[\w.]*\s+import\s.*\b_\w)")


def test_what_users_copy_imports_no_private_module() -> None:
    paths = sorted({path for pattern in COPIED for path in ROOT.glob(pattern) if ".venv" not in path.parts})
    assert len(paths) > 100
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PRIVATE_IMPORT.match(line)
    ]
    assert not found, "import the name from its package, and export it there if authors of operators need it:\n" + (
        "\n".join(found)
    )
