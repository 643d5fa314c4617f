"""The measured capability level of a project: what is measured, and what its bundle may say.

`kubewright levels` writes the report to `levels.json`. A bundle has the level of this report if it is complete and was
measured with the current program; otherwise it has none, and the command that makes the bundle says why.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, is_array
from kubewright.models import PolicyRule, custom_resource_definitions
from kubewright.testing.levels import Declaration, Operator, Report
from kubewright_cli.manifests import samples
from kubewright_cli.olm import bundle
from kubewright_cli.project import Project

REPORT: Final = "levels.json"
_MEASURE: Final = "run `kubewright levels`"
_MODULE: Final = "_kubewright_levels_of_project"


def measured_level(project: Project) -> tuple[str, str]:
    """Return the value of the annotation `capabilities`, and a warning; the value is empty if no level is known.

    Raises ConfigError if the report cannot be read.
    """
    path = project.root / REPORT
    if not path.is_file():
        return "", f"the bundle has no capability level, because it was not measured; {_MEASURE}"
    report = Report.read(path)
    if report.program != digest_of(project):
        why = f"{REPORT} was measured with another version of the program, its samples or its declaration"
        return "", f"the bundle has no capability level: {why}; {_MEASURE} again"
    if report.partial:
        return (
            "",
            f"the bundle has no capability level: {REPORT} has only some of the claims; {_MEASURE} for all of them",
        )
    if not report.level:
        missing = ", ".join(each.id for each in report.missing)
        return "", f"the bundle has no capability level: level I lacks {missing}; `kubewright levels` says what to do"
    return report.capability, ""


def digest_of(project: Project) -> str:
    """Return a digest of the program's sources, its samples and its declaration."""
    found = hashlib.sha256()
    for path in sorted(_measured_files(project)):
        found.update(f"{path.relative_to(project.root).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return f"sha256:{found.hexdigest()}"


def _measured_files(project: Project) -> Iterator[Path]:
    name = (project.settings.manager or project.settings.kinds).partition(":")[0].partition(".")[0]
    for folder in (project.root / "src" / name, project.root / name):
        yield from folder.rglob("*.py")
    single = project.root / f"{name}.py"
    folder = project.root / "config/samples"
    others = [single, project.root / project.settings.levels, *(folder / each for each in samples.present(folder))]
    yield from (each for each in others if each.is_file())


def declaration_of(project: Project) -> Declaration:
    """Return the variable `declaration` of the file that the setting `levels` names; an empty one without this file.

    Raises ConfigError if the file cannot be imported, or has no such variable.
    """
    path = project.root / project.settings.levels
    if not path.is_file():
        return Declaration()
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file; name one that ends in .py (tool.kubewright.levels)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses in the file look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path}: {type(error).__name__}: {error} (on import)") from error
    found = getattr(module, "declaration", None)
    if not isinstance(found, Declaration):
        raise ConfigError(
            f"{path}: there is no variable `declaration` with a Declaration; add declaration = Declaration()"
        )
    return found


def operator_of(project: Project, declaration: Declaration) -> Operator:
    """Return what is measured: the program, its samples and its bundle.

    Raises ConfigError for a project without a Manager whose declaration names no program.
    """
    program = declaration.program or project.program
    if program is None:
        raise ConfigError(
            f"{project.root / project.settings.levels}: the project has no Manager; declare how its operator runs: "
            "declaration = Declaration(program=Process([...]))"
        )
    made = bundle.bundle_of(project).files if project.program is not None else {}
    prefix = f"{bundle.FOLDER}/"
    files = {name.removeprefix(prefix): text for name, text in made.items() if name.startswith(prefix)}
    crds = custom_resource_definitions(project.kinds)
    owned = {bundle.kind_of(each) for each in crds}
    found = _samples(project.root / "config/samples")
    return Operator(
        name=project.settings.name,
        version=project.settings.version,
        program=program,
        crds=crds,
        samples=[each for each in found if bundle.api_of(each) in owned],
        prerequisites=[each for each in found if bundle.api_of(each) not in owned],
        rules=project.program.rbac_rules() if project.program is not None else _written_rules(project.root),
        documents=_manifests(files),
        bundle=files or None,
        folder=project.root,
        digest=digest_of(project),
        upgrades=bool(project.settings.released or project.settings.bundle.replaces),
    )


def _samples(folder: Path) -> list[JSONObject]:
    return [each for name in samples.present(folder) for each in _read(folder / name)]


def _manifests(files: Mapping[str, str]) -> list[JSONObject]:
    return [each for name, text in files.items() if name.startswith("manifests/") for each in yaml.load_all(text)]


def _written_rules(root: Path) -> list[PolicyRule]:
    """Return the rules of the roles in config/rbac, for a project that writes them by hand."""
    documents = [each for path in sorted((root / "config/rbac").glob("*.yaml")) for each in _read(path)]
    roles = [each for each in documents if each.get("kind") in ("ClusterRole", "Role") and is_array(each.get("rules"))]
    return [msgspec.convert(rule, PolicyRule) for each in roles for rule in each["rules"]]


def _read(path: Path) -> list[JSONObject]:
    try:
        return [each for each in yaml.load_all(path.read_text()) if each]
    except (OSError, DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
