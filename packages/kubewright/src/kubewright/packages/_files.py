"""The files of a package: operator.yaml, params.yaml and templates, in a folder or an archive (.tgz).

Follows the reader of KUDO 0.19. What KUDO ignores, such as a field that it does not know, is a warning here.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError, PackageError
from kubewright.machinery.folders import FILES_LIMIT, SIZE_LIMIT, files_below
from kubewright.machinery.json import JSONObject
from kubewright.models import Struct
from kubewright.models import field as model_field
from kubewright.packages._api import GROUP, VERSION, Maintainer, Plan, Task
from kubewright.packages._finding import Finding, Level, Path, key_of, yaml_fault
from kubewright.packages._fitting import fitted

T = TypeVar("T", bound=Struct)
OPERATOR: Final = "operator.yaml"
PARAMS: Final = "params.yaml"
TEMPLATES: Final = "templates/"
_API_VERSION: Final = f"{GROUP}/{VERSION}"


class OperatorFile(Struct):
    """The content of operator.yaml."""

    api_version: str = _API_VERSION
    name: str = ""
    description: str = ""
    operator_version: str = ""
    app_version: str = ""
    kudo_version: str = ""
    kubernetes_version: str = ""
    maintainers: list[Maintainer] = []
    url: str = ""
    tasks: list[Task] = []
    plans: dict[str, Plan] = {}
    namespace_manifest: str = ""


class ParameterEntry(Struct):
    """A parameter of params.yaml."""

    name: str = ""
    display_name: str = ""
    description: str = ""
    required: bool = True
    default: Any = None
    trigger: str = ""
    type: str = ""
    immutable: bool = False
    enum: list[Any] | None = None
    group: str = ""
    advanced: bool = False
    hint: str = ""


class ParameterGroup(Struct):
    """A group of parameters, for user interfaces."""

    name: str = ""
    display_name: str = ""
    description: str = ""
    priority: int = model_field(default=0, name="prio")


class ParamsFile(Struct):
    """The content of params.yaml."""

    api_version: str = _API_VERSION
    groups: list[ParameterGroup] = []
    parameters: list[ParameterEntry] = []


class PackageFolder(ABC):
    """Where the files of a package are, and those of packages that it depends on."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The place, for messages."""

    @abstractmethod
    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of the package, by their paths in it. Raises ConfigError."""

    @abstractmethod
    def child(self, path: str) -> PackageFolder | None:
        """Return the package at a path relative to this one; None if there is none."""


class _Directory(PackageFolder):
    def __init__(self, folder: FilePath) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return str(self._folder)

    def texts(self) -> Iterator[tuple[str, bytes]]:
        paths = [path for name in (OPERATOR, PARAMS) if (path := self._folder / name).is_file()]
        for path in (*paths, *files_below(self._folder / TEMPLATES)):
            self._require_inside(path)
            yield path.relative_to(self._folder).as_posix(), path.read_bytes()

    def _require_inside(self, path: FilePath) -> None:
        """Raise ConfigError for a link to a file outside of the package, which an installation would publish."""
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise ConfigError(f"{path}: is a link to {path.resolve()}, outside of the package; copy the file into it")

    def child(self, path: str) -> PackageFolder | None:
        found = self._folder / path
        return package_folder(found) if found.exists() else None


class _Archive(PackageFolder):
    def __init__(self, name: str, files: dict[str, bytes], root: str = "/") -> None:
        self._name = name
        self._files = files
        self._root = root

    @property
    def name(self) -> str:
        return self._name + self._root.rstrip("/")

    def texts(self) -> Iterator[tuple[str, bytes]]:
        prefix = f"{self._root.rstrip('/')}/"
        for path in sorted(self._files):
            if path.startswith(prefix):
                yield path.removeprefix(prefix), self._files[path]

    def child(self, path: str) -> PackageFolder | None:
        root = posixpath.normpath(posixpath.join(self._root, path))
        return _Archive(self._name, self._files, root) if f"{root.rstrip('/')}/{OPERATOR}" in self._files else None


def package_folder(path: FilePath) -> PackageFolder:
    """Return the place of a package: a folder, or an archive (.tgz). Raises ConfigError."""
    if path.is_dir():
        return _Directory(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no package; name a folder with an operator.yaml, or a .tgz file")
    return _Archive(str(path), _archived(path))


def _archived(path: FilePath) -> dict[str, bytes]:
    """Return the files of an archive, by their paths from /. Raises ConfigError."""
    found: dict[str, bytes] = {}
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompressed(path))) as archive:
            for member in archive:
                if len(found) == FILES_LIMIT:
                    raise ConfigError(f"{path}: there are more than {FILES_LIMIT} files; remove some")
                size += member.size  # of a sparse file, more than the archive has
                if size > SIZE_LIMIT:
                    raise ConfigError(f"{path}: the files take more than {SIZE_LIMIT} bytes; remove some")
                content = archive.extractfile(member) if member.isfile() else None
                found[posixpath.normpath(f"/{member.name}")] = (content or io.BytesIO()).read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ConfigError(f"{path}: not a package: {error}; name a folder, or a .tgz file") from error
    return found


def _decompressed(path: FilePath) -> bytes:
    """Return the content of a compressed file. Raises ConfigError if it is too long."""
    with gzip.open(path) as file:
        content = file.read(SIZE_LIMIT + 1)
    if len(content) > SIZE_LIMIT:
        raise ConfigError(f"{path}: the files take more than {SIZE_LIMIT} bytes; remove some")
    return content


@dataclass(frozen=True, slots=True)
class Package:
    """The content of a package, and its text for messages."""

    folder: PackageFolder
    operator: OperatorFile
    params: ParamsFile
    templates: dict[str, str]
    """The templates, by their names: the paths below `templates/`."""
    texts: dict[str, str]
    """The files, by their paths in the package."""
    notes: list[Finding] = field(default_factory=list[Finding])
    """What was ignored when the package was read."""
    _lines: dict[str, dict[Path, int]] = field(default_factory=dict[str, dict[Path, int]])

    @classmethod
    def load(cls, path: FilePath | PackageFolder) -> Package:
        """Read a package from a folder or an archive.

        Raises PackageError if a file cannot be read, and ConfigError if there is no package.
        """
        folder = path if isinstance(path, PackageFolder) else package_folder(path)
        return _Reader(folder).read()

    def finding(
        self, rule: str, message: str, file: str, *path: str | int, line: int = 0, level: Level = "error"
    ) -> Finding:
        """Return a finding about a field of a file."""
        return Finding(file, line or self.line(file, path), key_of(path), rule, message, level)

    def line(self, file: str, path: Path) -> int:
        """Return the line of a field, or that of the nearest field around it; 0 for the whole file."""
        if path and file not in self._lines:
            self._lines[file] = yaml.key_lines(self.texts[file])
        return line_of(self._lines[file], path) if path else 0


def line_of(lines: dict[Path, int], path: Path) -> int:
    """Return the line of a field, or that of the nearest field around it; 0 for the whole file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


