"""The parts of a project that an image needs: requirements, sources, and the module to start."""

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
_UV: Final = "uv.lock"
_NOISE: Final = ("__pycache__", ".pyc", ".DS_Store")


class _Project(msgspec.Struct, rename="kebab"):
    requires_python: str = ""
    dependencies: tuple[str, ...] = ()


class _File(msgspec.Struct):
    """The fields of pyproject.toml that Settings does not have."""

    project: _Project = msgspec.field(default_factory=_Project)


@dataclass(frozen=True, slots=True)
class ImageProject:
    """The project in the folder `root`."""

    root: Path
    settings: Settings
    dependencies: tuple[str, ...]
    requires_python: str
    """`>=3.11`; empty for any version."""

    @classmethod
    def read(cls, root: Path) -> ImageProject:
        """Read the project. Raises ConfigError if its pyproject.toml is incomplete."""
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
        """Raise ConfigError if the project does not support this Python, `3.14`."""
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
        """The module to start: `python -m <module>`."""
        return self.settings.manager.partition(":")[0]

    def requirements(self, scratch: Path, find_links: tuple[Path, ...] = ()) -> Requirements:
        """Return the requirements: from `lock` if there is one, else from `project.dependencies`."""
        lock = self.lock
        if lock is None:
            return Requirements(None, self.dependencies, find_links)
        if lock.name == _UV:
            return Requirements(self._export(scratch / "requirements.txt"), (), find_links)
        return Requirements(lock, (), find_links)

    @property
    def lock(self) -> Path | None:
        """The file that the requirements come from: the first of pylock.toml, requirements.lock, requirements.txt and
        uv.lock that exists; None if they come from `project.dependencies`.
        """
        files = (self.root / name for name in (*_LOCKS, _UV))
        return next((each for each in files if each.is_file()), None)

    def sources(self) -> Path:
        """Return the folder that Python imports the program from."""
        package = self.settings.package
        for folder in (self.root / "src", self.root):
            if (folder / package).is_dir() or (folder / f"{package}.py").is_file():
                return folder
        raise ConfigError(f"{self.root}: there is no package {package} here or in src (tool.kubewright.manager)")

    def copy_sources(self, into: Path) -> None:
        """Copy the package of the program, and everything else in `src`."""
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
            raise ConfigError(f"{self.root / 'uv.lock'} needs uv to be read; install uv, or write requirements.lock")
        command = [uv, "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", f"--output-file={path}"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigError(f"uv cannot read {self.root / 'uv.lock'}:\n{done.stderr.strip()}")
        return path


def _without_noise(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name.endswith(_NOISE)}
