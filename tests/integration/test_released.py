"""`kubewright generate --check --released`: the CRDs of a release and those of the program."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.command import run

EXAMPLE = Path(__file__).parents[2] / "examples/webserver-operator"
KIND = "src/webserver_operator/api/v1/webserver.py"
SAMPLE = "config/samples/my_v1_webserver.yaml"
SETTING = "[tool.kubewright]\n"
FIELD_REMOVED = "webservers.my.domain v1 spec.replicas: field removed"


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@my.domain")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project in a folder of a git repository, with the tag v1.0 and without changes since."""
    folder = tmp_path / "repository/operator"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "dist")
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    git(folder.parent, "init", "--quiet")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "--quiet", "--message=Release")
    git(folder.parent, "tag", "v1.0")
    return folder


def change(project: Path, file: str, old: str, new: str) -> None:
    path = project / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def check(project: Path, *arguments: object) -> tuple[int, str]:
    return run("generate", "--check", *arguments, folder=project)


def rename_replicas(project: Path) -> None:
    """Rename the field, and generate."""
    change(project, KIND, "\n    replicas:", "\n    count:")
    change(project, KIND, ".spec.replicas", ".spec.count")
    change(project, SAMPLE, "replicas:", "count:")
    assert run("generate", folder=project)[0] == 0


def test_a_removed_field_fails_the_check_against_a_tag_and_a_folder(project: Path, tmp_path: Path) -> None:
    assert check(project, "--released", "v1.0") == (0, "everything is up to date\n")
    shutil.copytree(project / "config/crd", tmp_path / "released")
    rename_replicas(project)
    assert check(project) == (0, "everything is up to date\n")
    for released in ("v1.0", tmp_path / "released", tmp_path / "released/bases/my.domain_webservers.yaml"):
        status, said = check(project, "--released", released)
        assert status == 1
        assert f"Breaking change: {FIELD_REMOVED}; " in said
        assert said.endswith(
            "Error: 1 change of webservers.my.domain would break users of the released CRDs; each is listed with a way "
            "out\n"
        )


def test_the_setting_names_the_release_and_json_lists_the_changes(project: Path) -> None:
    change(project, "pyproject.toml", SETTING, f'{SETTING}released = "v1.0"\n')
    assert check(project)[0] == 0
    rename_replicas(project)
    status, said = check(project, "--output", "json")
    assert status == 1
    document, _ = json.JSONDecoder().raw_decode(said)
    (found,) = document["breakingChanges"]
    assert (found["version"], found["path"], found["change"]) == ("v1", "spec.replicas", "field removed")
    assert run("generate", folder=project)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--check", "--released", "v9"), 1, '"v9" is not a file or folder, nor a revision of git'),
        (("--check", "--released=--all"), 1, '"--all" is not a file, a folder or a revision of git'),
        (("--check", "--released", "src"), 1, "no CustomResourceDefinition in src"),
        (("--released", "v1.0"), 2, "--released compares without writing; add --check"),
        (("--released", "v1.0", "chart"), 2, "put options after the command: kubewright generate chart --check"),
    ],
)
def test_a_wrong_release_is_an_error(project: Path, arguments: tuple[str, ...], status: int, message: str) -> None:
    failed, said = run("generate", *arguments, folder=project)
    assert failed == status
    assert message in said


def test_a_release_with_an_invalid_definition_is_an_error(project: Path, tmp_path: Path) -> None:
    broken = tmp_path / "crd.yaml"
    broken.write_text("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: 1\n")
    status, said = check(project, "--released", broken)
    assert status == 1
    assert "has an invalid CustomResourceDefinition" in said
