"""The project that a command works on: its pyproject.toml, and the program that it names.

[tool.kubewright]
manager = "webserver_operator.main:manager"
"""

from __future__ import annotations

import importlib
import sys
import tomllib
import traceback
from dataclasses import dataclass
from pathlib import Path

from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.models import CustomResource


@dataclass(frozen=True, slots=True)
class Project:
    """An operator's project."""

    root: Path
    name: str
    manager: Manager

    @classmethod
    def load(cls, start: Path | None = None) -> Project:
        """The project of the folder `start` (by default the current one) or of the nearest folder above it.

        Raises ConfigError when there is none, or its program can't be imported.
        """
        root = _find_root((start or Path.cwd()).resolve())
        document = _read(root / "pyproject.toml")
        settings = document.get("tool", {}).get("kubewright")
        if settings is None or not isinstance(settings.get("manager"), str):
            raise ConfigError(
                f"{root / 'pyproject.toml'}: [tool.kubewright] names no manager; "
                'add manager = "package.module:variable"'
            )
        name = str(document.get("project", {}).get("name", root.name))
        return cls(root, name, _load_manager(root, settings["manager"]))

    @property
    def kinds(self) -> list[type[CustomResource]]:
        """The custom resources that the project's controllers are for, in the order of their names."""
        kinds = {each.kind for each in self.manager.controllers if issubclass(each.kind, CustomResource)}
        return sorted(kinds, key=lambda kind: kind.__api__.kind)


def _find_root(start: Path) -> Path:
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise ConfigError(f"no pyproject.toml in {start} or above it; run this in the folder of an operator's project")


def _read(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _load_manager(root: Path, reference: str) -> Manager:
    module_name, _, variable = reference.partition(":")
    for folder in (root / "src", root):
        if folder.is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _import_failed(root, reference, error) from error
        raise ConfigError(
            f'{root / "pyproject.toml"}: there is no module "{module_name}" (tool.kubewright.manager)'
        ) from error
    except Exception as error:
        raise _import_failed(root, reference, error) from error
    found = getattr(module, variable or "manager", None)
    if not isinstance(found, Manager):
        raise ConfigError(f'"{reference}" (tool.kubewright.manager) is not a Manager, but {type(found).__name__}')
    return found


def _import_failed(root: Path, reference: str, error: Exception) -> ConfigError:
    """What went wrong, and where in the project: a traceback would show more of this command than of the program."""
    if isinstance(error, SyntaxError):
        file, line, what = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
        file, line, what = (own or frames)[-1].filename, (own or frames)[-1].lineno, str(error)
    return ConfigError(f'{file}, line {line}: {type(error).__name__}: {what} (on import of "{reference}")')
