"""The project that a command works on: its settings, the program that they name, and the kinds of its API.

The kinds are those in the modules of the package `api` beside the program's module (`webserver_operator.api`), in all
their versions and with or without a controller. Without that package they are those that its controllers are for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.manifests import Manifests, Settings, render
from kubewright.models import CustomResource
from kubewright.models.kinds import kinds_of


@dataclass(frozen=True, slots=True)
class Project:
    """An operator's project."""

    root: Path
    settings: Settings
    manager: Manager
    kinds: list[type[CustomResource]]
    """The kinds of its API, in each of their versions; in the order of kinds and versions."""

    @classmethod
    def load(cls, start: Path | None = None) -> Project:
        """The project of the folder `start` (by default the current one) or of the nearest folder above it.

        Raises ConfigError when there is none, when its settings are wrong, or its program can't be imported.
        """
        root = find_root(start)
        settings = Settings.read(root / "pyproject.toml")
        manager = _load_manager(root, settings.manager)
        return cls(root, settings, manager, _kinds(root, settings.manager, manager))

    def manifests(self) -> Manifests:
        """What a cluster needs to run it."""
        return render(self.manager, self.kinds, self.settings)


def find_root(start: Path | None = None) -> Path:
    """The folder `start` (by default the current one), or the nearest above it, that has a pyproject.toml."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise ConfigError(f"no pyproject.toml in {start} or above it; run this in the folder of an operator's project")


def _load_manager(root: Path, reference: str) -> Manager:
    module_name, _, variable = reference.partition(":")
    for folder in (root / "src", root):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        module = _import(root, module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'{root / "pyproject.toml"}: there is no module "{module_name}" (tool.kubewright.manager)'
        ) from error
    found = getattr(module, variable or "manager", None)
    if not isinstance(found, Manager):
        raise ConfigError(f'"{reference}" (tool.kubewright.manager) is not a Manager, but {type(found).__name__}')
    return found


def _kinds(root: Path, reference: str, manager: Manager) -> list[type[CustomResource]]:
    parent = reference.partition(":")[0].rpartition(".")[0]
    if parent and importlib.util.find_spec(f"{parent}.api") is not None:
        package = _import(root, f"{parent}.api")
        try:
            return kinds_of(package)
        except Exception as error:
            raise _import_failed(root, package.__name__, error) from error
    kinds = {each.kind for each in manager.controllers if issubclass(each.kind, CustomResource)}
    return sorted(kinds, key=lambda kind: kind.__api__.kind)


def _import(root: Path, name: str) -> ModuleType:
    """The module of that name. Raises ModuleNotFoundError when there is none, and ConfigError when it fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise
        raise _import_failed(root, name, error) from error
    except Exception as error:
        raise _import_failed(root, name, error) from error


def _import_failed(root: Path, module: str, error: Exception) -> ConfigError:
    """What went wrong, and where in the project: a traceback would show more of this command than of the program."""
    if isinstance(error, SyntaxError):
        file, line, what = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
        file, line, what = (own or frames)[-1].filename, (own or frames)[-1].lineno, str(error)
    return ConfigError(f'{file}, line {line}: {type(error).__name__}: {what} (on import of "{module}")')
