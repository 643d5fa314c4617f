"""Each example alone: its folder copied out of here and installed, as somebody would who starts from it.

Nothing but Kubewright's wheel and what its own pyproject.toml names is in its environment, and `make lint` and
`make test` are its own. So this is where `make test` of this repository runs the examples' tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.making import files, make
from integration.nodeports import on_its_node_port

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(project.parent for project in ROOT.glob("examples/*/pyproject.toml"))
PYTHON = Path(sys.base_prefix, "bin", "python3")
PIP = ("pip", "--quiet", "--disable-pip-version-check")


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubewright as it is installed from an index, which the examples' other requirements come from, too."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", *PIP)
    reached = subprocess.run([*pip, "download", "--no-deps", "--dest", folder, "hatchling"], check=False)
    if reached.returncode != 0:
        pytest.skip("needs a package index, to install what the examples need")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("kubewright-*.whl"))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "example", [pytest.param(each, id=each.name, marks=on_its_node_port(each / "README.md")) for each in EXAMPLES]
)
def test_an_example_that_is_copied_out_installs_and_passes_its_own_checks_and_tests(
    example: Path, wheel: Path, tmp_path: Path, kubewright_target: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("its tests run there as they lie here; that it stands alone is seen on one control plane")
    copy = tmp_path / example.name
    shutil.copytree(example, copy, ignore=shutil.ignore_patterns(".*cache", "__pycache__", ".venv", ".kubewright"))
    before = files(copy)
    venv = copy / ".venv"
    run(PYTHON, "-m", "venv", venv)
    run(venv / "bin/python", "-m", *PIP, "install", "--no-compile", wheel)
    own = {"PATH": without_tools(os.environ["PATH"]), "PIP_NO_COMPILE": "1"}
    make("setup", copy, **own)
    assert "everything is up to date" in make("lint", copy, **own)
    said = make("test", copy, **own)
    assert "0 errors" in said  # pyright's
    assert " passed" in said
    shutil.rmtree(venv)
    assert files(copy) == before


def without_tools(path: str) -> str:
    """The PATH without this environment: a Makefile would take its tools from there."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if not (Path(each) / "kubewright").exists())
