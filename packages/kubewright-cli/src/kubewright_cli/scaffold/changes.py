"""Writes all files or none, and overwrites files only on request.

Plan every file, then call `write`. After a failure, all changes are undone. A process that is killed in between leaves
whole files. The same command accepts these files when it runs again, and finishes.
"""

from __future__ import annotations

import difflib
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from kubewright.machinery.errors import ConfigError


class WouldOverwrite(ConfigError):
    """A file that a command would write exists with other content."""

    def __init__(self, message: str, difference: str) -> None:
        super().__init__(message)
        self.difference = difference
        """The difference from the existing to the new content, as a unified diff."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    text: str
    known: str | None
    """The content when the change was planned; None for a file that should not exist."""


class Changes:
    """Planned changes to the files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[_File] = []

    @property
    def paths(self) -> list[str]:
        """The files that `write` would change, relative to the folder, in the order of planning."""
        return [self._relative_path(each) for each in self._files if self._present(each) != each.text]

    def create(self, path: str, text: str) -> None:
        """Plan a new file. An existing file with other content is a conflict."""
        self._files.append(_File(self._root / path, text, None))

    def edit(self, path: str, text: str) -> None:
        """Plan new content for an existing file. It is a conflict if the file changes before `write`."""
        self._files.append(_File(self._root / path, text, (self._root / path).read_text()))

    def write(self, *, overwrite: bool = False) -> None:
        """Write all files.

        Raises WouldOverwrite if there is a conflict, unless `overwrite` is set, and ConfigError if a file cannot be
        written. Nothing has changed then.
        """
        if not overwrite:
            self._refuse_conflicts()
        undo = _Undo()
        try:
            staged = [(each, undo.stage(each.path, each.text)) for each in self._files]
            for each, draft in staged:
                undo.put(draft, each.path)
        except OSError as error:
            undo.all()
            raise ConfigError(f"{error.filename}: {error.strerror}; nothing was written") from error

    def _refuse_conflicts(self) -> None:
        conflicts = [each for each in self._files if self._present(each) not in (None, each.known, each.text)]
        if not conflicts:
            return
        names = ", ".join(map(self._relative_path, conflicts))
        verb = "exists" if len(conflicts) == 1 else "exist"
        raise WouldOverwrite(
            f"{names} {verb} with other content than this command writes; nothing was written",
            "".join(map(self._difference, conflicts)),
        )

    def _difference(self, file: _File) -> str:
        before, after = (text.splitlines(keepends=True) for text in (self._present(file) or "", file.text))
        shown = self._relative_path(file)
        return "".join(difflib.unified_diff(before, after, f"{shown} (existing)", f"{shown} (new)"))

    def _present(self, file: _File) -> str | None:
        return file.path.read_text() if file.path.is_file() else None

    def _relative_path(self, file: _File) -> str:
        return str(file.path.relative_to(self._root))


class _Undo:
    """The changes so far, and how to undo them."""

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._drafts: list[Path] = []
        self._written: list[tuple[Path, bytes | None]] = []

    def stage(self, path: Path, text: str) -> Path:
        """Write a draft next to the file."""
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            self._folders.append(folder)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        self._drafts.append(draft)
        draft.write_text(text)
        if path.exists():
            shutil.copymode(path, draft)
        return draft

    def put(self, draft: Path, path: Path) -> None:
        before = path.read_bytes() if path.exists() else None
        draft.replace(path)
        self._written.append((path, before))

    def all(self) -> None:
        for path, before in reversed(self._written):
            if before is None:
                path.unlink()
            else:
                path.write_bytes(before)
        for draft in self._drafts:
            if draft.exists():
                draft.unlink()
        for folder in reversed(self._folders):
            folder.rmdir()
