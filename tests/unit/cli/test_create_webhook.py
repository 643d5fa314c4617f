"""`kubewright create webhook` at the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from integration import forked
from kubewright.machinery import yaml
from kubewright_cli.main import cli

SOURCE = "src/web/webhook/tenant_v1.py"
TEST = "tests/test_tenant_v1_webhook.py"
CONVERSION = "src/web/webhook/tenant_conversion.py"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init", "--domain", "example.com", "--project-name", "web").exit_code == 0
    assert run("create", "api", "--version", "v1", "--kind", "Tenant").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def create(*arguments: str) -> Result:
    """Run the command in this process, which must not import the project."""
    assert "--conversion" not in arguments
    return run("create", "webhook", *arguments)


def run_aside(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, which imports the types."""
    return forked.run(forked.COMMAND, *arguments, folder=Path.cwd(), environment=os.environ)


def create_conversion(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_aside("create", "webhook", "--conversion", *arguments)


def refused(*arguments: str) -> str:
    """Return the error of a command that must fail, in one line."""
    done = run("create", "webhook", *arguments)
    assert done.exit_code != 0
    return " ".join(done.output.split())


def recorded(project: Path) -> object:
    return [each.get("webhooks") for each in yaml.load((project / "PROJECT").read_text())["resources"]]


def test_functions_tests_and_the_certificate_are_written(project: Path) -> None:
    done = create("--kind", "Tenant", "--defaulting", "--programmatic-validation")
    assert done.exit_code == 0
    assert f"wrote {SOURCE}" in done.output
    assert f"wrote {TEST}" in done.output
    assert "@defaulter(Tenant)\ndef set_defaults(" in (project / SOURCE).read_text()
    assert "@validator(Tenant)\ndef validate(" in (project / SOURCE).read_text()
    main = (project / "src/web/main.py").read_text()
    assert "    webhooks=[\n        tenant_v1.set_defaults,\n        tenant_v1.validate,\n    ],\n" in main
    assert '    webhook_certificate=ManagedCertificate(),\n    name="web",\n' in main
    assert recorded(project) == [{"defaulting": True, "validation": True, "webhookVersion": "v1"}]


def test_another_webhook_is_added_without_a_change_to_edits(project: Path) -> None:
    create("--kind", "Tenant", "--defaulting")
    for path in (SOURCE, TEST):
        (project / path).write_text(f"{(project / path).read_text()}\n\nEDITED = 1  # by its author\n")
    before = (project / SOURCE).read_text()
    assert create("--kind", "Tenant", "--programmatic-validation", "--validation-path", "/tenants").exit_code == 0
    after = (project / SOURCE).read_text()
    imports = "from kubewright.webhooks import AdmissionContext, FieldError, defaulter, validator\n"
    assert imports in after
    assert before.partition("\n\n\n")[2] in after
    assert after.endswith("    return errors\n")
    assert '@validator(Tenant, path="/tenants")' in after
    tests = (project / TEST).read_text()
    assert "EDITED = 1  # by its author\n\n\nasync def test_the_sample_is_valid()" in tests
    assert "import set_defaults, validate\n" in tests
    assert (project / "src/web/main.py").read_text().count("tenant_v1") == 3


def test_a_conversion_copies_equal_fields_and_names_the_others(project: Path) -> None:
    types = project / "src/web/api/v1/tenant.py"
    assert run("create", "api", "--version", "v2", "--kind", "Tenant").exit_code == 0
    newer = project / "src/web/api/v2/tenant.py"
    newer.write_text(newer.read_text().replace("    foo: str", "    limit: int\n    foo: str"))
    done = create_conversion("--kind", "Tenant")
    assert done.returncode == 0, done.stderr
    assert "write the conversion of these fields" in done.stderr
    assert "spec.limit in v1_to_v2" in done.stderr
    text = (project / CONVERSION).read_text()
    assert "            foo=old.spec.foo,\n" in text
    assert "            # TODO: spec.limit is only in v2\n" in text
    assert "Spoke(v2.Tenant, convert_to=v2_to_v1, convert_from=v1_to_v2),\n" in text
    assert recorded(project)[0] == {"conversion": True, "spoke": ["v2"], "webhookVersion": "v1"}  # type: ignore[index]
    types.write_text(types.read_text().replace("foo:", "bar: int = 1\n    foo:"))
    (project / CONVERSION).write_text(text.replace("# TODO: spec.limit is only in v2", "limit=1,  # by its author"))
    assert run("create", "api", "--version", "v3", "--kind", "Tenant").exit_code == 0
    again = create_conversion("--kind", "Tenant", "--spoke", "v3")
    assert again.returncode == 0, again.stderr
    extended = (project / CONVERSION).read_text()
    assert "limit=1,  # by its author" in extended
    assert "from web.api.v3 import tenant as v3\n" in extended
    assert "    Spoke(v3.Tenant, convert_to=v3_to_v1, convert_from=v1_to_v3),\n)\n" in extended


def test_the_hub_is_the_stored_version_also_if_another_has_webhooks(project: Path) -> None:
    create("--kind", "Tenant", "--defaulting")
    assert run("create", "api", "--version", "v2", "--kind", "Tenant").exit_code == 0
    old, new = project / "src/web/api/v1/tenant.py", project / "src/web/api/v2/tenant.py"
    new.write_text(new.read_text().replace("    storage=False,\n", ""))
    old.write_text(old.read_text().replace('version="v1",\n', 'version="v1",\n    storage=False,\n'))
    done = create_conversion("--kind", "Tenant", "--spoke", "v1")
    assert done.returncode == 0, done.stderr
    assert "conversion = Conversion(\n    v2.Tenant,\n" in (project / CONVERSION).read_text()


def test_a_project_of_before_gets_the_extra_and_the_registration_of_tests(project: Path) -> None:
    settings, conftest = project / "pyproject.toml", project / "tests/conftest.py"
    settings.write_text(settings.read_text().replace("kubewright[tls]", "kubewright"))
    without = conftest.read_text().replace(", webhook_registration=LocalWebhooks(config=cluster.config)", "")
    conftest.write_text(without.replace("from kubewright.webhooks import LocalWebhooks\n", ""))
    assert create("--kind", "Tenant", "--defaulting").exit_code == 0
    assert '["kubewright[tls]~=' in settings.read_text()
    assert "replace(config=account, webhook_registration=LocalWebhooks(config=cluster.config))" in conftest.read_text()
    assert "from kubewright.webhooks import LocalWebhooks\n" in conftest.read_text()


def test_what_cannot_be_edited_is_left_to_the_author(project: Path) -> None:
    (project / "src/web/main.py").write_text("from web.operator import manager\n")
    (project / "tests/conftest.py").write_text("")
    done = create("--kind", "Tenant", "--defaulting", "--programmatic-validation")
    assert done.exit_code == 0
    assert done.output.count("src/web/main.py has changed since `kubewright init` wrote it") == 1
    added = "webhooks=[tenant_v1.set_defaults, tenant_v1.validate], webhook_certificate=ManagedCertificate()"
    assert added in done.output
    assert "tests/conftest.py has no manager.replace(config=account)" in done.output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--kind Tenant", "pass --defaulting, --programmatic-validation or --conversion"),
        ("--kind Tenant --defaulting --version v7", "Tenant has the versions v1, not v7; `kubewright create api"),
        (
            "--kind Boat --defaulting",
            "neither this project nor Kubernetes has Boat in core/v1; `kubewright create api`",
        ),
        (
            "--kind Tenant --conversion",
            "has one version, v1, and needs no conversion; `kubewright create api --version",
        ),
        ("--kind Tenant --defaulting --spoke v2", "--spoke needs --conversion"),
        ("--kind Tenant --defaulting --validation-path /x", "--validation-path needs --programmatic-validation"),
        ("--kind Tenant --defaulting --defaulting-path x", 'a path is made of parts like "/validate-pods"'),
        ("--kind Pod --group core --conversion", "Pod is a kind of Kubernetes, which converts it itself"),
        ("--kind Tenant --defaulting --make", "there is no --make"),
    ],
)
def test_a_command_that_makes_no_sense_names_the_way_out(project: Path, arguments: str, reason: str) -> None:
    assert reason in refused(*arguments.split())
    assert not (project / "src/web/webhook").exists()


