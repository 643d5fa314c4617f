"""A program, `python -I -S watch.py`: kills process groups when the control plane that told of them has died.

Each line of its standard input is `+` or `-` and the number of a group. Whoever writes them has died, by whatever
signal, when the input ends.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        if line.endswith("\n"):  # the last may be cut
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
