"""Writes transcripts down anew, or compares them with what is said now (`--check`)."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.transcripts.replay import difference, replay
from tools.transcripts.session import Failed


def main() -> int:
    """Status 1 when a transcript is not true, or can't be replayed."""
    check = "--check" in sys.argv
    return max([_is_stale(Path(each), check=check) for each in sys.argv[1:] if each != "--check"], default=0)


def _is_stale(path: Path, *, check: bool) -> int:
    written = path.read_text()
    try:
        said = replay(path)
    except Failed as error:
        print(f"{path}: {error}")
        return 1
    if said == written:
        return 0
    print(f"{path}: {'not what the commands say' if check else 'written'}")
    if not check:
        path.write_text(said)
        return 0
    print(difference(written, said))
    return 1


if __name__ == "__main__":
    sys.exit(main())
