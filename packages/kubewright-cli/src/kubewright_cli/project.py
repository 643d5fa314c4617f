"""The project that a command works on: its settings, its program, and the kinds of its API.

The kinds are all versions that the package `api` next to the program's module declares (`webserver_operator.api`), with
or without a controller. Without that package, they are the kinds that the controllers reconcile and the webhooks
convert. In a project without a Manager, the settings name the package.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from kubewright.machinery._suggestions import nearest
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.manager._program import check_flags
from kubewright.models import CustomResource, Object, kinds_of
from kubewright.webhooks import Conversion
from kubewright_cli.manifests import Manifests, Settings, render
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import NO_MANAGER
from kubewright_cli.manifests.workload import flags

_NO_SUCH_NAME: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Project:
    """An operator's project."""

    root: Path
    settings: Settings
    program: Manager | None
    """None for a project without a Manager."""
    kinds: list[type[CustomResource]]
    """The kinds of its API in all versions, sorted by kind and version."""

    @classmethod
    def load(cls, start: Path | None = None) -> Project:
        """Load the project of the folder `start` (by default the current folder), or of the nearest folder above it.

        Raises ConfigError if there is none, if its settings are wrong, or if its program cannot be imported.
        """
        root = find_root(start)
        settings = Settings.read(root / "pyproject.toml")
        _import_from(root)
        if settings.kinds:
            return cls(root, settings, None, _kinds_in(root, settings.kinds))
        manager = _load_manager(root, settings.manager)
        return cls(root, settings, manager, _kinds(root, settings.manager, manager))

    @property
    def manager(self) -> Manager:
        """The program's Manager. Raises ConfigError for a project without one."""
        if self.program is None:
            raise ConfigError(f"{self.root / 'pyproject.toml'}: {NO_MANAGER}")
        return self.program

    def manifests(self) -> Manifests:
        """Return the manifests of the deployment. Raises ConfigError for a project without a Manager."""
        return render(self.manager, self.kinds, self.settings)

    def require_known_flags(self) -> None:
        """Raise ConfigError if the program does not accept the flags of its container, for example `args` in the
        settings.

        Nothing is known of a program that gives a parser to `Manager.main` instead of `Manager`.
        """
        module = sys.modules[self.settings.manager.partition(":")[0]]
        if self.manager.parser is None and _gives_parser_to_main(module):
            return
        try:
            check_flags(self.manager, list(flags(Program(self.manager, (), ()), self.settings)))
        except ConfigError as error:
            raise ConfigError(f"{self.root / 'pyproject.toml'}: tool.kubewright.args: {error}") from error


def _gives_parser_to_main(module: ModuleType) -> bool:
    calls = (each for each in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(each, ast.Call))
    mains = (each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr == "main")
    return any(each.args or each.keywords for each in mains)


def find_root(start: Path | None = None) -> Path:
    """Return the folder `start` (by default the current folder), or the nearest above it, with a pyproject.toml."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise ConfigError(f"no pyproject.toml in {start} or above it; run this in the folder of an operator's project")


def _import_from(root: Path) -> None:
    for folder in (root / "src", root):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def _load_manager(root: Path, reference: str) -> Manager:
    module_name, _, variable = reference.partition(":")
    try:
        module = _import(root, module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'{root / "pyproject.toml"}: there is no module "{module_name}" (tool.kubewright.manager)'
        ) from error
    found = getattr(module, variable or "manager", None)
    if not isinstance(found, Manager):
        raise ConfigError(f'"{reference}" (tool.kubewright.manager) is not a Manager but {type(found).__name__}')
    return found


def load_class(root: Path, module: str, kind: str) -> type[Object]:
    """Return the class of a kind in a module that the project can import, for example of a third-party kind.

    Raises ConfigError if there is no such module or class, or if the module cannot be imported.
    """
    _import_from(root)
    try:
        found = getattr(_import(root, module), kind, None)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'there is no module "{module}"; `kubewright generate models` writes modules of third-party kinds'
        ) from error
    if isinstance(found, type) and issubclass(found, Object) and found.__api__.kind == kind:
        return found
    raise ConfigError(f'the module "{module}" has no class {kind} of that kind; name the module that declares it')


def _kinds(root: Path, reference: str, manager: Manager) -> list[type[CustomResource]]:
    parent = reference.partition(":")[0].rpartition(".")[0]
    if parent and importlib.util.find_spec(f"{parent}.api") is not None:
        return _kinds_in(root, f"{parent}.api")
    kinds = {each.kind for each in manager.controllers if issubclass(each.kind, CustomResource)}
    kinds |= {kind for each in manager.webhooks if isinstance(each, Conversion) for kind in each.kinds}
    return sorted(kinds, key=lambda kind: (kind.__api__.kind, kind.__api__.version))


def _kinds_in(root: Path, name: str) -> list[type[CustomResource]]:
    try:
        package = _import(root, name)
    except ModuleNotFoundError as error:
        raise ConfigError(f'{root / "pyproject.toml"}: there is no module "{name}" (tool.kubewright.kinds)') from error
    try:
        return kinds_of(package)
    except Exception as error:
        raise _import_failed(root, package.__name__, error) from error


def _import(root: Path, name: str) -> ModuleType:
    """Import a module. Raises ModuleNotFoundError if it does not exist, and ConfigError if the import fails."""
    # Bytecode in a cache counts as current if the source has its size and its second of modification. Of two quick
    # edits, a later command would run the first one.
    sys.dont_write_bytecode = True
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise
        raise _import_failed(root, name, error) from error
    except SystemExit as error:
        raise ConfigError(
            f'{root / "pyproject.toml"}: the program ends on import of "{name}"; call manager.main() only under '
            '`if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        raise _import_failed(root, name, error) from error


def _import_failed(root: Path, module: str, error: Exception) -> ConfigError:
    """Return the error, and the line of the project that raised it. A traceback would mostly show this command."""
    if isinstance(error, SyntaxError):
        file, line, what = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
        file, line, what = (own or frames)[-1].filename, (own or frames)[-1].lineno, f"{error}{_meant(error)}"
    separator = "\n" if "\n" in what else " "  # below the excerpt of a CEL expression
    return ConfigError(f'{file}, line {line}: {type(error).__name__}: {what}{separator}(on import of "{module}")')


def _meant(error: Exception) -> str:
    """Suggest the attribute or the name that an import misspells, as Python does below a traceback."""
    if isinstance(error, AttributeError) and error.name:
        name, owner = error.name, error.obj
    elif isinstance(error, ImportError) and (found := _NO_SUCH_NAME.match(str(error))):
        name, owner = found[1], sys.modules.get(found[2])
    else:
        return ""
    similar = nearest(name, (each for each in dir(owner) if not each.startswith("_")))
    return f"; did you mean {similar!r}?" if similar else ""
