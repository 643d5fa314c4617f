"""What the pages say is so: links resolve, commands and targets exist. Their code: `test_snippets`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.snippets import PAGES, ROOT, by_name


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_to_a_file_resolves(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s,#]+)(?:#[^)]*)?\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


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
