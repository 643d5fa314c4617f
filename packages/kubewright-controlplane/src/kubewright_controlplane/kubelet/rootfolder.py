"""The root folder of a container in a sandbox: a folder of its own, above a base that it can only read.

The base is this machine, or the folder with the files of an image. Of this machine, a container sees the system
directories, and the files that its image names. Directories at the top of the base are mounted. Directories in which
programs usually write, and those that contain a mount point, are real directories, and each of their entries is a link
to the base, which is mounted at `BASE`. So a program can create and replace files there, and the base does not change.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

BASE: Final = "/.image"
"""Where a container finds the base."""
MACHINE: Final = Path("/")
SYSTEM: Final = ("bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr")
"""The directories of this machine that containers see."""
_OWN: Final = ("/tmp", "/var/tmp", "/run", "/mnt", "/media", "/home", "/root", "/srv")
"""Directories in which each container has only its own files, if it sees the files of this machine."""
_SHARED_MODE: Final = 0o1777
_WRITTEN: Final = ("/etc", "/var", "/var/lib", "/var/log", "/var/cache", "/var/spool")
"""Directories in which programs create files."""
_KERNEL: Final = ("/dev", "/proc", "/sys")
_SEPARATORS: Final = re.compile(r"[\s:;,='\"]+")
"""What separates paths in commands for a shell, and in variables."""
_MOST_LINKS: Final = 40
"""The symbolic links that are followed in one path, as in Linux."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine that a container sees at `target`."""

    source: Path
    target: str
    read_only: bool
    within: str = ""
    """A path below `source`, in which no symbolic link is followed: programs can write there."""

    @property
    def is_folder(self) -> bool:
        return self.source.is_dir() and not (self.source / self.within).is_file()

    @property
    def place(self) -> Path:
        return self.source / self.within


class View:
    """Where the paths of a container are on this machine."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        """`places` are the mounts, by the paths of the container."""
        self._places = {PurePosixPath(target): source for target, source in places.items()}

    def locate(self, path: str) -> tuple[PurePosixPath, Path]:
        """Return a path of the container with its links followed, and where it is on this machine.

        Parts that do not exist are kept. Raises OSError for a loop of links.
        """
        at, rest, links = PurePosixPath("/"), list(reversed(PurePosixPath("/", path).parts[1:])), 0
        while rest:
            part = rest.pop()
            if part == "..":
                at = at.parent
                continue
            here = self._place(at / part)
            if not here.is_symlink():
                at /= part
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{path}: too many symbolic links")
            target = PurePosixPath(os.readlink(here))
            if target.is_absolute():
                at = PurePosixPath("/")
            rest.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        return at, self._place(at)

    def program(self, name: str, path: str) -> Path | None:
        """Return the executable file that a container runs for `name`, with this PATH; None if there is none."""
        candidates = [name] if "/" in name else [f"{folder}/{name}" for folder in path.split(":") if folder]
        for each in candidates:
            with suppress(OSError):
                found = self.locate(each)[1]
                if found.is_file() and os.access(found, os.X_OK):
                    return found
        return None

    def _place(self, path: PurePosixPath) -> Path:
        for target in (path, *path.parents):
            if target in self._places:
                return self._places[target] / path.relative_to(target)
        raise LookupError(path)


@dataclass(slots=True)
class RootFolder:
    """A root folder that was built: what is mounted in it, in this order."""

    root: Path
    base: Path
    shown: Sequence[str] = ()
    """What the image names on this machine."""
    folders: list[str] = field(default_factory=list[str])
    """Directories of the base that are mounted."""
    mounts: list[Mount] = field(default_factory=list[Mount])

    def base_mounts(self) -> Iterator[tuple[str, str]]:
        """Yield what is mounted read-only before the volumes: where it is on this machine, and the target."""
        if self.base == MACHINE:
            yield from ((f"/{name}", f"{BASE}/{name}") for name in SYSTEM if _is_real_folder(MACHINE / name))
        else:
            yield str(self.base), BASE
        yield from ((f"{str(self.base).rstrip('/')}{each}", each) for each in self.folders)
        yield from ((each, each) for each in self.shown)

    def view(self) -> View:
        """Return where the paths of the container are on this machine."""
        places = {"/": self.root, **{target: Path(source) for source, target in self.base_mounts()}}
        return View(places | {each.target: each.place for each in self.mounts})


def build(root: Path, base: Path, mounts: Iterable[Mount], working_folder: str, shown: Sequence[str]) -> RootFolder:
    """Build a root folder in place of `root`, with mount points for `mounts` and a working folder.

    `shown` are files and folders that the container sees at the same paths as this machine.
    """
    with suppress(FileNotFoundError):
        shutil.rmtree(root)
    root.mkdir(parents=True)
    root.chmod(0o755)
    origin = _origin(root, base)
    placed = {str(origin.locate(each.target)[0]): each for each in mounts}
    built = RootFolder(root, base, shown)
    built.mounts = [replace(placed[target], target=target) for target in sorted(placed)]
    place = str(origin.locate(working_folder)[0])
    own = [str(origin.locate(each)[0]) for each in (*_OWN, *_WRITTEN)]
    created = [] if origin.locate(working_folder)[1].is_dir() else [place]
    leaves = {*_KERNEL, *placed, *shown, *created}
    opened = {"/", *own, *(str(parent) for each in leaves for parent in PurePosixPath(each).parents)}
    _fill(built, "/", opened, leaves)
    for each in (*own, *_KERNEL, BASE):
        _folder(root, each)
    for each in ("/tmp", "/var/tmp"):
        _folder(root, str(origin.locate(each)[0])).chmod(_SHARED_MODE)
    for mount in (*(Mount(Path(each), each, read_only=True) for each in shown), *built.mounts):
        around = [each for each in built.mounts if _is_below(mount.target, [each.target])]
        if around:
            above = around[-1]
            _mount_point(above.source, mount, f"{above.within}/{mount.target.removeprefix(above.target)}")
        elif not _is_below(mount.target, [*_KERNEL, *shown]):
            _mount_point(root, mount, mount.target)
    for each in created:
        if not _is_below(each, [*_KERNEL, *placed, *shown]):
            _folder(root, each)
    return built


def _origin(root: Path, base: Path) -> View:
    """Return where the paths of the container are before anything is mounted: the base's links are followed."""
    if base != MACHINE:
        return View({"/": base})
    return View({"/": root, **{f"/{name}": MACHINE / name for name in SYSTEM}})


