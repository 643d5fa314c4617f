"""Each example alone: its folder is copied out of this repository and installed, as by a user who starts from it.

Its environment has only Kubewright's wheel and the requirements in its pyproject.toml, and its own `make lint` and
`make test` pass there. `make test` of this repository sees this of one example; it runs the tests of the others in its
own environment.

`make test-long` sees it of each.
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
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
SAMPLE = "webserver-operator"


def marks(example: Path) -> list[pytest.MarkDecorator]:
    own = on_its_node_port(example / "README.md")
    return [own] if example.name == SAMPLE else [own, pytest.mark.long]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("example", [pytest.param(each, id=each.name, marks=marks(each)) for each in EXAMPLES])
def test_an_example_that_is_copied_out_installs_and_passes_its_own_checks_and_tests(
    example: Path, kubewright_target: str, tmp_path: Path
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("the examples' tests run there as they are here; one control plane is enough for this test")
    copy = copied(example, tmp_path)
    before = files(copy)
    install_kubewright(copy / ".venv", tmp_path / "wheels")
    own = {"PATH": without_tools(os.environ["PATH"]), "PIP_NO_COMPILE": "1"}
    make("setup", copy, **own)
    assert "everything is up to date" in make("lint", copy, **own)
    said = make("test", copy, "ARGS=-k 'not thousand'", **own)
    assert "0 errors" in said  # pyright's
    assert " passed" in said
    shutil.rmtree(copy / ".venv")
    assert files(copy) == before


def install_kubewright(environment: Path, wheels: Path) -> None:
    """Create a virtual environment with Kubewright's wheels, without this checkout."""
    if not run(sys.executable, *PIP, "download", "--no-deps", "--dest", wheels, "hatchling"):
        pytest.skip("needs a package index, to install what the example needs")
    assert run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", wheels, *ROOT.glob("packages/*"))
    assert run(Path(sys.base_prefix, "bin", "python3"), "-m", "venv", environment)
    pip = (environment / "bin/python", *PIP, "install", "--no-compile", "--find-links", wheels)
    assert run(*pip, *wheels.glob("kubewright*"))


def run(*command: str | Path) -> bool:
    return subprocess.run(command, check=False).returncode == 0


def copied(example: Path, folder: Path) -> Path:
    copy = folder / example.name
    shutil.copytree(example, copy, ignore=shutil.ignore_patterns(".*cache", "__pycache__", ".venv", ".kubewright"))
    return copy


def without_tools(path: str) -> str:
    """Return the PATH without this environment, so that a Makefile does not use its tools."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if not (Path(each) / "kubewright").exists())
