"""Each example alone: its folder is copied out of this repository and installed, as by a user who starts from it.

Its environment has only Kubewright's wheels and the requirements in its pyproject.toml. `make test-long` runs each
example's own `make lint` and `make test` there, `make test` only some tests of one example.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.command import environment
from integration.making import files, make
from integration.nodeports import on_its_node_port
from integration.wheels import wheels as wheels

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(project.parent for project in ROOT.glob("examples/*/pyproject.toml"))
SAMPLE = "webserver-operator"


def test_a_copy_of_an_example_needs_only_the_requirements_that_it_names(wheels: Path, tmp_path: Path) -> None:
    copy = copied(ROOT / "examples" / SAMPLE, tmp_path)
    install(tmp_path / "environment", wheels, copy, "kubewright[dev]")
    command = (tmp_path / "environment/bin/python", "-m", "pytest", "-q", "tests/test_manifests.py")
    done = subprocess.run(command, cwd=copy, env=environment(None), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "example", [pytest.param(each, id=each.name, marks=on_its_node_port(each / "README.md")) for each in EXAMPLES]
)
def test_an_example_that_is_copied_out_installs_and_passes_its_own_checks_and_tests(
    example: Path, kubewright_target: str, wheels: Path, tmp_path: Path
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("the examples' tests run there as they are here; one control plane is enough for this test")
    copy = copied(example, tmp_path)
    before = files(copy)
    install(copy / ".venv", wheels, "pip", *wheels.glob("kubewright*"))
    own = {"PATH": without_tools(os.environ["PATH"]), "PIP_NO_COMPILE": "1"}
    make("setup", copy, **own)
    assert "everything is up to date" in make("lint", copy, **own)
    said = make("test", copy, "ARGS=-k 'not thousand'", **own)
    assert "0 errors" in said  # pyright's
    assert " passed" in said
    shutil.rmtree(copy / ".venv")
    assert files(copy) == before


def install(folder: Path, wheels: Path, *requirements: str | Path) -> None:
    """Create a virtual environment without this checkout, and install Kubewright's wheels and other requirements."""
    subprocess.run([Path(sys.base_prefix, "bin", "python3"), "-m", "venv", "--without-pip", folder], check=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", folder / "bin/python")
    subprocess.run([*pip, "install", "--no-compile", "--find-links", wheels, *requirements], check=True)


def copied(example: Path, folder: Path) -> Path:
    copy = folder / example.name
    shutil.copytree(example, copy, ignore=shutil.ignore_patterns(".*cache", "__pycache__", ".venv", ".kubewright"))
    return copy


def without_tools(path: str) -> str:
    """Return the PATH without this environment, so that a Makefile does not use its tools."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if not (Path(each) / "kubewright").exists())
