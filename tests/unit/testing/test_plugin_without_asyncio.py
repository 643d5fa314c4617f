"""The pytest plugin where pytest-asyncio is not installed, as for users of synchronous clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec

class Hiding:
    def __call__(self, name, *rest):
        return None if name == "pytest_asyncio" else find(name, *rest)

PathFinder.find_spec = Hiding()

import pytest
sys.exit(pytest.main(["-q", "-p", "no:asyncio", "-p", "no:cacheprovider", "test_it.py"]))
"""


def run(folder: Path, test: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(test)
    done = subprocess.run([sys.executable, "-c", RUN], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_kubeconfig_fixture_needs_no_asyncio(tmp_path: Path) -> None:
    status, output = run(tmp_path, "def test_it(kubewright_kubeconfig):\n    assert kubewright_kubeconfig.is_file()\n")
    assert status == 0, output


def test_an_asynchronous_fixture_says_what_to_install(tmp_path: Path) -> None:
    status, output = run(tmp_path, "def test_it(cluster):\n    pass\n")
    assert status == 1
    assert "the fixture cluster needs pytest-asyncio, which is not installed" in output
