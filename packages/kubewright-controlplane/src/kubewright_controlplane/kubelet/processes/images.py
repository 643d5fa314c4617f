"""Which images are commands of this machine: a file that only its user can write, and what the control plane was given.

An entry `nginx:*` is for every tag and digest of `nginx`; one for the very name goes before it.
`docker.io/library/nginx` is `nginx`, as it is for container engines.

Whoever can write to the API alone can not start processes with it: the file is found through the kubeconfig that
`kubewright up` writes (`kubewright.client.embedded`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError

_OTHERS: Final = 0o022
"""The bits of a mode that let others write."""


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What an image says of its containers, as in the configuration of an OCI image."""

    command: tuple[str, ...]
    """The entry point; a container's `command` takes its place."""
    args: tuple[str, ...] = ()
    """Arguments for it; a container's `command` or `args` take their place."""
    env: dict[str, str] = {}
    working_dir: str = ""
    """A folder of this machine; without one, the root of the container."""
    ports: tuple[int, ...] = ()
    """The ports that its program opens, whether a container declares them or not."""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    images: dict[str, Image] = {}


def images_in(path: Path) -> Mapping[str, Image]:
    """The images of a file that its user has written, in YAML or JSON: a table as that of a control plane.

    Raises ConfigError when there is none, or it is something else.
    """
    try:
        return msgspec.convert(yaml.load(path.read_text()), _Table).images
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; write images: {{NAME: {{command: [PROGRAM, ...]}}}}") from error


class ImageTable:
    """The images that have a command, by the names that Pods call them by.

    Those that are `given` are not written to the file; an entry of the file goes before a given one.
    """

    def __init__(self, path: Path, given: Mapping[str, Image] | None = None) -> None:
        self.path = path
        self._given = dict(given or {})
        self._read_at: tuple[int, int, int] | None = None
        self._images: dict[str, Image] = {}

    def get(self, name: str) -> Image | None:
        """What the table says of an image now. Raises ConfigError when it is damaged, or others may write it."""
        short, written = _short(name), self._current()
        names = (name, short, f"{_repository(short)}:*")
        tables = (written, self._given)
        return next((table[each] for each in names for table in tables if each in table), None)

    def put(self, name: str, image: Image) -> None:
        """From now on containers of that image run as it says. Those that run already go on as they are."""
        with self._changing() as images:
            images[name] = image

    def remove(self, name: str) -> None:
        """From now on containers of that image are simulated. Harmless when it is not in the table."""
        with self._changing() as images:
            images.pop(name, None)

    def _current(self) -> dict[str, Image]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        if found.st_uid != os.getuid() or found.st_mode & _OTHERS:
            raise ConfigError(
                f"{self.path}: others than its user can write it, and so choose what runs on this machine; "
                f"it is not used until it is yours alone: chmod go-w {self.path}"
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
        """The table, written back in one step at the end; one process at a time."""
        import fcntl  # only where there are control planes with processes

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
    """The name of an image as people write it: without the registry that is meant anyway."""
    return name.removeprefix("docker.io/").removeprefix("library/")


def _repository(name: str) -> str:
    """The name without its tag and digest."""
    name = name.partition("@")[0]
    tagged, colon, tag = name.rpartition(":")
    return tagged if colon and "/" not in tag else name
