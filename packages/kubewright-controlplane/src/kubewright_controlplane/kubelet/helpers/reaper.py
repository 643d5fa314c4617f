"""A program, `python -I -S reaper.py`: kills process groups after the control plane has died.

Each line of its standard input is `+` or `-` and the number of a process group. The input ends when its writer dies,
by whatever signal.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        if line.endswith("\n"):  # the last line may be incomplete
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
