"""The content and the requirements of the three wheels."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from itertools import combinations
from pathlib import Path
from zipfile import ZipFile

import pytest

from integration.wheels import NAMES, PACKAGES
from integration.wheels import wheels as wheels

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("wheels")]


@pytest.fixture(scope="module")
def opened(wheels: Path) -> Iterator[dict[str, ZipFile]]:
    """The wheels of this checkout, by the names of their distributions."""
    found = {path.name.split("-")[0].replace("_", "-"): ZipFile(path) for path in wheels.glob("kubewright*.whl")}
    yield found
    for each in found.values():
        each.close()


def files(wheel: ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: ZipFile) -> Message:
    name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def requirements(wheel: ZipFile) -> list[str]:
    """Return what the wheel needs without extras."""
    return [each for each in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in each]


def test_there_is_one_wheel_for_each_distribution(opened: dict[str, ZipFile]) -> None:
    assert set(opened) == set(NAMES)


def test_the_wheel_of_an_operator_has_no_server_kubelet_or_scaffolder(opened: dict[str, ZipFile]) -> None:
    assert {name.split("/")[0] for name in files(opened["kubewright"])} == {"kubewright"}
    folders = {part for name in files(opened["kubewright"]) for part in name.split("/")[:-1]}
    assert not folders & {"apiserver", "controlplane", "schema", "kubelet", "scheduler", "cli", "codegen", "scaffold"}


def test_the_dependencies_of_an_operator_bring_neither(opened: dict[str, ZipFile]) -> None:
    needed = {name.partition(";")[0].strip(" <>=!~.0123456789").lower() for name in requirements(opened["kubewright"])}
    assert needed == {"msgspec", "httptools", "uvloop", "pyyaml", "prometheus-client"}


def test_no_file_is_in_two_wheels(opened: dict[str, ZipFile]) -> None:
    for one, other in combinations(opened.values(), 2):
        assert not files(one) & files(other)


def test_the_versions_agree(opened: dict[str, ZipFile]) -> None:
    versions = {metadata(wheel)["Version"] for wheel in opened.values()}
    assert len(versions) == 1
    version = versions.pop()
    own = [each for wheel in opened.values() for each in requirements(wheel) if each.startswith("kubewright")]
    assert own
    assert all(each.endswith(f"=={version}") for each in own), own


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_is_complete(opened: dict[str, ZipFile], name: str) -> None:
    wheel = opened[name]
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
def test_a_wheel_installs_its_command(opened: dict[str, ZipFile], name: str, commands: list[str]) -> None:
    wheel = opened[name]
    lists = [wheel.read(each).decode() for each in wheel.namelist() if each.endswith(".dist-info/entry_points.txt")]
    scripts = lists[0].partition("[console_scripts]\n")[2] if lists else ""
    assert [line.partition(" = ")[0] for line in scripts.splitlines() if " = " in line] == commands
