"""The content and the requirements of the three wheels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from itertools import combinations
from pathlib import Path
from zipfile import ZipFile

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = ("kubewright", "kubewright-cli", "kubewright-controlplane")
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("wheels")]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ZipFile]]:
    """The wheels of this checkout, by the names of their distributions."""
    folder = tmp_path_factory.mktemp("wheels")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
        + [str(PACKAGES / name) for name in NAMES],
        capture_output=True,
        text=True,
    )
    if "Could not find a version that satisfies the requirement hatchling" in built.stderr:
        pytest.skip("the build backend can't be downloaded")
    assert built.returncode == 0, built.stderr
    opened = {path.name.split("-")[0].replace("_", "-"): ZipFile(path) for path in folder.glob("*.whl")}
    yield opened
    for each in opened.values():
        each.close()


def files(wheel: ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: ZipFile) -> Message:
    name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def requirements(wheel: ZipFile) -> list[str]:
    """Return what the wheel needs without extras."""
    return [each for each in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in each]


def test_there_is_one_wheel_for_each_distribution(wheels: dict[str, ZipFile]) -> None:
    assert set(wheels) == set(NAMES)


def test_the_wheel_of_an_operator_has_no_server_kubelet_or_scaffolder(wheels: dict[str, ZipFile]) -> None:
    assert {name.split("/")[0] for name in files(wheels["kubewright"])} == {"kubewright"}
    folders = {part for name in files(wheels["kubewright"]) for part in name.split("/")[:-1]}
    assert not folders & {"apiserver", "controlplane", "schema", "kubelet", "scheduler", "cli", "codegen", "templates"}


def test_the_dependencies_of_an_operator_bring_neither(wheels: dict[str, ZipFile]) -> None:
    needed = {name.partition(";")[0].strip(" <>=!~.0123456789").lower() for name in requirements(wheels["kubewright"])}
    assert needed == {"msgspec", "httptools", "uvloop", "pyyaml", "prometheus-client"}


def test_no_file_is_in_two_wheels(wheels: dict[str, ZipFile]) -> None:
    for one, other in combinations(wheels.values(), 2):
        assert not files(one) & files(other)


def test_the_versions_agree(wheels: dict[str, ZipFile]) -> None:
    versions = {metadata(wheel)["Version"] for wheel in wheels.values()}
    assert len(versions) == 1
    version = versions.pop()
    own = [each for wheel in wheels.values() for each in requirements(wheel) if each.startswith("kubewright")]
    assert own
    assert all(each.endswith(f"=={version}") for each in own), own


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_is_complete(wheels: dict[str, ZipFile], name: str) -> None:
    wheel = wheels[name]
    assert f"{name.replace('-', '_')}/py.typed" in files(wheel)
    licenses = [each for each in wheel.namelist() if each.endswith(".dist-info/licenses/LICENSE")]
    assert wheel.read(licenses[0]) == (PACKAGES / name / "LICENSE").read_bytes()
    found = metadata(wheel)
    assert found["Name"] == name
    assert found["Summary"]
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert (PACKAGES / name / "README.md").read_text().strip() in found.get_payload()


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("kubewright", []),
        ("kubewright-cli", ["kubewright"]),
        ("kubewright-controlplane", ["kubewright-controlplane"]),
    ],
)
def test_a_wheel_installs_its_command(wheels: dict[str, ZipFile], name: str, commands: list[str]) -> None:
    wheel = wheels[name]
    lists = [wheel.read(each).decode() for each in wheel.namelist() if each.endswith(".dist-info/entry_points.txt")]
    scripts = lists[0].partition("[console_scripts]\n")[2] if lists else ""
    assert [line.partition(" = ")[0] for line in scripts.splitlines() if " = " in line] == commands
