"""The kinds of a project, as commands find them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PYPROJECT = '[project]\nname = "fleet"\n[tool.kubewright]\nmanager = "fleet.main:manager"\n'
MAIN = """
from kubewright import Context, Manager, controller
from fleet.api.v1.ship import Ship

@controller(Ship)
async def reconcile(ctx: Context[Ship]) -> None: ...

manager = Manager([reconcile])
"""
KIND = """
from kubewright import CustomResource

class {kind}(CustomResource, group="fleet.test", version="{version}", storage={storage}): ...
"""
SHOW = """
from kubewright_cli.project import Project
print(*(f"{kind.__api__.kind}/{kind.__api__.version}" for kind in Project.load().kinds))
"""


def project(root: Path) -> Path:
    files = {
        "pyproject.toml": PYPROJECT,
        "src/fleet/__init__.py": "",
        "src/fleet/main.py": MAIN,
        "src/fleet/api/__init__.py": "",
        "src/fleet/api/v1/__init__.py": "",
        "src/fleet/api/v1/ship.py": KIND.format(kind="Ship", version="v1", storage=True),
        "src/fleet/api/v1/port.py": KIND.format(kind="Port", version="v1", storage=True),
        "src/fleet/api/v2/__init__.py": "from fleet.api.v1.ship import Ship\n",
        "src/fleet/api/v2/ship.py": KIND.format(kind="Ship", version="v2", storage=False),
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def kinds(root: Path) -> str:
    done = subprocess.run([sys.executable, "-c", SHOW], cwd=root, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_all_versions_in_the_api_package_are_kinds_of_the_project(
    tmp_path: Path,
) -> None:
    assert kinds(project(tmp_path)) == "Port/v1 Ship/v1 Ship/v2"


def test_without_an_api_package_the_kinds_are_those_of_the_controllers(tmp_path: Path) -> None:
    (project(tmp_path) / "src/fleet/api").rename(tmp_path / "src/fleet/types")
    main = tmp_path / "src/fleet/main.py"
    main.write_text(MAIN.replace("fleet.api", "fleet.types"))
    assert kinds(tmp_path) == "Ship/v1"


def test_a_module_of_the_api_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    broken = project(tmp_path) / "src/fleet/api/v2/ship.py"
    broken.write_text("\nimport nowhere\n")
    assert f"{broken}, line 2: ModuleNotFoundError: No module named 'nowhere'" in kinds(tmp_path)


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("from kubewright import markers as m\nm.Minimun(1)\n", "Minimum"),
        ("from kubewright import Contxt\n", "Context"),
        ("from kubewright.apis.apps.v1 import Deploymnt\n", "Deployment"),
    ],
)
def test_a_misspelled_name_is_reported_with_the_one_that_was_probably_meant(
    tmp_path: Path, code: str, meant: str
) -> None:
    (project(tmp_path) / "src/fleet/api/v1/port.py").write_text(code)
    assert f"; did you mean '{meant}'? (on import of " in kinds(tmp_path)


def test_the_excerpt_of_an_expression_has_its_own_lines(tmp_path: Path) -> None:
    code = (
        "from kubewright.apis.core.v1 import ConfigMap\n"
        "from kubewright.policies import ValidatingPolicy, Validation\n"
        'ValidatingPolicy("few", ConfigMap, validations=[Validation("object.dta == {}")])\n'
    )
    (project(tmp_path) / "src/fleet/api/v1/port.py").write_text(code)
    assert kinds(tmp_path) == '(on import of "fleet.api")'  # the last line, below the caret


def test_a_kind_in_several_versions_becomes_one_definition(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("kubewright"), "generate"]
    done = subprocess.run(command, cwd=project(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in (tmp_path / "config/crd/bases").iterdir())
    assert written == ["fleet.test_ports.yaml", "fleet.test_ships.yaml"]
    ships = (tmp_path / "config/crd/bases/fleet.test_ships.yaml").read_text()
    assert ships.count("served: true") == 2
    assert ships.count("storage: true") == 1


def test_an_edit_in_the_same_second_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    source = project(tmp_path) / "src/fleet/api/v1/port.py"
    os.utime(source, (1_700_000_000, 1_700_000_000))
    assert kinds(tmp_path) == "Port/v1 Ship/v1 Ship/v2"
    source.write_text(KIND.format(kind="Dock", version="v1", storage=True))
    os.utime(source, (1_700_000_000, 1_700_000_000))
    assert kinds(tmp_path) == "Dock/v1 Ship/v1 Ship/v2"
