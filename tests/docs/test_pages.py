"""What the pages say is so: links resolve, code runs, commands and targets exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "designs/*.md", "examples/*/*.md")
    for page in ROOT.glob(pattern)
    if ".venv" not in page.parts
)


def by_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_to_a_file_resolves(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s,#]+)(?:#[^)]*)?\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_python_block_runs(page: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", f"__name__ = 'page'\n{block}"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "examples/webserver-operator/src")},
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_make_target_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", page.read_text(), flags=re.M))
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert named - known - {"sure"} == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_command_of_ours_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^    |`)kubewright ([a-z]+)", page.read_text(), flags=re.M))
    for command in named:
        done = subprocess.run(
            [Path(sys.executable).with_name("kubewright"), command, "--help"], capture_output=True, text=True
        )
        assert done.returncode == 0, f"kubewright {command}: {done.stderr}"