class _Reader:
    """Reads a package, and collects what is wrong with it."""

    def __init__(self, folder: PackageFolder) -> None:
        self._folder = folder
        self._texts: dict[str, str] = {}
        self._notes: list[Finding] = []

    def read(self) -> Package:
        templates: dict[str, str] = {}
        for path, content in self._folder.texts():
            if path in (OPERATOR, PARAMS) or (path.startswith(TEMPLATES) and ".yaml" in posixpath.basename(path)):
                self._texts[path] = self._decoded(path, content)
                if path.startswith(TEMPLATES):
                    templates[path.split(TEMPLATES)[-1]] = self._texts[path]
        self._require_files()
        operator, params = self._parsed(OPERATOR, OperatorFile), self._parsed(PARAMS, ParamsFile)
        return Package(self._folder, operator, params, templates, self._texts, self._notes)

    def _decoded(self, path: str, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise PackageError(f"{path}:{line}: not UTF-8 text; save it as UTF-8", file=path, line=line) from error

    def _require_files(self) -> None:
        for each in (OPERATOR, PARAMS):
            if each not in self._texts:
                raise PackageError(f"{self._folder.name}: there is no {each}; a package needs one", file=each)

    def _parsed(self, file: str, cls: type[T]) -> T:
        document = self._document(file)
        lines = yaml.key_lines(self._texts[file])
        errors: list[Finding] = []

        def error(path: Path, message: str) -> None:
            errors.append(Finding(file, line_of(lines, path), key_of(path), "type", message))

        def warning(path: Path, message: str) -> None:
            self._notes.append(Finding(file, line_of(lines, path), key_of(path), "unknown-field", message, "warning"))

        for duplicate in yaml.duplicate_keys(self._texts[file]):
            place, _, what = duplicate.removeprefix("line ").partition(": ")
            self._notes.append(
                Finding(file, int(place), "", "duplicate-key", f"{what}; the last one counts", "warning")
            )
        result = fitted(document, cls, error, warning)
        if document.get("apiVersion") not in (None, "", _API_VERSION):
            error(("apiVersion",), f'must be "{_API_VERSION}", got "{document["apiVersion"]}"')
        if errors:
            text = "\n".join(map(str, errors))
            raise PackageError(text, file=file, line=errors[0].line, key=errors[0].key)
        return result

    def _document(self, file: str) -> JSONObject:
        try:
            return yaml.load(self._texts[file])
        except DecodeError as error:
            line, what = yaml_fault(str(error))
            raise PackageError(f"{file}:{line}: {what}" if line else f"{file}: {what}", file=file, line=line) from error
