"""Replays transcripts."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.transcripts import page
from tools.transcripts.session import Session

_NOT_COPIED: Final = shutil.ignore_patterns(".*_cache", "__pycache__", ".venv", ".kubewright", "*.egg-info")


def replay(transcript: Path) -> str:
    """Return the transcript with the current output of its commands.

    A Markdown page in a project runs in a copy of the project, any other page in an empty home.

    Raises Failed if the transcript cannot be replayed.
    """
    with tempfile.TemporaryDirectory(prefix="transcript-") as temporary:
        home = Path(temporary).resolve() / "home"
        folder = home / transcript.resolve().parent.name
        if transcript.suffix != ".md":
            folder.mkdir(parents=True)
            with Session(home, folder) as session:
                return "".join(_lines(transcript.read_text(), session, folder)).lstrip("\n")
        if (transcript.parent / "pyproject.toml").exists():
            shutil.copytree(transcript.parent, folder, ignore=_NOT_COPIED)
        else:
            home.mkdir()
            folder = home
        with Session(home, folder) as session:
            return page.replay(transcript.read_text(), session)


def difference(written: str, said: str) -> str:
    """Return how two versions of a transcript differ, line by line."""
    before, now = written.splitlines(keepends=True), said.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, now, "recorded", "now"))


def _lines(transcript: str, session: Session, folder: Path) -> Iterator[str]:
    """Yield the lines of a text file: `$ command`, its output, and `[status 1]` if it fails. `#` begins a comment.

    Each command runs in a new shell; only files remain. The folder is shown as `<folder>`, and its parent, the user's
    home, as `<home>`.
    """
    for line in transcript.splitlines():
        if line.startswith("#"):
            yield f"\n{line}\n"
        elif line.startswith("$ "):
            said, status = session.run(f"({line.removeprefix('$ ')}\n)")
            said = said.replace(str(folder), "<folder>").replace(str(folder.parent), "<home>")
            failed = f"[status {status}]\n" if status else ""
            yield f"\n{line}\n{said}{failed}"
