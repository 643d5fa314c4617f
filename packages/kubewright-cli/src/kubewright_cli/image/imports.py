"""Packages that the program imports, and that its requirements do not install.

On the author's machine such a package is installed by chance, and the import fails in the cluster only. The imports
come from the sources, so that no code runs; imports for type checkers only, and those whose failure is handled, do not
count. The packages that provide a module, and what each requires, come from the metadata of what is installed here.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.project import ImageProject

_HANDLED: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


@dataclass(frozen=True, slots=True)
class MissingRequirement:
    """A module that the program imports, and the package that provides it here."""

    module: str
    package: str
    file: Path
    line: int

    def __str__(self) -> str:
        return (
            f'{self.file}, line {self.line}: imports "{self.module}", which no requirement of the project provides; '
            f'add "{self.package}" to dependencies in [project]'
        )


def missing_requirements(project: ImageProject) -> list[MissingRequirement]:
    """Return the packages that the program imports and its requirements do not install, one for each module.

    Nothing is known, and nothing returned, if the requirements are in a file that includes another one. Raises
    ConfigError for a source file that is not Python.
    """
    named = _requirements(project)
    if named is None:
        return []
    installed, providers = _closure(named), packages_distributions()
    sources = project.sources()
    own = {each.stem for each in sources.iterdir()}
    found: dict[str, MissingRequirement] = {}
    for file in _modules(project, sources):
        for module, line in _imports(file):
            packages = {canonicalize_name(each) for each in providers.get(module, ())}
            if packages and module not in own and installed.isdisjoint(packages):
                known = MissingRequirement(module, min(packages), file.relative_to(project.root), line)
                found.setdefault(module, known)
    return list(found.values())


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the top-level modules that a source file imports, other than those of Python, and the line of each."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise ConfigError(f"{file}, line {error.lineno}: {error.msg}") from error
    except ValueError as error:  # null bytes
        raise ConfigError(f"{file}: {error}") from error
    for node in _unconditional(tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            names = [node.module] if node.module and not node.level else []
        for name in names:
            module = name.partition(".")[0]
            if module not in sys.stdlib_module_names:
                yield module, node.lineno


def _unconditional(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    left = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        left = list(node.orelse)
    elif isinstance(node, ast.Try) and any(_handles_imports(each) for each in node.handlers):
        left = [*node.orelse, *node.finalbody]
    for each in left:
        yield from _unconditional(each)


def _handles_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return not _HANDLED.isdisjoint(re.findall(r"\w+", ast.unparse(handler.type)))


def _modules(project: ImageProject, sources: Path) -> list[Path]:
    package = sources / project.settings.package
    return sorted(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]


def _requirements(project: ImageProject) -> list[Requirement] | None:
    """Return the requirements that the image is built from; None if they cannot be read here."""
    chosen = project.lock
    if chosen is None:
        return _parsed(project.dependencies)
    text = chosen.read_text()
    if chosen.suffix == ".txt" or chosen.name == "requirements.lock":
        lines = [re.split(r"\s+(?:#|--)|\s*\\$", line.strip())[0] for line in text.splitlines()]
        wanted = [line for line in lines if line and not line.startswith(("#", "--"))]
        return None if any(line.startswith("-") for line in wanted) else _parsed(wanted)
    try:
        locked = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # the installer reports it
        return None
    return _parsed(str(each["name"]) for each in locked.get("packages", locked.get("package", ())))


def _parsed(texts: Iterable[str]) -> list[Requirement] | None:
    try:
        return [Requirement(each) for each in texts]
    except InvalidRequirement:  # the installer reports it
        return None


def _closure(named: Iterable[Requirement]) -> set[str]:
    """Return the packages that the requirements install, as far as these packages are installed here."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = list(named)
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        found.add(name)
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _required_by(name, extra)
    return found


def _required_by(package: str, extra: str) -> Iterator[Requirement]:
    try:
        texts = requires(package) or []
    except PackageNotFoundError:
        return
    for each in map(Requirement, texts):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield each