@pytest.mark.parametrize("content", [b"[[[", b"\xff"])
def test_settings_that_cannot_be_read_are_named(project: Path, content: bytes) -> None:
    (project / "pyproject.toml").write_bytes(content)
    done = create("--kind", "Tenant", "--defaulting")
    assert done.exit_code == 1
    assert "Error: pyproject.toml: " in done.output
    assert not (project / "src/web/webhook").exists()


def test_existing_webhooks_are_named() -> None:
    assert create("--kind", "Tenant", "--defaulting").exit_code == 0
    run("create", "api", "--version", "v2", "--kind", "Tenant")
    again = refused("--kind", "Tenant", "--defaulting")
    assert f"Tenant already has a defaulter for v1, in {SOURCE}" in again
    assert "converts objects of other versions" in refused("--kind", "Tenant", "--version", "v2", "--defaulting")
    assert "this is the hub; name another version: v2" in refused("--kind", "Tenant", "--conversion", "--spoke", "v1")
    assert "Tenant has the versions v1, v2" in refused("--kind", "Tenant", "--conversion", "--spoke", "v3")


def test_a_function_of_the_same_name_is_not_hidden(project: Path) -> None:
    create("--kind", "Tenant", "--defaulting")
    (project / SOURCE).write_text((project / SOURCE).read_text() + "\n\ndef validate() -> None: ...\n")
    before = (project / SOURCE).read_text()
    assert f"{SOURCE} has a validate already, and was not edited" in refused(
        "--kind", "Tenant", "--programmatic-validation"
    )
    assert (project / SOURCE).read_text() == before


