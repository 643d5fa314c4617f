"""The level in a bundle: that of the stored report, if it belongs to the program."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError
from kubewright.testing.levels import Report
from kubewright_cli.main import cli
from kubewright_cli.olm.levels import declaration_of, digest_of, operator_of
from kubewright_cli.project import Project
from unit.testing.test_levels_report import report

PROGRAM = """
from kubewright import Context, CustomResource, Manager, controller

class Thing(CustomResource, group="things.test", version="v1"):
    '''A thing.'''

@controller(Thing)
async def reconcile(ctx: Context[Thing]) -> None: ...
manager = Manager([reconcile])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project, which is the current folder."""
    module = f"leveled_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(PROGRAM)
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "thing"\nversion = "1.0.0"\n[tool.kubewright]\nmanager = "{module}:manager"\n'
    )
    monkeypatch.chdir(tmp_path)
    return Project.load(tmp_path)


def generate() -> Result:
    return CliRunner().invoke(cli, ["generate", "bundle"])


def capability(project: Project) -> str | None:
    csv = yaml.load((project.root / "bundle/manifests/thing.clusterserviceversion.yaml").read_text())
    found: str | None = csv["metadata"]["annotations"].get("capabilities")
    return found


def store(project: Project, found: Report) -> None:
    (project.root / "levels.json").write_bytes(found.json())


def measured(project: Project) -> Report:
    return msgspec.structs.replace(report(III="missing"), program=digest_of(project))


def test_a_bundle_has_the_measured_level(project: Project) -> None:
    store(project, measured(project))
    done = generate()
    assert done.exit_code == 0
    assert "capability level" not in done.output
    assert capability(project) == "Seamless Upgrades"


def test_a_bundle_has_no_level_that_was_not_measured(project: Project) -> None:
    done = generate()
    assert done.exit_code == 0
    assert "the bundle has no capability level, because it was not measured; run `kubewright levels`" in done.output
    assert capability(project) is None


def test_a_bundle_has_no_level_of_an_older_program(project: Project) -> None:
    store(project, measured(project))
    next(project.root.glob("leveled_*.py")).open("a").write("\n# changed\n")
    assert "levels.json was measured with another version of the program" in generate().output
    assert capability(project) is None


@pytest.mark.parametrize("file", ["tests/levels.py", "config/samples/thing.yaml"])
def test_the_samples_and_the_declaration_belong_to_what_was_measured(project: Project, file: str) -> None:
    before = digest_of(project)
    path = project.root / file
    path.parent.mkdir(parents=True)
    path.write_text("# new")
    assert digest_of(project) != before


def test_a_bundle_has_no_level_below_the_first_or_of_some_claims(project: Project) -> None:
    store(project, msgspec.structs.replace(report(I="failed"), program=digest_of(project)))
    assert "level I lacks I.samples, I.bundle" in generate().output
    store(project, msgspec.structs.replace(measured(project), partial=True))
    assert "levels.json has only some of the claims" in generate().output
    assert capability(project) is None


def test_a_broken_report_is_named(project: Project) -> None:
    (project.root / "levels.json").write_text(json.dumps({"level": 5}))
    done = generate()
    assert done.exit_code == 1
    assert "levels.json: not a report of capability levels" in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_it", "levels.py: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("declared = 1", "levels.py: there is no variable `declaration` with a Declaration"),
    ],
)
def test_a_broken_declaration_is_named(project: Project, text: str, said: str) -> None:
    (project.root / "tests").mkdir()
    (project.root / "tests/levels.py").write_text(text)
    with pytest.raises(ConfigError, match=said):
        declaration_of(project)


def test_a_project_without_a_manager_declares_its_program(project: Project) -> None:
    kinds_only = Project(project.root, project.settings, None, project.kinds)
    with pytest.raises(ConfigError, match=r"the project has no Manager; declare how its operator runs"):
        operator_of(kinds_only, declaration_of(kinds_only))


def test_samples_of_other_kinds_are_what_the_samples_need(project: Project) -> None:
    samples = project.root / "config/samples"
    samples.mkdir(parents=True)
    (samples / "thing.yaml").write_text(
        "apiVersion: things.test/v1\nkind: Thing\nmetadata: {name: a}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
    )
    operator = operator_of(project, declaration_of(project))
    assert [each["kind"] for each in operator.samples] == ["Thing"]
    assert [each["kind"] for each in operator.prerequisites] == ["ConfigMap"]
    assert operator.service_version is not None
    examples = json.loads(operator.service_version["metadata"]["annotations"]["alm-examples"])
    assert [each["kind"] for each in examples] == ["Thing"], "the bundle shows only the kinds that it owns"
