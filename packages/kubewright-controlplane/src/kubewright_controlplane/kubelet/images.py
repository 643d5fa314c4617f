"""Images that run as commands on this machine: the image table, and stand-ins for common images.

The table is a file that only its user can write. An entry `nginx:*` matches every tag and digest of `nginx`; an entry
with the exact name has priority. `docker.io/library/nginx` is `nginx`, as in container engines.

A client with access to the API alone can't start processes through the table: the path of the file is in the
kubeconfig that `kubewright up` writes (`kubewright.client.embedded`).

Stand-ins, used only on request:
    nginx      a small web server on port 80. It serves what is mounted at /usr/share/nginx/html, or else a page with
               the names of the image and the Pod. It reads no nginx configuration and accepts no arguments
    busybox    `sh` and the programs on this machine
    agnhost    the commands of Kubernetes' test image that need no more than a network and files
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.kubelet.helpers import agnhost, static_web
from kubewright_controlplane.kubelet.rootfolder import shown_paths

_WRITABLE_BY_OTHERS: Final = 0o022
"""The mode bits that let other users write."""


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """How to run containers of an image, as in the configuration of an OCI image."""

    command: tuple[str, ...]
    """The entry point; empty if `args` are the whole command. A container's `command` replaces it."""
    args: tuple[str, ...] = ()
    """Arguments of the entry point. A container's `command` or `args` replace them."""
    env: dict[str, str] = {}
    working_dir: str = ""
    """A folder on this machine. The default is the root folder of the container."""
    root: str = ""
    """A folder on this machine with the files of the image, which a container in a sandbox sees as `/`. Without it,
    the container sees the files of this machine. It can change neither.
    """
    folders: tuple[str, ...] = ()
    """Folders on this machine that a container in a sandbox can also read. It sees the system folders, and what the
    command, the arguments, the variables and the working folder name, anyway.
    """
    sandbox: bool = True
    """Whether containers run in a sandbox, if this machine has bubblewrap."""
    ports: tuple[int, ...] = ()
    """The ports that the program opens, in addition to those that a container declares."""

    @property
    def base(self) -> Path:
        """The folder with the files that a container in a sandbox sees."""
        return Path(self.root or "/").resolve()

    def shown(self) -> list[str]:
        """Return what a container in a sandbox sees at the same path as this machine."""
        named = () if self.root else (*self.command, *self.args, self.working_dir, *self.env.values())
        return sorted({*shown_paths(named), *self.folders})


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    images: dict[str, Image] = {}


def images_in(path: Path) -> Mapping[str, Image]:
    """Return the images of a YAML or JSON file in the format of the image table.

    Raises ConfigError if the file can't be read or has another format.
    """
    try:
        return msgspec.convert(yaml.load(path.read_text()), _Table).images
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; write images: {{NAME: {{command: [PROGRAM, ...]}}}}") from error


class ImageTable:
    """The images that have a command, by the names that Pods use.

    The `given` images are not written to the file. An entry of the file has priority over them.
    """

    def __init__(self, path: Path, given: Mapping[str, Image] | None = None) -> None:
        self.path = path
        self._given = dict(given or {})
        self._read_at: tuple[int, int, int] | None = None
        self._images: dict[str, Image] = {}

    def get(self, name: str) -> Image | None:
        """Return the current entry of an image. Raises ConfigError if the file is damaged or writable by others."""
        short, written = _short(name), self._current()
        names = (name, short, f"{_repository(short)}:*")
        tables = (written, self._given)
        return next((table[each] for each in names for table in tables if each in table), None)

    def put(self, name: str, image: Image) -> None:
        """Set the entry of an image. Containers that are running are not affected."""
        with self._changing() as images:
            images[name] = image

    def remove(self, name: str) -> None:
        """Remove the entry of an image, if there is one. New containers of the image are simulated."""
        with self._changing() as images:
            images.pop(name, None)

    def _current(self) -> dict[str, Image]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        if found.st_uid != os.getuid() or found.st_mode & _WRITABLE_BY_OTHERS:
            raise ConfigError(
                f"{self.path}: other users can write this file, and so choose what runs on this machine; "
                f"the file is ignored until only its owner can write it: chmod go-w {self.path}"
            )
        now = (found.st_mtime_ns, found.st_size, found.st_ino)
        if now != self._read_at:
            try:
                self._images = msgspec.json.decode(self.path.read_bytes(), type=_Table).images
            except msgspec.MsgspecError as error:
                raise ConfigError(f"{self.path}: {error}; correct it, or remove it and deploy again") from error
            self._read_at = now
        return self._images

    @contextmanager
    def _changing(self) -> Generator[dict[str, Image]]:
        """Yield the entries, and write them back atomically. One process at a time."""
        import fcntl  # not available on every platform

        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            images = dict(self._current())
            yield images
            descriptor, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_Table(images)), indent=2) + b"\n")
            Path(temporary).replace(self.path)
        finally:
            os.close(folder)


def _short(name: str) -> str:
    """Return the name of an image without the default registry."""
    return name.removeprefix("docker.io/").removeprefix("library/")


def _repository(name: str) -> str:
    """Return the name of an image without its tag and digest."""
    name = name.partition("@")[0]
    tagged, colon, tag = name.rpartition(":")
    return tagged if colon and "/" not in tag else name


_HTML: Final = "usr/share/nginx/html"
"""Relative to the root folder of the container, which is the working folder of its program."""

STAND_INS: Final[Mapping[str, Image]] = {
    "nginx:*": Image(
        (sys.executable, "-I", "-S", str(Path(static_web.__file__)), _HTML, "$(KUBEWRIGHT_PORT_80)"), ports=(80,)
    ),
    "busybox:*": Image((), args=("sh",)),  # without an entry point, like the image: `args` replace the shell
    "registry.k8s.io/e2e-test-images/agnhost:*": Image(
        (sys.executable, "-I", "-S", str(Path(agnhost.__file__))), args=("pause",)
    ),
}
"""For `Environment(images=STAND_INS)`, `Demo(images=STAND_INS, ...)` and `kubewright up --stand-ins`."""
