"""Transcripts: commands and what they say, kept true by running them again.

In a transcript each line `$ command` is followed by what the command prints and, when it fails, a line `[status 1]`.
Lines that begin with `#` are for readers. The commands run one after the other in one empty folder, which is shown as
`<folder>`, its parent being the user's home, without a terminal and without a cluster.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def replay(transcript: str) -> str:
    """The transcript, with what its commands print now."""
    with tempfile.TemporaryDirectory(prefix="transcript-") as temporary:
        folder = Path(temporary).resolve() / "folder"
        folder.mkdir()
        return "".join(_lines(transcript, folder)).lstrip("\n")


def _lines(transcript: str, folder: Path) -> Iterator[str]:
    for line in transcript.splitlines():
        if line.startswith("#"):
            yield f"\n{line}\n"
        elif line.startswith("$ "):
            yield f"\n{line}\n{_said(line.removeprefix('$ '), folder)}"


def _said(command: str, folder: Path) -> str:
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={"PATH": commands, "HOME": str(folder.parent), "LC_ALL": "C.UTF-8", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    status = f"[status {done.returncode}]\n" if done.returncode else ""
    return done.stdout.replace(str(folder), "<folder>").replace(str(folder.parent), "<home>") + status


def main() -> int:
    """Write down anew (or with `--check`, compare) the transcripts in the folder that is named."""
    check, stale = "--check" in sys.argv, 0
    for path in sorted(Path(sys.argv[1]).glob("*.txt")):
        written = path.read_text()
        said = replay(written)
        if said != written:
            stale += 1
            print(f"{path}: {'not what the commands say' if check else 'written'}")
            if check:
                before, now = written.splitlines(keepends=True), said.splitlines(keepends=True)
                print("".join(difflib.unified_diff(before, now, "written down", "said now")))
            else:
                path.write_text(said)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
