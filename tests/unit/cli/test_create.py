"""`kubewright create` at the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubewright_cli.main import cli


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init", "--domain", "example.com", "--project-name", "web").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def generate(project: Path) -> str:
    """Return the output of `kubewright generate` in a process of its own, which imports the types."""
    command = [Path(sys.executable).with_name("kubewright"), "generate"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stderr


def create(version: str, *more: str) -> Result:
    return run("create", "api", "--version", version, "--kind", "Tenant", *more)


def test_a_second_version_copies_the_first_and_explains_what_is_not_converted(project: Path) -> None:
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
    assert "Versions are not converted (conversion strategy None)" in done.output
    assert "Warning" not in generate(project)
    first.write_text(first.read_text().replace("    quota", "    color: str | None = None\n    quota"))
    assert "Tenant: version v1 lacks spec.color of v1alpha1" in generate(project)


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


def test_create_webhook_names_the_alternatives() -> None:
    done = run("create", "webhook", "--group", "ship", "--defaulting")
    assert done.exit_code == 1
    assert "there is no scaffold of webhooks yet" in done.output
    assert 'the page "Webhooks"' in done.output
