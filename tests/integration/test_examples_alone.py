"""Each example alone: its folder is copied out of this repository and installed, as by a user who starts from it.

Its environment has only Kubewright's wheel and the requirements in its pyproject.toml. Each example has its own
`make lint` and `make test`, so `make test` of this repository runs the examples' tests here.

What every example names is installed once. `make test-long` installs everything for each example, and runs its tests
with a thousand objects, too.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import pytest

from integration.installed import Installed, NoIndex
from integration.making import files, make
from integration.nodeports import on_its_node_port
from once import made_once

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(project.parent for project in ROOT.glob("examples/*/pyproject.toml"))
FEWER = "-k 'not thousand'"
"""Excludes the tests with a thousand objects."""
each_example = pytest.mark.parametrize(
    "example", [pytest.param(each, id=each.name, marks=on_its_node_port(each / "README.md")) for each in EXAMPLES]
)


def requirements(example: Path) -> set[str]:
    """Return the requirements of an example and its tests, from its pyproject.toml."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    return {*project["dependencies"], *project["optional-dependencies"]["dev"]}


@pytest.fixture(scope="session")
def installed(kubewright_target: str, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Kubewright, and what every example names. What only some name, they have to install themselves."""
    if kubewright_target != "embedded":
        pytest.skip("the examples' tests run there as they are here; one control plane is enough for this test")
    with made_once(tmp_path_factory, "installed") as (folder, is_made):
        found = Installed(folder)
        if not is_made:
            install(found, set.intersection(*map(requirements, EXAMPLES)))
    return found


def install(into: Installed, wanted: set[str]) -> None:
    try:
        into.make(wanted)
    except NoIndex:
        pytest.skip("needs a package index, to install what the examples need")


@pytest.mark.timeout(1800)
@each_example
def test_an_example_that_is_copied_out_installs_and_passes_its_own_checks_and_tests(
    example: Path, installed: Installed, tmp_path: Path
) -> None:
    copy = copied(example, tmp_path)
    before = files(copy)
    installed.below(copy / ".venv")
    own = {"PATH": without_tools(os.environ["PATH"]), "PIP_NO_COMPILE": "1"}
    make("setup", copy, **own)
    assert "everything is up to date" in make("lint", copy, **own)
    said = make("test", copy, f"ARGS={FEWER}", **own)
    assert "0 errors" in said  # pyright's
    assert " passed" in said
    shutil.rmtree(copy / ".venv")
    assert files(copy) == before


@pytest.mark.long
@pytest.mark.timeout(1800)
@each_example
def test_an_example_needs_only_what_it_names(example: Path, kubewright_target: str, tmp_path: Path) -> None:
    if kubewright_target != "embedded":
        pytest.skip("this is seen on one control plane")
    copy = copied(example, tmp_path)
    install(Installed(copy / ".venv"), set())
    own = {"PATH": without_tools(os.environ["PATH"]), "PIP_NO_COMPILE": "1"}
    make("setup", copy, **own)
    assert " passed" in make("test", copy, **own)


def copied(example: Path, folder: Path) -> Path:
    copy = folder / example.name
    shutil.copytree(example, copy, ignore=shutil.ignore_patterns(".*cache", "__pycache__", ".venv", ".kubewright"))
    return copy


def without_tools(path: str) -> str:
    """Return the PATH without this environment, so that a Makefile does not use its tools."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if not (Path(each) / "kubewright").exists())
