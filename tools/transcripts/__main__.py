"""Records transcripts, or compares them with the current output (`--check`)."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.transcripts.replay import difference, replay
from tools.transcripts.session import Failed


def main() -> int:
    """Return 1 if a transcript is out of date or cannot be replayed."""
    check = "--check" in sys.argv
    return max([_is_stale(Path(each), check=check) for each in sys.argv[1:] if each != "--check"], default=0)


def _is_stale(path: Path, *, check: bool) -> int:
    written = path.read_text()
    try:
        current = replay(path)
    except Failed as error:
        print(f"{path}: {error}")
        return 1
    if current == written:
        return 0
    print(f"{path}: {'differs from the output of the commands' if check else 'written'}")
    if not check:
        path.write_text(current)
        return 0
    print(difference(written, current))
    return 1


if __name__ == "__main__":
    sys.exit(main())