def _fill(built: RootFolder, folder: str, opened: set[str], leaves: set[str]) -> None:
    """Create the entries of a folder of the base in the root folder."""
    with suppress(PermissionError, FileNotFoundError), os.scandir(f"{built.base}{folder}") as entries:
        for entry in entries:
            if folder == "/" and built.base == MACHINE and entry.name not in SYSTEM:
                continue
            path = f"{folder.rstrip('/')}/{entry.name}"
            target = f"{built.root}{path}"
            if path in leaves or path == BASE:
                continue
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
            elif entry.is_dir() and (path in opened or _is_written_by_image(built, path)):
                _folder(built.root, path).chmod(entry.stat().st_mode & 0o7777 | stat.S_IRWXU)
                _fill(built, path, opened, leaves)
            elif entry.is_dir() and folder == "/":
                os.mkdir(target, 0o755)
                built.folders.append(path)
            else:
                os.symlink(f"{BASE}{path}", target)


def _is_written_by_image(built: RootFolder, path: str) -> bool:
    """Return whether programs may write anywhere below a folder, because it is an image's own."""
    return built.base != MACHINE and (path in (*_OWN, *_WRITTEN) or _is_below(path, (*_OWN, *_WRITTEN)))


def _mount_point(above: Path, mount: Mount, path: str) -> None:
    """Create a mount point at `path` below `above`. Raises OSError if a symbolic link is on the way."""
    if mount.is_folder:
        make_below(above, path, 0o755)
        return
    make_file_below(above, path, 0o644)


def make_below(folder: Path, path: str, mode: int) -> None:
    """Create a folder below `folder` unless `path` exists. Raises OSError if there is a symbolic link on the way."""
    with _parent(folder, path, mode) as (above, name):
        _make(name, above, mode)


def make_file_below(folder: Path, path: str, mode: int) -> None:
    """Create a file below `folder` unless `path` exists. Raises OSError if there is a symbolic link on the way."""
    with _parent(folder, path, 0o755) as (above, name), suppress(FileExistsError):
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=above))


@contextmanager
def _parent(folder: Path, path: str, mode: int) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the folder above `path`, which is created, and the name in it."""
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    *parts, last = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    try:
        for part in parts:
            _make(part, above, mode)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = inner
        yield above, last
    finally:
        os.close(above)


def _make(name: str, above: int, mode: int) -> None:
    """Create a folder, unless something of that name exists. A program may replace it at any time."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        try:
            os.fchmod(made, mode)
        finally:
            os.close(made)


def _folder(root: Path, path: str) -> Path:
    """Create a folder and the folders above it, readable by everyone. Raises OSError if a link is on the way."""
    found = root
    for part in PurePosixPath(path).parts[1:]:
        found /= part
        if found.is_symlink():
            raise OSError(f"cannot create the folder {path}: {part} is a link")
        found.mkdir(exist_ok=True)
    return found


def absolute(path: str) -> str:
    """Return a path of a container, from its root and without `..`."""
    return os.path.normpath(f"/{path.lstrip('/')}")


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(str(parent) in folders for parent in PurePosixPath(path).parents)


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


# ---- what an image names -----------------------------------------------------------------------------------------


def shown_paths(words: Iterable[str]) -> list[str]:
    """Return the files and folders that a container needs to see so that it finds all paths in `words`.

    A program in a folder `bin` comes with the folder above, such as a virtual environment; any other file with its
    folder. Links are followed. System directories and home folders are left out.
    """
    found: set[str] = set()
    for word in (part for each in words for part in (each, *_SEPARATORS.split(each))):
        if word.startswith("/") and os.path.exists(word):
            found |= {_needed(path) for path in _chain(os.path.normpath(word))}
    found |= {each for folder in found for each in _editable_installs(folder)}
    return sorted(each for each in found if each and not _is_below(each, list(found)))


def _chain(path: str) -> Iterator[str]:
    """Yield a path, and those that its links lead to."""
    for _ in range(_MOST_LINKS):
        yield path
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    yield os.path.realpath(path)


def _editable_installs(environment: str) -> Iterator[str]:
    """Yield the folders that a virtual environment of Python refers to."""
    for file in Path(environment).glob("lib/python*/site-packages/*.pth") if environment else ():
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("/") and os.path.isdir(line):
                yield _needed(line)


def _needed(path: str) -> str:
    """Return what has to be mounted for a path; nothing for system directories."""
    if path.split("/")[1] in (*SYSTEM, "", "dev", "proc", "sys"):
        return ""
    if os.path.isdir(path):
        return path if _may_be_shown(path) else ""
    folder = os.path.dirname(path)
    above = os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder
    return next((each for each in (above, folder) if _may_be_shown(each)), path)


def _may_be_shown(folder: str) -> bool:
    """Return whether a folder is neither at the top of the file system nor a home folder."""
    parts = PurePosixPath(folder).parts
    return len(parts) > 2 and folder != os.path.expanduser("~") and not (parts[1] == "home" and len(parts) < 4)
