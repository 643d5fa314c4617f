"""The files that `init`, `create api` and `create controller` write."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kubewright.machinery.gvk import version_order
from kubewright_cli.manifests.samples import is_untouched
from kubewright_cli.scaffold.changes import Changes
from kubewright_cli.scaffold.names import module_name
from kubewright_cli.scaffold.program import ModuleImport, with_controller
from kubewright_cli.scaffold.record import FILE, Record, Resource
from kubewright_cli.scaffold.sources import LINE_LENGTH
from kubewright_cli.scaffold.templates import render
from kubewright_cli.scaffold.versions import another_version, is_stored

KEPT: Final = ("LICENSE", "README.md")
"""Files that may exist in the folder of a new project: repositories often begin with them."""
_WORKFLOWS: Final = {"lint": "Lint", "test": "Tests", "test-e2e": "E2E tests"}
_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "Makefile": "Makefile",
    "Dockerfile": "Dockerfile",
    ".dockerignore": "dockerignore",
    ".gitignore": "gitignore",
    "README.md": "README.md",
    "wheels/README.md": "wheels.md",
    "tests/conftest.py": "conftest.py",
    "tests/test_operator.py": "test_operator.py",
    "tests/test_e2e.py": "test_e2e.py",
}


RECOMMENDED_PYTHON: Final = "3.14"
"""Kubewright needs the least CPU time with it."""


@dataclass(frozen=True, slots=True)
class Packaging:
    """Package metadata of a project."""

    python: str
    """The oldest supported Python: `3.12`."""
    license: str = ""
    """An SPDX expression."""
    owner: str = ""

    @property
    def image_python(self) -> str:
        """The Python of the image and of CI: the recommended one, or a newer one that the project needs."""
        return max(self.python, RECOMMENDED_PYTHON, key=_as_numbers)


def _as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@dataclass(frozen=True, slots=True)
class Addition:
    """The changes that `create` makes."""

    changes: Changes
    by_hand: ModuleImport | None
    """The controller that the author must add to main.py, if main.py is not as `init` wrote it."""
    copied_from: str = ""
    """The version whose types were copied."""


def project(root: Path, record: Record, packaging: Packaging) -> Changes:
    """Return a new project. Existing files of `KEPT` are not changed."""
    changes = Changes(root)
    package = f"src/{record.package}"
    values = {
        "name": record.name,
        "package": record.package,
        "namespaced": record.namespaced,
        "python": packaging.python,
        "image_python": packaging.image_python,
        "license": packaging.license,
        "owner": packaging.owner,
        "version": _compatible(version("kubewright")),
        "line_length": LINE_LENGTH,
    }
    for path, template in _FILES.items():
        if path not in KEPT or not (root / path).exists():
            changes.create(path, render(template, **values))
    for target, title in _WORKFLOWS.items():
        text = render("workflow.yml", target=target, title=title, python=packaging.image_python)
        changes.create(f".github/workflows/{target}.yml", text)
    changes.create(f"{package}/__init__.py", f'"""The operator {record.name}."""\n')
    changes.create(f"{package}/main.py", render("main.py", **values))
    changes.create(f"{package}/api/__init__.py", '"""The API: the kinds of this operator."""\n')
    changes.create(f"{package}/controller/__init__.py", '"""The controllers, one module for each kind."""\n')
    changes.create(FILE, record.text())
    return changes


def api(root: Path, record: Record, resource: Resource) -> Addition:
    """Return a kind or another version of a kind, with a controller if the resource has one."""
    changes, by_hand = Changes(root), None
    others = [each for each in record.versions_of(resource.group, resource.kind) if each.version != resource.version]
    values = _values(record, resource) | {"storage": not others, "sample": sample(resource)}
    packages(root, changes, resource.path)
    newest = min(others, key=lambda each: version_order(each.version), default=None)
    copied = _copied(root, newest, resource) if newest is not None and newest.api else None
    changes.create(source(resource.path), copied or render("api.py", **values))
    if newest is not None and copied:
        _copy_sample(root, changes, newest, resource)
    if resource.controller:
        by_hand = _controller(root, record, resource, changes, "controller.py")
    if newest is not None:
        values |= {"other": newest, "versions": sorted((newest, resource), key=lambda each: each.path)}
    changes.create(_test(record, resource, another=bool(others)), render(_test_template(resource, others), **values))
    changes.edit(FILE, record.having(resource).text())
    return Addition(changes, by_hand, copied_from=newest.version if newest is not None and copied else "")


def _copied(root: Path, other: Resource, resource: Resource) -> str | None:
    """Return the module of another version of the kind as that of this version; None if it cannot be copied."""
    path = root / source(other.path)
    if not path.is_file():
        return None
    return another_version(path.read_text(), resource.kind, other.path, other.version, resource.version)


def _copy_sample(root: Path, changes: Changes, other: Resource, resource: Resource) -> None:
    """Copy an edited sample of another version. `kubewright generate` writes the others."""
    path, copy = root / sample(other), root / sample(resource)
    if path.is_file() and not copy.exists() and not is_untouched(path):
        stated = rf"(?m)^apiVersion: {re.escape(other.api_version)}$"
        changes.create(sample(resource), re.sub(stated, f"apiVersion: {resource.api_version}", path.read_text()))


def stored(root: Path, versions: list[Resource]) -> Resource:
    """Return the version that objects are stored in, according to its module; the first if no module says so."""
    paths = {each.version: root / source(each.path) for each in versions}
    declared = (each for each in versions if paths[each.version].is_file())
    return next((each for each in declared if is_stored(paths[each.version].read_text(), each.kind)), versions[0])


def controller(root: Path, record: Record, resource: Resource) -> Addition:
    """Return a controller for an existing kind of the project, which has a test, or for a kind of Kubernetes."""
    template = "controller.py" if resource.api else "controller_builtin.py"
    changes = Changes(root)
    by_hand = _controller(root, record, resource, changes, template)
    if not resource.api:
        test = _test(record, resource, another=False)
        changes.create(test, render("test_builtin.py", **_values(record, resource)))
    changes.edit(FILE, record.having(replace(resource, controller=True)).text())
    return Addition(changes, by_hand)


def module_path(record: Record, part: str, group: str, *rest: str) -> str:
    """Return the module of a kind in `api`, `controller` or `webhook`. With several groups, each has a package."""
    groups = [module_name(group)] if record.multigroup and group else []
    return ".".join([record.package, part, *groups, *rest])


def _controller(root: Path, record: Record, resource: Resource, changes: Changes, template: str) -> ModuleImport | None:
    """Plan a controller. Returns the import that the author must add to main.py, if it cannot be added."""
    path = module_path(record, "controller", resource.group, resource.module)
    package, _, module = path.rpartition(".")
    in_group = record.multigroup and resource.group
    values = _values(record, resource)
    if in_group:
        values["controller_name"] = f"{resource.group}-{resource.kind.lower()}".replace(".", "-")
    packages(root, changes, path)
    changes.create(source(path), render(template, **values))
    alias = f"{module_name(resource.group)}_{module}" if in_group else ""
    added = ModuleImport(package, module, alias)
    main = f"src/{record.package}/main.py"
    present = (root / main).read_text() if (root / main).is_file() else ""
    edited = with_controller(present, "manager", added)
    if edited is None:
        return added
    changes.edit(main, edited)
    return None


def _values(record: Record, resource: Resource) -> dict[str, object]:
    return {
        "name": record.name,
        "package": record.package,
        "kind": resource.kind,
        "version": resource.version,
        "path": resource.path,
        "plural": resource.plural,
        "resource": resource.resource,
        "api_group": resource.api_group,
        "api_version": resource.api_version,
        "namespaced": resource.namespaced,
        "controller_name": "",
    }


def packages(root: Path, changes: Changes, module: str) -> None:
    """Plan the missing packages above a module."""
    parts = module.split(".")[:-1]
    for depth in range(2, len(parts) + 1):
        path = f"src/{'/'.join(parts[:depth])}/__init__.py"
        if not (root / path).exists():
            changes.create(path, f'"""{_about(parts[1:depth])}"""\n')


def _about(parts: list[str]) -> str:
    match parts:
        case ["api"]:
            return "The API: the kinds of this operator."
        case ["webhook"]:
            return "The webhooks, one module for each kind and version."
        case ["controller"]:
            return "The controllers, one module for each kind."
        case ["api", *_, last] if last.startswith("v") and last[1:2].isdigit():
            return f"Version {last}."
        case _:
            return f"The group {parts[-1]}."


def source(module: str) -> str:
    """Return the path of a module."""
    return f"src/{module.replace('.', '/')}.py"


def _test_template(resource: Resource, others: list[Resource]) -> str:
    if resource.controller:
        return "test_kind.py"
    return "test_version.py" if others else "test_kind_alone.py"


def _test(record: Record, resource: Resource, *, another: bool) -> str:
    """Return the path of the test of a kind. Another version has a test of its own."""
    group = f"{module_name(resource.group)}_" if record.multigroup and resource.group else ""
    return f"tests/test_{group}{resource.module}{f'_{resource.version}' if another else ''}.py"


def sample(resource: Resource) -> str:
    """Return the path where `kubewright generate` writes the first sample."""
    group = resource.api_group.partition(".")[0]
    return f"config/samples/{group}_{resource.version}_{resource.kind.lower()}.yaml"


def _compatible(release: str) -> str:
    """Return the first compatible release: `0.3.2` -> `0.3.0`."""
    major, minor, *_ = release.split(".")
    return f"{major}.{minor}.0"
