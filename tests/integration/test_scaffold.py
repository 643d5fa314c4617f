"""A project from `kubewright init` and `create` works without an edit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from images import write_base, write_wheel
from integration import forked
from integration.command import COMMAND, run
from integration.making import files, make

ROOT = Path(__file__).parents[2]
PROJECTS = ROOT / "tests/golden/projects"
FORMS = (pytest.param("minimal", marks=pytest.mark.long), "full")
"""The tutorial checks, tests and deploys a project of the minimal form."""
TARGETS = (
    "help", "manifests", "generate", "fmt", "vet", "test", "test-e2e", "lint", "lint-fix", "build", "run",
    "docker-build", "docker-push", "docker-buildx", "build-installer", "install", "uninstall", "deploy", "undeploy",
)  # fmt: skip
"""Kubebuilder's targets, except those that fetch tools and set up Kind."""


@pytest.mark.parametrize("form", FORMS)
def test_a_fresh_project_passes_its_own_checks_and_tests_and_they_change_nothing(
    form: str, kubewright_target: str, tmp_path: Path
) -> None:
    project = tmp_path / form
    shutil.copytree(PROJECTS / form, project)
    assert "everything is up to date" in make("lint", project)
    said = make("test", project, f"TARGET={kubewright_target}")
    assert "everything is up to date" in said
    assert "0 errors" in said  # pyright's
    assert " passed" in said
    assert files(project) == files(PROJECTS / form)


@pytest.mark.parametrize("form", FORMS)
def test_a_fresh_project_is_deployed_and_works(form: str, tmp_path: Path) -> None:
    project = tmp_path / form
    shutil.copytree(PROJECTS / form, project)
    assert "1 passed" in make("test-e2e", project, "--assume-old=vet")  # the test above checks its types


def test_a_project_without_a_kind_passes_them_too(tmp_path: Path) -> None:
    status, said = run("init", "--domain", "my.domain", "--project-name", "empty", folder=tmp_path)
    assert status == 0, said
    assert "1 passed" in make("test", tmp_path, "--assume-old=vet")  # the test above checks the types


def test_the_test_of_a_conversion_passes_when_a_version_is_no_longer_served(tmp_path: Path) -> None:
    def kubewright(*arguments: str) -> None:
        status, said = run(*arguments, folder=tmp_path)
        assert status == 0, said

    kubewright("init", "--domain", "my.domain", "--project-name", "web")
    for each in ("v1", "v2"):
        kubewright("create", "api", "--version", each, "--kind", "Tenant")
    kubewright("create", "webhook", "--kind", "Tenant", "--conversion")
    types = tmp_path / "src/web/api/v2/tenant.py"
    types.write_text(types.read_text().replace("storage=False", "storage=False, served=False"))
    kubewright("generate")
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_tenant_conversion.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_an_image_is_made_of_a_fresh_project_without_a_container_engine(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECTS / "minimal", project)
    write_base(tmp_path / "base", python="3.12")
    write_wheel(project / "wheels", "kubewright", version("kubewright"), "")
    command = [COMMAND, "image", "build", "--base", f"oci:{tmp_path / 'base'}"]
    alone = {"HOME": str(tmp_path), "PIP_NO_INDEX": "1", "UV_NO_INDEX": "1"}
    done = forked.run(*command, folder=project, environment=os.environ | alone)
    assert done.returncode == 0, done.stderr
    assert "docker.io/library/webserver-operator:latest (sha256:" in done.stdout


def test_make_finds_the_environment_that_is_active_or_there_or_on_the_path(tmp_path: Path) -> None:
    shutil.copytree(PROJECTS / "minimal", tmp_path, dirs_exist_ok=True)
    environment, tools = tmp_path / "elsewhere", Path(sys.executable).parents[1]

    def used(**variables: str) -> str:
        return make("manifests", tmp_path, "-n", **variables)

    (environment / "bin").mkdir(parents=True)
    (environment / "bin/kubewright").touch(mode=0o755)
    assert "python3 -m venv .venv" in used(PATH="/usr/bin:/bin")
    assert f"{tools}/bin/kubewright generate" in used(PATH=f"{tools}/bin:/usr/bin:/bin")
    assert "python3 -m venv .venv" in used(PATH=f"{environment}/bin:/usr/bin:/bin")  # it has no tools
    (tmp_path / ".venv").symlink_to(environment)
    assert ".venv/bin/kubewright generate" in used(PATH=f"{tools}/bin:/usr/bin:/bin")
    assert f"{tools}/bin/kubewright generate" in used(PATH="/usr/bin:/bin", VIRTUAL_ENV=str(tools))


def test_the_makefile_has_the_targets_of_kubebuilder(tmp_path: Path) -> None:
    shutil.copytree(PROJECTS / "minimal", tmp_path, dirs_exist_ok=True)
    shown = make("help", tmp_path)
    assert [target for target in TARGETS if f"  {target} " not in shown] == []
    assert "docker build --tag registry/web:1 ." in make("docker-build", tmp_path, "IMG=registry/web:1", "-n")
    assert "podman push registry/web:1" in make(
        "docker-push", tmp_path, "IMG=registry/web:1", "CONTAINER_TOOL=podman", "-n"
    )
