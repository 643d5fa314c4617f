"""The lock of what CI installs: it has every requirement of the repository, and missing ones are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.lock import LOCK, ROOT, main, missing, name_of, requirements

PROJECT = """\
[build-system]
requires = ["hatchling"]

[project]
dependencies = ["PyYAML>=6.0", "kubewright-controlplane==0.1.0"]

[project.optional-dependencies]
tls = ["cryptography>=44"]
dev = ["kubewright[tls]"]
"""
GROUPS = """\
[dependency-groups]
docs = ["zensical==0.0.73"]
dev = [{ include-group = "docs" }, "pytest>=9"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(GROUPS)
    package = tmp_path / "packages" / "kubewright"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_the_lock_of_this_repository_has_every_requirement() -> None:
    assert missing(requirements(ROOT), (ROOT / LOCK).read_text()) == []


def test_requirements_come_from_every_project_and_leave_out_its_own(repository: Path) -> None:
    expected = ["PyYAML>=6.0", "cryptography>=44", "hatchling", "pytest>=9", "zensical==0.0.73"]
    assert requirements(repository) == expected


def test_a_requirement_that_the_lock_lacks_fails_the_check(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], repository) == 1
    lock = repository / LOCK
    lock.write_text("pyyaml==6.0.2\ncryptography==50.0.2\nhatchling==1.33.0\nzensical==0.0.73\n")
    capsys.readouterr()
    assert main(["--check"], repository) == 1
    assert capsys.readouterr().out == "requirements-dev.lock has no version for 'pytest>=9'; run `make lock`\n"
    lock.write_text(lock.read_text() + "pytest==9.1.0\n")
    assert main(["--check"], repository) == 0


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("PyYAML>=6.0", "pyyaml"),
        ("uvloop==0.23.0 ; sys_platform != 'win32'", "uvloop"),
        ("ruamel.yaml_clib", "ruamel-yaml-clib"),
        ("# a comment", ""),
    ],
)
def test_names_are_compared_as_package_indexes_compare_them(line: str, name: str) -> None:
    assert name_of(line) == name