def test_a_kind_of_kubernetes_gets_webhooks(project: Path) -> None:
    done = create("--group", "core", "--kind", "Pod", "--programmatic-validation")
    assert done.exit_code == 0
    assert "from kubewright.apis.core.v1 import Pod\n" in (project / "src/web/webhook/pod_v1.py").read_text()
    assert '"metadata": {"name": "example",' in (project / "tests/test_pod_v1_webhook.py").read_text()
    assert create("--group", "apps", "--version", "v1", "--kind", "Deployment", "--defaulting").exit_code == 0
    assert '"spec": {"selector": {}, "template": {}},' in (project / "tests/test_deployment_v1_webhook.py").read_text()


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lighthouses.coast.example.org}
spec:
  group: coast.example.org
  names: {kind: Lighthouse, plural: lighthouses}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [lit, height]
            properties: {lit: {type: boolean}, height: {type: integer}}
"""


def test_a_third_party_kind_gets_webhooks_with_tests_that_pass(project: Path) -> None:
    (project / "crd.yaml").write_text(CRD)
    assert run("generate", "models", "crd.yaml", "--output", "src/web/apis").exit_code == 0
    (project / "src/web/apis/__init__.py").write_text("")
    [module] = (each.stem for each in (project / "src/web/apis").glob("*v1.py"))
    where = ("--kind", "Lighthouse", "--external-api-path", f"web.apis.{module}")
    done = run_aside("create", "webhook", *where, "--programmatic-validation")
    assert done.returncode == 0, done.stderr
    again = run_aside("create", "webhook", "--group", "coast.example.org", "--kind", "Lighthouse", "--defaulting")
    assert again.returncode == 0, again.stderr
    assert f"from web.apis.{module} import Lighthouse\n" in (project / "src/web/webhook/lighthouse_v1.py").read_text()
    [tenant, lighthouse] = yaml.load((project / "PROJECT").read_text())["resources"]
    assert (tenant["kind"], lighthouse["external"], lighthouse["path"]) == ("Tenant", True, f"web.apis.{module}")
    tests = [sys.executable, "-m", "pytest", "-q", "tests/test_lighthouse_v1_webhook.py"]
    said = subprocess.run(tests, capture_output=True, text=True, check=False).stdout
    assert "3 passed" in said, said
    assert "is a kind of another project" in run_aside("create", "webhook", *where, "--conversion").stderr
    wrong = run_aside("create", "webhook", *where, "--defaulting", "--group", "other.org").stderr
    assert "is a class of coast.example.org/v1, not other.org/v1; omit --group and --version" in wrong
    missing = run_aside("create", "webhook", *where[:3], "web.nowhere", "--defaulting").stderr
    assert 'there is no module "web.nowhere"; `kubewright generate models` writes' in missing


def test_kinds_of_the_same_name_in_two_groups_get_webhooks_of_different_names(project: Path) -> None:
    run("edit", "--multigroup")
    run("create", "api", "--group", "ship", "--version", "v1", "--kind", "Tenant")
    create("--kind", "Tenant", "--defaulting")
    assert "Tenant already has a defaulter for v1" in refused("--kind", "Tenant", "--defaulting")
    assert create("--group", "ship", "--kind", "Tenant", "--defaulting").exit_code == 0
    text = (project / "src/web/webhook/ship/tenant_v1.py").read_text()
    assert '@defaulter(Tenant, name="mtenant-v1.ship.example.com")' in text
    assert "ship_tenant_v1.set_defaults" in (project / "src/web/main.py").read_text()


def test_the_group_of_a_kind_may_be_left_out(project: Path) -> None:
    run("edit", "--multigroup")
    run("create", "api", "--group", "ship", "--version", "v1", "--kind", "Frigate")
    assert create("--kind", "Frigate", "--defaulting").exit_code == 0
    assert (project / "src/web/webhook/ship/frigate_v1.py").is_file()
