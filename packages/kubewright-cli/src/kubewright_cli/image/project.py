"""What of a project goes into its image: what it requires, its sources, and how it is started."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.wheels import Requirements
from kubewright_cli.manifests.settings import NO_MANAGER, Settings

_LOCKS: Final = ("pylock.toml", "requirements.lock", "requirements.txt")
_NOISE: Final = ("__pycache__", ".pyc", ".DS_Store")


class _Project(msgspec.Struct, rename="kebab"):
    requires_python: str = ""
    dependencies: tuple[str, ...] = ()


class _File(msgspec.Struct):
    """What the settings have not of a pyproject.toml."""

    project: _Project = msgspec.field(default_factory=_Project)


@dataclass(frozen=True, slots=True)
class ImageProject:
    """The project in the folder `root`."""

    root: Path
    settings: Settings
    dependencies: tuple[str, ...]
    requires_python: str
    """`>=3.11`; nothing when any will do."""

    @classmethod
    def read(cls, root: Path) -> ImageProject:
        """ConfigError when its pyproject.toml does not say what is needed."""
        path = root / "pyproject.toml"
        settings = Settings.read(path)
        if not settings.manager:
            raise ConfigError(f"{path}: {NO_MANAGER}")
        try:
            file = msgspec.toml.decode(path.read_bytes(), type=_File)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}: {error}") from error
        return cls(root, settings, file.project.dependencies, file.project.requires_python)

    def check_python(self, version: str) -> None:
        """ConfigError when the project is not for this Python, `3.13`."""
        try:
            fits = SpecifierSet(self.requires_python).contains(f"{version}.99")
        except InvalidSpecifier as error:
            raise ConfigError(f"{self.root / 'pyproject.toml'}: project.requires-python: {error}") from error
        if not fits:
            raise ConfigError(
                f"the base has Python {version}, and {self.settings.name} needs {self.requires_python} "
                "(project.requires-python); choose another base"
            )

    @property
    def module(self) -> str:
        """What is started: `python -m <module>`."""
        return self.settings.manager.partition(":")[0]

    def requirements(self, scratch: Path, find_links: tuple[Path, ...] = ()) -> Requirements:
        """What to install: from pylock.toml, requirements.lock, requirements.txt or uv.lock, the first that is there;
        else what `project.dependencies` comes to today.
        """
        for name in _LOCKS:
            if (self.root / name).is_file():
                return Requirements(self.root / name, (), find_links)
        if (self.root / "uv.lock").is_file():
            return Requirements(self._export(scratch / "requirements.txt"), (), find_links)
        return Requirements(None, self.dependencies, find_links)

    def sources(self) -> Path:
        """The folder that Python imports the program from."""
        package = self.settings.package
        for folder in (self.root / "src", self.root):
            if (folder / package).is_dir() or (folder / f"{package}.py").is_file():
                return folder
        raise ConfigError(f"{self.root}: there is no package {package} in it, nor in src (tool.kubewright.manager)")

    def copy_sources(self, into: Path) -> None:
        """Copy the package of the program, and what stands beside it in `src`."""
        origin = self.sources()
        package = self.settings.package
        chosen = [origin / package, origin / f"{package}.py"] if origin == self.root else sorted(origin.iterdir())
        into.mkdir(parents=True, exist_ok=True)
        for path in chosen:
            if path.is_dir() and not path.name.endswith(".egg-info"):
                shutil.copytree(path, into / path.name, symlinks=True, ignore=_without_noise)
            elif path.is_file():
                shutil.copy2(path, into / path.name)
        name, version = self.settings.name, self.settings.version
        metadata = into / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def _export(self, path: Path) -> Path:
        uv = shutil.which("uv")
        if uv is None:
            raise ConfigError(
                f"{self.root / 'uv.lock'} can be read by uv alone; install uv, or write requirements.lock"
            )
        command = [uv, "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", f"--output-file={path}"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigError(f"uv can't read {self.root / 'uv.lock'}:\n{done.stderr.strip()}")
        return path


def _without_noise(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name.endswith(_NOISE)}
