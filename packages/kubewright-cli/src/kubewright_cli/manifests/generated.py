"""Generated files beside those of people: what would be written, what is in the way, what is left over.

A generated file says so in its first lines. One that does not is somebody's work: it is never overwritten and never
removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError

HEADER: Final = "# Made by `kubewright generate`, which writes it anew: change nothing here."

_MARK: Final = "Made by `kubewright generate"
_HEAD: Final = 4
"""Lines in which the mark is."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is not what it would be."""

    path: Path
    name: str
    """How it is spoken of: its path from where it was asked for."""
    text: str | None
    """What it would hold; None where it would be gone."""

    @property
    def action(self) -> str:
        return "remove" if self.text is None else "write"

    def diff(self) -> str:
        """From what there is to what would be, as `diff -u` shows it."""
        old = self.path.read_text().splitlines(keepends=True) if self.path.is_file() else []
        new = (self.text or "").splitlines(keepends=True)
        return "".join(unified_diff(old, new, self.name if old else "/dev/null", self.name if new else "/dev/null"))

    def apply(self) -> None:
        """Write the file, or remove it with the folders that are empty then."""
        if self.text is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(self.text)
            return
        self.path.unlink()
        folder = self.path.parent
        while not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def changes(root: Path, files: Mapping[str, str], *, folders: Iterable[str] = ()) -> list[Change]:
    """What there is to do for `files`, texts by path below `root`, to be there, and no generated other in `folders`.

    Raises ConfigError when a file of somebody's is where one of these has to be.
    """
    stale = [Change(root / name, name, text) for name, text in files.items() if _read(root / name) != text]
    foreign = [each.name for each in stale if each.path.exists() and not is_generated(each.path)]
    if foreign:
        raise ConfigError(
            f"{', '.join(foreign)}: not made by `kubewright generate`, and in its way; it is left alone. Move it away, "
            "or remove it, and run this again"
        )
    kept = {root / name for name in files}
    left = (path for folder in folders for path in _files(root / folder) if path not in kept and is_generated(path))
    return stale + [Change(path, str(path.relative_to(root) if root.parts else path), None) for path in left]


def is_generated(path: Path) -> bool:
    """Whether a file says of itself that it is."""
    text = _read(path)
    return text is not None and any(_MARK in line for line in text.splitlines()[:_HEAD])


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _read(path: Path) -> str | None:
    """The text of a file; None where there is none, or something else than text."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None
