"""The programs on the pages: type checkers accept them in strict mode, they load, and their tests pass."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from docs.snippets import ROOT, Program, loaded, programs
from kubewright.models import custom_resource_definitions, kinds_of
from kubewright.testing import Cluster

PROGRAMS = programs()
WITH_TESTS = [(program, name) for program in PROGRAMS for name in program.tests]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the programs to files."""
    folder = tmp_path_factory.mktemp("pages")
    for each in PROGRAMS:
        (folder / f"{each.name}.py").write_text(each.source)
    settings = {
        "include": ["."],
        "extraPaths": [*map(str, ROOT.glob("packages/*/src")), str(ROOT / "examples/webserver-operator/src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\npython_version = 3.11\nmypy_path = {':'.join(settings['extraPaths'])}\n"
    )
    return folder


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["mypy", "--config-file", "mypy.ini", "."], id="mypy", marks=pytest.mark.long),
        pytest.param(["pyright", "--project", ".", "--pythonpath", sys.executable], id="pyright"),
    ],
)
def test_the_type_checker_accepts_the_programs_in_strict_mode(command: list[str], folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_loads_and_its_kinds_have_crds(program: Program, folder: Path) -> None:
    custom_resource_definitions(kinds_of(loaded(program, folder)))


@pytest.mark.parametrize(
    ("program", "name"), WITH_TESTS, ids=[f"{program.name}-{name}" for program, name in WITH_TESTS]
)
async def test_the_tests_of_a_program_pass(
    program: Program, name: str, folder: Path, cluster: Cluster, namespace: str
) -> None:
    test = getattr(loaded(program, folder), name)
    fixtures = {"cluster": cluster, "namespace": namespace}
    await test(**{each: fixtures[each] for each in inspect.signature(test).parameters})
