"""`kubewright create` at the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from integration import forked
from kubewright_cli.main import cli


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init", "--domain", "example.com", "--project-name", "web").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def generate(project: Path) -> str:
    """Return the errors of `kubewright generate` in a process of its own, which imports the types."""
    return forked.run(forked.COMMAND, "generate", folder=project, environment=os.environ).stderr


def create(version: str, *more: str) -> Result:
    return run("create", "api", "--version", version, "--kind", "Tenant", *more)


def test_a_second_version_copies_the_first_and_names_the_conversion(project: Path) -> None:
    assert create("v1alpha1").exit_code == 0
    first = project / "src/web/api/v1alpha1/tenant.py"
    first.write_text(
        first.read_text()
        .replace("foo: str", "quota: str")
        .replace("    columns", '    short_names=["tn"],\n    columns')
    )
    done = create("v1")
    assert done.exit_code == 0
    second = (project / "src/web/api/v1/tenant.py").read_text()
    assert "quota: str" in second
    assert '    version="v1",\n    storage=False,\n    short_names=["tn"],\n' in second
    assert "  kubewright create webhook --kind Tenant --conversion\n" in done.output
    assert (
        "To store objects in v1, make two edits: remove storage=False from the class Tenant in "
        "src/web/api/v1/tenant.py, and add storage=False to the class Tenant in src/web/api/v1alpha1/tenant.py."
        in done.output
    )
    assert generate(project) == ""
    first.write_text(first.read_text().replace("    quota", "    color: str | None = None\n    quota"))
    assert generate(project).startswith("Error: Tenant: version v1 lacks spec.color of v1alpha1")


def test_an_edited_sample_is_copied_for_another_version(project: Path) -> None:
    create("v1")
    samples = project / "config/samples"
    samples.mkdir(parents=True)
    (samples / "example_v1_tenant.yaml").write_text("apiVersion: example.com/v1\nkind: Tenant\nspec: {foo: mine}\n")
    create("v2")
    copy = (samples / "example_v2_tenant.yaml").read_text()
    assert copy == "apiVersion: example.com/v2\nkind: Tenant\nspec: {foo: mine}\n"


def test_another_version_is_in_the_group_of_the_kind(project: Path) -> None:
    create("v1", "--group", "ship")
    assert create("v2").exit_code == 0
    assert 'group="ship.example.com"' in (project / "src/web/api/v2/tenant.py").read_text()
    assert run("create", "api", "--version", "v1", "--kind", "Boat").exit_code == 0
    assert 'group="ship.example.com"' in (project / "src/web/api/v1/boat.py").read_text()


def test_types_that_cannot_be_copied_are_replaced_by_an_example(project: Path) -> None:
    create("v1alpha1")
    (project / "src/web/api/v1alpha1/tenant.py").write_text("from web.types import Tenant\n")
    done = create("v1")
    assert "the types of v1alpha1 could not be copied" in done.output
    assert "foo: str" in (project / "src/web/api/v1/tenant.py").read_text()


@pytest.mark.parametrize("group", ["core", "apps"])
def test_a_group_of_kubernetes_points_at_create_controller(group: str) -> None:
    done = run("create", "api", "--group", group, "--version", "v1", "--kind", "Tenant", "--controller=false")
    assert f'"{group}" is an API group of Kubernetes' in done.output
    assert f"kubewright create controller --group {group} --version v1 --kind Tenant" in done.output


@pytest.mark.parametrize(
    ("group", "remedy"), [("cache.example.com", "pass --group cache"), ("example.com", "omit --group")]
)
def test_a_group_that_ends_with_the_domain_is_refused(project: Path, group: str, remedy: str) -> None:
    done = create("v1", "--group", group)
    assert done.exit_code == 2
    assert f'makes the API group "{group}.example.com"; {remedy}' in " ".join(done.output.split())
    assert not (project / "src/web/api/v1").exists()


def test_a_controller_of_a_kind_of_kubernetes_gets_a_test_and_the_next_steps(project: Path) -> None:
    done = run("create", "controller", "--group", "apps", "--version", "v1", "--kind", "Deployment")
    assert "wrote tests/test_deployment.py" in done.output
    assert "Next: edit the controller and its test, then run\n\n  make manifests\n  make test" in done.output
    assert "from kubewright.apis.apps.v1 import Deployment" in (project / "tests/test_deployment.py").read_text()


def test_the_test_of_a_new_kind_names_the_command_that_writes_its_sample(project: Path) -> None:
    create("v1")
    assert "run `make manifests`" in (project / "tests/test_tenant.py").read_text()


def test_a_cluster_scoped_kind_with_a_controller_is_named_when_the_operator_is_restricted() -> None:
    create("v1", "--namespaced=false")
    done = run("edit", "--namespaced")
    assert done.exit_code == 0
    assert "Warning: Tenant: objects of this kind belong to no namespace" in done.output
    assert "kubewright edit --namespaced=false" in done.output
    assert "Warning" not in run("edit", "--namespaced=false").output


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "layout: [kubewright/v1]\nprojectName: web\nrepo: web\ndomain: 5\n",
            "Expected `str`, got `int` - at `$.domain`",
        ),
        ("layout: [kubewright/v1]\nprojectName: web\nrepo: web\n", "missing required field `domain`"),
        ("- web\n", "not an object"),
    ],
)
def test_a_broken_record_is_named(project: Path, content: str, fault: str) -> None:
    (project / "PROJECT").write_text(content)
    done = create("v1")
    assert done.exit_code == 1
    assert f"{project / 'PROJECT'}" in done.output
    assert fault in done.output


@pytest.mark.parametrize("content", [b"[[[", b"\xff", b"tool = 5\n"])
def test_settings_that_cannot_be_edited_are_named(project: Path, content: bytes) -> None:
    (project / "pyproject.toml").write_bytes(content)
    done = run("edit", "--namespaced")
    assert done.exit_code == 1
    assert "Error: " in done.output
    assert "pyproject.toml: " in done.output


def test_a_file_that_cannot_be_written_is_named(project: Path) -> None:
    create("v1")
    (project / "config").write_text("a file where a folder should be")
    done = forked.run(forked.COMMAND, "generate", folder=project, environment=os.environ)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "config" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("oldest", "image"), [("3.11", "3.14"), ("3.15", "3.15")])
def test_the_image_and_the_workflows_use_the_recommended_python_or_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oldest: str, image: str
) -> None:
    (folder := tmp_path / "shop").mkdir()
    monkeypatch.chdir(folder)
    assert run("init", "--domain", "example.com", "--python", oldest).exit_code == 0
    assert f'requires-python = ">={oldest}"' in (folder / "pyproject.toml").read_text()
    assert f"BASE_IMAGE=docker.io/library/python:{image}-slim" in (folder / "Dockerfile").read_text()
    for workflow in ("lint", "test", "test-e2e"):
        assert f'python-version: "{image}"' in (folder / ".github" / "workflows" / f"{workflow}.yml").read_text()
